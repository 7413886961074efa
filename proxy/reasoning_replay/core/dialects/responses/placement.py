"""
Placement: decides which reasoning a request lacks, and where it is injected.

`plan_injection` is pure and total: it takes the matches and returns edits, with counted reasons.
It follows the rules of the API (pairing by id both ways, order, no reasoning at the end):

- A run of reasoning goes directly before the first item of its group that the client still sends.
  A group is the item that the run led to and the items after it, up to the next run.
- It is injected in a form that upstream accepts, with ids or without (`id_policy`).
- If reasoning exists but may not be injected, the ids that require it are removed instead
  (*degrade*), if upstream accepts the items without them.
- A message that was emitted with a `phase`, and comes back without it, gets it back.
- Reasoning that the client replays itself is left alone. It is recognised by its id, by any of its
  blobs, or by its place before an item of its group.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import override

from reasoning_replay.core.dialects.planner import Planner
from reasoning_replay.core.dialects.responses.emitted import PHASE, has_phase, phase_of
from reasoning_replay.core.dialects.responses.id_policy import (
    FollowingItems,
    choose_form,
    id_removals,
)
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.responses.reasoning_runs import (
    ReasoningRun,
    RunPosition,
    groups_of,
    replayed_reasoning,
)
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import is_known_not_to_reason
from reasoning_replay.core.history.plan import (
    ItemForm,
    Outcome,
    Plan,
    PlanNote,
    outcome_of_withheld,
)
from reasoning_replay.core.wire.json_spans import Edit, inserted

_NO_PLAN = Plan()
_MODEL, _REASONING = Role.MODEL, Role.REASONING


def plan_injection(request: Request, matched: Matches, profile: Profile) -> Plan:
    """
    Return a plan with edits that do not overlap.

    They only insert whole reasoning items, insert ids and phases that upstream emitted, or remove
    ids. If the request is stateful, the items that upstream holds are not matched.
    """
    if not (matched.matches or matched.ambiguous) and (request.is_stateful or not request.run):
        return _NO_PLAN  # it holds no model items, as far as is known
    groups = groups_of(matched.matches)
    replayed = replayed_reasoning(request, groups)
    return _Planner(request, matched, groups, profile=profile, replayed=replayed).plan()


@dataclass(eq=False, kw_only=True)
class _Planner(Planner[Request, ReasoningRun]):
    profile: Profile
    replayed: Mapping[RunPosition, int]

    @override
    def decide(self, group: ReasoningRun) -> None:
        turn, replayed = group.turn, self.replayed
        head = turn.items[group.head]
        if head.withheld:
            ahead = self.request.places[max(0, group.places[0] - 1)].item.role
            if ahead in (Role.REASONING, Role.REFERENCE):
                return  # the client replays it anyway, at its own risk
            self._guard(group, outcome_of_withheld([head]), head.lacks, is_partial=False)
            return
        run = group.run
        missing = [*range(len(run))]
        if replayed:
            positions = group.positions
            missing = [n for n in missing if positions[n] not in replayed]
            present = [replayed[one] for one in positions if one in replayed]
            self.notes += [PlanNote(index, Outcome.PRESENT) for index in present]
            if not missing:
                return
        is_partial = len(missing) < len(run)
        if not (self.is_of_model(turn) and self.profile.takes_reasoning):
            self._guard(group, Outcome.GUARDED_MODEL, len(missing), is_partial=is_partial)
            return
        parts = [run[n] for n in missing]
        form = choose_form(self.request, self.profile, self._following(group), parts)
        if form is None or self._is_displaced(group):
            self._guard(group, Outcome.GUARDED_FORM, len(missing), is_partial=is_partial)
            return
        for n, raw in zip(missing, form.parts, strict=True):
            index = self._place_of(group, n)
            at = self.request.places[index].item.start
            self.edits += inserted(at, raw)
            self.note_injected(index, raw, run[n].id)
        self.edits += form.edits

    def _is_displaced(self, group: ReasoningRun) -> bool:
        """
        Return whether the unknown item directly before the anchor may be the run's own item.

        A text without an id is not: the client wrote it, and upstream demands nothing before it.
        """
        anchor = group.places[0]
        if self.matched.matches[anchor].k == group.head:
            return False
        ahead = anchor - 1
        while ahead >= 0 and self.request.places[ahead].item.role is Role.REASONING:
            ahead -= 1
        if ahead < 0 or ahead in self.matched.matches:
            return False
        item = self.request.places[ahead].item
        return item.role is Role.MODEL and (item.type != "message" or item.id != "")

    def _place_of(self, group: ReasoningRun, n: int) -> int:
        """Return where to insert: before the anchor, or before a later part of the same run."""
        places, anchor, replayed = self.request.places, group.places[0], self.replayed
        if not replayed:
            return anchor
        later = (replayed.get(one) for one in group.positions[n + 1 :])
        sibling = next((index for index in later if index is not None), None)
        if sibling is not None and sibling < anchor:
            between = places[sibling:anchor]
            if all(place.item.role in (Role.REASONING, Role.REFERENCE) for place in between):
                return sibling
        return anchor

    def _following(self, group: ReasoningRun) -> FollowingItems:
        places, matches = self.request.places, self.matched.matches
        return FollowingItems(
            pairs=[(places[index].item, matches[index].emitted) for index in group.places],
            has_head=matches[group.places[0]].k == group.head,
            is_stored=group.turn.is_stored,
        )

    def _guard(
        self, group: ReasoningRun, outcome: Outcome, count: int, *, is_partial: bool
    ) -> None:
        self.notes.append(PlanNote(group.places[0], outcome, count))
        if is_partial:
            return  # the client replays a part of the run; its intent is unknown
        if not self.profile.checks_pairs:
            return  # this upstream requires no reasoning by id
        for index, pair in zip(group.places, self._following(group).pairs, strict=True):
            removals = id_removals(self.request.body, [pair])
            if removals:
                self.edits += removals
                self.notes.append(PlanNote(index, ItemForm.DEGRADED))

    @override
    def decide_rest(self) -> None:
        if self.profile.takes_phase:
            self._add_phases()
        self._note_unknown()

    def _add_phases(self) -> None:
        """Add to each message the `phase` that upstream emitted it with, as its last member."""
        for index, match in self.matched.matches.items():
            item, emitted = self.request.places[index].item, match.emitted
            if item.type != "message" or has_phase(item.raw) or not self.is_of_model(match.turn):
                continue
            is_same = item.id == emitted.id != "" or item.content == emitted.content != b""
            if is_same and (phase := phase_of(emitted)):
                at = item.end - 1
                self.edits.append(Edit(at, at, b"," + PHASE + b":" + phase))
                self.notes.append(PlanNote(index, ItemForm.PHASE))

    def _note_unknown(self) -> None:
        """Note each ambiguous item, and each run of emitted items without any match."""
        for index in sorted(self.matched.ambiguous):
            self.notes.append(PlanNote(index, Outcome.AMBIGUOUS))
        if self.request.is_stateful or is_known_not_to_reason(self.request.model):
            return  # upstream holds the unknown part, or the model does not reason
        matches, ambiguous = self.matched.matches, self.matched.ambiguous
        if matches.keys() >= set(self.request.anchors):
            return  # the usual case: every item was matched
        is_run = False
        for index, place in enumerate(self.request.places):
            role = place.item.role
            if role is _MODEL and not is_run and index not in matches and index not in ambiguous:
                self.notes.append(PlanNote(index, Outcome.MISSED))
            is_run = role is _MODEL or role is _REASONING
