"""
Placement: decides which reasoning the messages of a request lack, and injects it as members.

`plan_injection` is pure and total: it takes the matches and returns edits, with counted reasons.

- A message gets the reasoning of a turn if all its items come from that turn, in its order, and no
  other message holds items of it. Members of a tool call go to that call only.
- A message in which the client sends any reasoning itself is left alone.
- A member is added at the end of its object; a `null` value of the same name is replaced.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from reasoning_replay.core.dialects.chat.items import ChatItem
from reasoning_replay.core.dialects.chat.members import (
    EMPTY_TEXT,
    is_of_call,
    name_of,
    value_of,
)
from reasoning_replay.core.dialects.chat.messages import ChatMessage
from reasoning_replay.core.dialects.chat.profiles import Policy
from reasoning_replay.core.dialects.chat.request import ChatRequest
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import family, is_known_not_to_reason
from reasoning_replay.core.history.plan import Outcome, Plan, PlanNote, outcomes_of
from reasoning_replay.core.history.turns import Reasoning, Turn
from reasoning_replay.core.wire.json_spans import Edit, Member, Unspliceable

__all__ = ["plan_injection"]

_NO_PLAN = Plan()
_ENCRYPTED = b'"reasoning.encrypted"'


def plan_injection(request: ChatRequest, matched: Matches, policy: Policy) -> Plan:
    """
    Decide the edits of one request.

    Args:
        request: Parsed request.
        matched: Origin of each matched item.
        policy: See Policy.

    Returns:
        A plan with edits that do not overlap. They only insert members, or replace a `null`.
    """
    return _Planner(request, matched, policy).run() if request.run else _NO_PLAN


class _Group(msgspec.Struct, gc=False):
    """
    The items of one assistant message.

    Attributes:
        places: Indices into `ChatRequest.places`, in ascending order.
        matches: The captured items of the places that are matched.
        turns: The turns that they come from, by id.
    """

    message: ChatMessage
    places: list[int]
    matches: list[Match]
    turns: dict[bytes, Turn]

    @property
    def is_of_one_turn(self) -> bool:
        """Whether all its items come from one turn, in its order."""
        if len(self.matches) < len(self.places) or len(self.turns) != 1:
            return False
        order = [match.k for match in self.matches]
        return order == sorted(order)


class _Planner:
    def __init__(self, request: ChatRequest, matched: Matches, policy: Policy) -> None:
        self._request = request
        self._matched = matched
        self._policy = policy
        self._family = family(request.model)
        self._is_off = request.is_switched_off
        self._edits: list[Edit] = []
        self._notes: list[PlanNote] = []
        self._round_start = _start_of_round(request) if policy.is_current_only else 0

    def run(self) -> Plan:
        groups = self._groups()
        holders = Counter(turn for group in groups for turn in group.turns)
        is_run = False  # whether the last message was noted as a part of a run of unknown ones
        last = -2
        for group in groups:
            is_run = is_run and last == group.places[0] - 1
            last = group.places[-1]
            if group.message.replayed:
                note = PlanNote(group.places[0], Outcome.PRESENT, group.message.replayed)
                self._notes.append(note)
            elif group.turns:
                self._decide(group, holders)
            else:
                is_run = self._note_unknown(group, is_run=is_run)
        return Plan(tuple(self._edits), outcomes_of(self._notes), tuple(self._notes))

    def _groups(self) -> list[_Group]:
        """Return the assistant messages that hold items, in order."""
        matches = self._matched.matches
        groups: list[_Group] = []
        last: ChatMessage | None = None
        for index in self._request.anchors:
            message = self._item(index).message
            if message is not last:
                last = message
                groups.append(_Group(message, [], [], {}))
            group = groups[-1]
            group.places.append(index)
            if (match := matches.get(index)) is not None:
                group.matches.append(match)
                group.turns[match.turn.id] = match.turn
        return groups

    def _note_unknown(self, group: _Group, *, is_run: bool) -> bool:
        """Note a message of which nothing is known; return whether the run of them goes on."""
        ambiguous = [index for index in group.places if index in self._matched.ambiguous]
        self._notes += [PlanNote(index, Outcome.AMBIGUOUS) for index in ambiguous]
        if ambiguous or is_known_not_to_reason(self._request.model):
            return False
        if not is_run:
            self._notes.append(PlanNote(group.places[0], Outcome.MISSED))
        return True

    def _decide(self, group: _Group, holders: Counter[bytes]) -> None:
        """Inject the reasoning of a turn into its message, or note why not."""
        first = group.places[0]
        turn = group.matches[0].turn
        if not group.is_of_one_turn or holders[turn.id] > 1:
            count = sum(len(item.run) for turn in group.turns.values() for item in turn.items)
            self._note(first, Outcome.GUARDED_FORM, count)
            return
        due = self._due(group, turn)
        parts = [part for _, run in due for part in run]
        count = len(parts)
        if not count:
            return
        if (outcome := self._reason_not_to(group, turn)) is not None:
            self._note(first, outcome, count)
            return
        if not self._has_named_calls(group, turn, parts):
            self._note(first, Outcome.GUARDED_FORM, count)
            return
        try:
            edits = [edit for index, run in due for edit in self._edits_of(index, run)]
        except Unspliceable:
            self._note(first, Outcome.GUARDED_FORM, count)
            return
        self._edits += edits
        self._notes += [
            PlanNote(index, Outcome.INJECTED, 1, len(part.raw), name_of(part))
            for index, run in due
            for part in run
        ]

    def _due(self, group: _Group, turn: Turn) -> list[tuple[int, list[Reasoning]]]:
        """Return the members to inject, each run with the place of its message or call."""
        first, head = group.places[0], turn.items[0]
        withheld = int(head.withheld)
        due = [(first, self._chosen([part for part in head.run if not is_of_call(part)]))]
        for index, match in zip(group.places, group.matches, strict=True):
            emitted = match.emitted
            withheld += match.k > 0 and emitted.withheld
            if emitted.run:
                of_call = [part for part in emitted.run if is_of_call(part)]
                due.append((index, [part for part in of_call if self._is_taken(part)]))
        self._note(first, Outcome.GUARDED_UNFINISHED, withheld)
        return [(index, run) for index, run in due if run]

    def _chosen(self, parts: list[Reasoning]) -> list[Reasoning]:
        """Return the members of a message that upstream takes."""
        profile = self._policy.profile
        if not (profile.demands_empty or self._policy.demands):
            parts = [part for part in parts if value_of(part) != EMPTY_TEXT]
        if profile.takes is not None:
            parts = [part for part in parts if part.id in profile.takes]
        parts = [part for part in parts if self._is_taken(part)]
        if profile.alone:
            parts = [part for part in parts if part.id in profile.alone][:1] or parts
        return parts

    def _is_taken(self, part: Reasoning) -> bool:
        """Return whether the model has not refused a member."""
        return name_of(part) not in self._policy.refused

    def _reason_not_to(self, group: _Group, turn: Turn) -> Outcome | None:
        """Return why a turn's reasoning may not be injected in this request; None if it may."""
        if self._is_off and not turn.switched_off:
            return Outcome.SKIPPED
        if group.places[0] < self._round_start:
            return Outcome.SKIPPED
        return None if self._family in turn.models else Outcome.GUARDED_MODEL

    def _has_named_calls(self, group: _Group, turn: Turn, parts: Iterable[Reasoning]) -> bool:
        """Return whether the message has the calls whose ids encrypted reasoning names."""
        encrypted = [part.raw for part in parts if _ENCRYPTED in part.raw]
        if not encrypted:
            return True
        ours = {self._item(index).call_id for index in group.places}
        others = {item.call_id for item in turn.items} - ours - {""}
        names = [msgspec.json.encode(call_id) for call_id in others]
        return not any(name in raw for raw in encrypted for name in names)

    def _edits_of(self, index: int, run: Sequence[Reasoning]) -> list[Edit]:
        """Return the edits that inject members into the message or the call at a place."""
        item = self._item(index)
        message = item.message
        if not is_of_call(run[0]):
            return _edits(message.start, message.members, run)
        if item.number < 0:
            raise Unspliceable("the client sends the call in the old form")
        return _edits(message.start, message.members_of_call(item.number), run)

    def _item(self, index: int) -> ChatItem:
        return self._request.places[index].item

    def _note(self, index: int, outcome: Outcome, count: int) -> None:
        if count:
            self._notes.append(PlanNote(index, outcome, count))


def _edits(start: int, members: dict[str, Member], run: Iterable[Reasoning]) -> list[Edit]:
    edits: list[Edit] = []
    added = b""
    for part in run:
        null = members.get(name_of(part))
        if null is None:
            added += b"," + part.raw
        else:
            edits.append(Edit(start + null.start, start + null.end, value_of(part)))
    if added:
        end = start + next(reversed(members.values())).end
        edits.append(Edit(end, end, added))
    return edits


def _start_of_round(request: ChatRequest) -> int:
    """Return the index after the last message of the user; 0 if there is none."""
    for index in range(len(request.places) - 1, -1, -1):
        item = request.places[index].item
        if item.role is Role.CLIENT and item.type == "message":
            return index + 1
    return 0
