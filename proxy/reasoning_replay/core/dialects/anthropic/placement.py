"""
Placement: decides which reasoning the messages of a request lack, and injects it as blocks.

`plan_injection` is pure and total: it takes the matches and returns edits, with counted reasons.

- A message gets the reasoning of a turn if its blocks are those of the turn, one by one, in order,
  with the same content; it gets all of it or none. Adjacent assistant messages count as one.
- If all reasoning leads the turn, and the message has all calls of the turn, in order, with random
  ids, it leads the message, whatever text the client has before the calls; except one that another
  turn emitted, unless upstream demands it.
- A message in which the client sends reasoning itself is completed, replaced or left alone
  (`completion`).
- Each block goes to the place where it was emitted (`block_edits`).
- If the model binds reasoning to the history before it, that history decides (`prefix_walk`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from reasoning_replay.core.dialects.anthropic.binding import read_binding
from reasoning_replay.core.dialects.anthropic.block_edits import DueBlock, edits_of
from reasoning_replay.core.dialects.anthropic.capture import is_at_end, place_of
from reasoning_replay.core.dialects.anthropic.completion import kept_of
from reasoning_replay.core.dialects.anthropic.items import MESSAGE, MessagesItem
from reasoning_replay.core.dialects.anthropic.message_groups import MessageGroup, groups_of
from reasoning_replay.core.dialects.anthropic.prefix_walk import BoundEdits, walk
from reasoning_replay.core.dialects.anthropic.profiles import Profile
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import (
    Outcome,
    Plan,
    PlanNote,
    outcome_of_withheld,
    outcomes_of,
)
from reasoning_replay.core.history.turns import Emitted, Reasoning, Turn
from reasoning_replay.core.wire.json_spans import Edit


def plan_injection(
    request: MessagesRequest,
    matched: Matches,
    profile: Profile,
    completes: Callable[[Turn], bool] = lambda _: False,
    *,
    demands: bool = False,
) -> Plan:
    """
    Return a plan with edits that do not overlap.

    They insert blocks, and the syntax that turns a text into a list of blocks; and they remove the
    client's reasoning where it is completed: that of a turn for which `completes` says so. The
    binding is b"" if the model binds nothing.

    `demands` says whether the model has refused messages without their reasoning. Then a dated name
    of a model and its alias are one model: without it, the request is refused anyway.
    """
    return _Planner(request, matched, profile, completes, demands=demands).run()


class _Planned(NamedTuple):
    """
    The reasoning to inject into one group.

    Attributes:
        added: The blocks that are injected.
        kept: Number of the client's blocks that stay with them.
    """

    group: MessageGroup
    added: Sequence[DueBlock]
    kept: int
    bound: BoundEdits


class _Planner:
    def __init__(
        self,
        request: MessagesRequest,
        matched: Matches,
        profile: Profile,
        completes: Callable[[Turn], bool],
        *,
        demands: bool,
    ) -> None:
        self._request = request
        self._completes = completes
        self._matched = matched
        self._profile = profile
        self._demands = demands
        self._is_off = request.is_switched_off
        self._notes: list[PlanNote] = []

    def run(self) -> Plan:
        groups = groups_of(self._request, self._matched)
        planned = {group.first: made for group in groups if (made := self._plan(group))}
        self._note_unknown(groups)
        due, prefix, open_from = set(planned), b"", None
        if self._needs_prefix(groups):
            if self._request.given.items and not self._request.bound_to:
                raise Reopened  # the digest of what is given is not known
            open_from = 0 if self._goes_on() else len(self._request.places)
            bound = {first: made.bound for first, made in planned.items()}
            began = read_binding(self._request.bound_to)
            due, prefix = walk(self._request, groups, bound, began)
        edits: list[Edit] = []
        completed: dict[int, bytes] = {}
        for first, (group, added, kept, bound_edits) in planned.items():
            if first not in due:
                self._guard(group, Outcome.GUARDED_PREFIX, len(added))
                continue
            edits += bound_edits.edits
            if group.theirs:
                conversation = bound_edits.turn.conversation
                completed |= {message.start: conversation for message in group.messages}
            self._note(group, Outcome.PRESENT, kept)
            self._notes += [
                PlanNote(index, Outcome.INJECTED, 1, len(part.raw), part.id)
                for index, _, part in added
            ]
        notes = tuple(sorted(self._notes, key=lambda note: note.place))
        return Plan(tuple(edits), outcomes_of(notes), notes, completed, prefix, open_from)

    def _goes_on(self) -> bool:
        """Return whether what is bound was made after all that is given."""
        newest = self._matched.newest() if self._matched.matches else None
        return newest is None or newest.binding.startswith(self._request.bound_to)

    def _needs_prefix(self, groups: Sequence[MessageGroup]) -> bool:
        """Return whether the request's history may be what reasoning is bound to."""
        turns = [turn for group in groups for turn in group.turns.values()]
        if turns:
            return any(map(self._is_bound, turns))
        return self._profile.may_bind(self._request.model)

    def _is_bound(self, turn: Turn) -> bool:
        """Return whether a turn is bound: by the requested model, or by the one that responded."""
        return any(map(self._profile.is_bound, (self._request.model, *turn.models)))

    def _plan(self, group: MessageGroup) -> _Planned | None:
        """Return the reasoning of a turn for its message; None, with a note, if it must not go."""
        turn = group.turn
        due = self._due(group, turn) if turn is not None else None
        if turn is None or due is None:
            known = (item for turn in group.turns.values() for item in turn.items)
            self._guard(group, Outcome.GUARDED_FORM, sum(len(item.run) for item in known))
        elif withheld := [item for item in turn.items if item.withheld]:
            self._guard(group, outcome_of_withheld(withheld), len(withheld))
        elif (outcome := self._reason_not_to(turn)) is not None:
            self._guard(group, outcome, len(due))
        else:
            return self._plan_of(group, turn, due)
        return None

    def _plan_of(self, group: MessageGroup, turn: Turn, due: Sequence[DueBlock]) -> _Planned | None:
        kept = self._kept(group, turn, due) if group.theirs else {}
        edits = edits_of(group, due, kept) if due and kept is not None else None
        if kept is None or edits is None:
            self._guard(group, Outcome.GUARDED_FORM, len(due))
            return None
        added = [block for n, block in enumerate(due) if n not in kept]
        _, number, last = due[-1]
        bound = BoundEdits(turn, edits, number, last.blobs[0], self._is_bound(turn))
        return _Planned(group, added, len(kept), bound)

    def _kept(
        self, group: MessageGroup, turn: Turn, due: Sequence[DueBlock]
    ) -> Mapping[int, MessagesItem] | None:
        """Return what the client sends of a turn's reasoning, as `kept_of`."""
        models = self._request.model, *turn.models
        signs = any(map(self._profile.signs, models)) and all(one.part.has_blob for one in due)
        is_proven = any(
            self._is_certain(index, self._matched.matches[index].emitted)
            for index in group.places
            if index in self._matched.matches
        )
        is_refused = self._completes(turn)
        return kept_of(group, due, signs=signs, is_proven=is_proven, is_refused=is_refused)

    def _due(self, group: MessageGroup, turn: Turn) -> list[DueBlock] | None:
        """Return the reasoning of a turn, with the places where it is due; None if unclear."""
        if self._is_verbatim(group.places, turn):
            both = zip(group.places, turn.items, strict=True)
            parts = [(index, part) for index, item in both for part in item.run]
            return self._numbered(group, parts)
        if not (self._has_calls(group, turn) and self._begins_run(group)):
            return None
        first = group.places[0]
        if not self._demands and self._repeats_another(group, turn):
            own = group.places[-len(turn.items) :]
            if not self._is_verbatim(own, turn):
                return None
            first = own[0]
        return self._numbered(group, [(first, part) for part in turn.items[0].run])

    def _numbered(
        self, group: MessageGroup, parts: Sequence[tuple[int, Reasoning]]
    ) -> list[DueBlock] | None:
        """Return blocks with the number of blocks before them; None if that is not certain."""
        number_of = {block.start: number for number, block in enumerate(group.blocks)}
        size, due = len(number_of), []
        for index, part in parts:
            number = size if is_at_end(part) else number_of[self._item(index).start]
            if size > len(group.places):  # the client kept blank text
                number = place_of(part)
                ahead = sum(number_of[self._item(each).start] < number for each in group.places)
                if ahead != group.places.index(index) + is_at_end(part) or number > size:
                    return None
            due.append(DueBlock(index, number, part))
        return due

    def _repeats_another(self, group: MessageGroup, turn: Turn) -> bool:
        """Return whether a group has a text that another turn emitted, and this one did not."""
        own = {item.content for item in turn.items}
        texts = {self._item(index).content for index in group.places} - own
        return any(self._turns_that_say[text] - {turn.id} for text in texts)

    @cached_property
    def _turns_that_say(self) -> Mapping[bytes, set[bytes]]:
        """The turns that emitted a text, by its content."""
        said: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for turn in self._matched.found:
            for item in turn.items:
                if item.type == MESSAGE:
                    said[item.content].add(turn.id)
        return said

    def _begins_run(self, group: MessageGroup) -> bool:
        """Return whether no item of the model is before a group, with a system message between."""
        roles = (self._item(index).role for index in reversed(range(group.places[0])))
        return next((role for role in roles if role is not Role.FRAME), None) is not Role.MODEL

    def _has_calls(self, group: MessageGroup, turn: Turn) -> bool:
        """Return whether a turn's only run leads it, and a group is its calls after any text."""
        first, *others = turn.items
        if any(map(place_of, first.run)) or any(item.run or item.withheld for item in others):
            return False
        calls = [item for item in turn.items if item.type != MESSAGE]
        sent = [index for index in group.places if self._item(index).type != MESSAGE]
        n = len(calls)
        if not 0 < n == len(sent) or [*turn.items[-n:]] != calls or group.places[-n:] != sent:
            return False
        return all(map(self._is_certain, sent, calls))

    def _is_certain(self, index: int, emitted: Emitted) -> bool:
        """Return whether an item is an emitted call without doubt: by its id and its content."""
        item, match = self._item(index), self._matched.matches.get(index)
        return (
            match is not None
            and match.emitted is emitted
            and item.call_id == emitted.call_id
            and is_distinctive(item.call_id, item.name)
            and item.content == emitted.content
        )

    def _is_verbatim(self, places: Sequence[int], turn: Turn) -> bool:
        """Return whether the items at these places are a turn, all of it, with the same content."""
        if len(places) != len(turn.items):
            return False
        for k, (index, emitted) in enumerate(zip(places, turn.items, strict=True)):
            match = self._matched.matches.get(index)
            if match is None or (match.turn.id, match.k) != (turn.id, k):
                return False
            if emitted.content != self._item(index).content:
                return False
        return True

    def _reason_not_to(self, turn: Turn) -> Outcome | None:
        """Return why a turn's reasoning may not be injected in this request; None if it may."""
        if self._is_off:
            return Outcome.SKIPPED
        if not self._is_of_model(turn):
            return Outcome.GUARDED_MODEL
        parts = (part for item in turn.items for part in item.run)
        if self._profile.is_signed and not all(part.has_blob for part in parts):
            return Outcome.GUARDED_FORM
        return None

    def _is_of_model(self, turn: Turn) -> bool:
        """Return whether the requested model made a turn, by the names that are known for it."""
        model = self._request.model
        if model in turn.models:
            return True
        return self._demands and family(model) in map(family, turn.models)

    def _note_unknown(self, groups: Sequence[MessageGroup]) -> None:
        """Note each ambiguous item, and each group of which nothing is known."""
        ambiguous = self._matched.ambiguous
        for group in groups:
            if group.matches or group.replayed:
                continue
            unclear = [index for index in group.places if index in ambiguous]
            self._notes += [PlanNote(index, Outcome.AMBIGUOUS) for index in unclear]
            if not unclear:
                self._note(group, Outcome.MISSED, 1)

    def _item(self, index: int) -> MessagesItem:
        return self._request.places[index].item

    def _guard(self, group: MessageGroup, outcome: Outcome, count: int) -> None:
        """Note why a group gets nothing; if the client sends any, that is there."""
        if group.theirs:
            self._note(group, Outcome.PRESENT, group.replayed)
        else:
            self._note(group, outcome, count)

    def _note(self, group: MessageGroup, outcome: Outcome, count: int) -> None:
        if count:
            self._notes.append(PlanNote(group.first, outcome, count))
