"""
Placement: decides which reasoning the messages of a request lack, and injects it as blocks.

`plan_injection` is pure and total: it takes the matches and returns edits, with counted reasons.

- A message gets the reasoning of a turn if its blocks are those of the turn, one by one, in order,
  with the same content; it gets all of it or none. Adjacent assistant messages count as one.
- If all reasoning leads the turn, and the message has all calls of the turn, in order, with random
  ids, it leads the message, whatever text the client has before the calls.
- A message in which the client sends any reasoning itself is left alone, unless upstream refused
  what the client makes of it: then the captured reasoning goes in its place (*completed*).
- Each block goes to the place where it was emitted. A `content` that is a string becomes a list.
- If the model binds reasoning to the history before it, that history decides (`prefix_walk`).
"""

from bisect import bisect
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reasoning_replay.core.dialects.anthropic.binding import normal, read_binding
from reasoning_replay.core.dialects.anthropic.capture import place_of
from reasoning_replay.core.dialects.anthropic.items import MESSAGE, MessagesItem
from reasoning_replay.core.dialects.anthropic.message_groups import (
    Block,
    MessageGroup,
    groups_of,
)
from reasoning_replay.core.dialects.anthropic.prefix_walk import BoundEdits, walk
from reasoning_replay.core.dialects.anthropic.profiles import Profile
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
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
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, inserted

_BEFORE_TEXT = b',{"type":"text","text":'
_AFTER_TEXT = b"}]"


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
    """The reasoning to inject into one group: each block with the place of its follower."""

    group: MessageGroup
    parts: Sequence[tuple[int, Reasoning]]
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
        planned = {group.start: made for group in groups if (made := self._plan(group))}
        self._note_unknown(groups)
        due, prefix = set(planned), b""
        if self._needs_prefix(groups):
            bound = {start: made.bound for start, made in planned.items()}
            began = read_binding(self._request.bound_to)
            due, prefix = walk(self._request, groups, bound, began)
        edits: list[Edit] = []
        completed: dict[int, bytes] = {}
        for start, (group, parts, bound_edits) in planned.items():
            if start not in due:
                self._guard(group, Outcome.GUARDED_PREFIX, len(parts))
                continue
            edits += bound_edits.edits
            if group.theirs:
                conversation = bound_edits.turn.conversation
                completed |= {message.start: conversation for message in group.messages}
            self._notes += [
                PlanNote(index, Outcome.INJECTED, 1, len(part.raw), part.id)
                for index, part in parts
            ]
        notes = tuple(sorted(self._notes, key=lambda note: note.place))
        return Plan(tuple(edits), outcomes_of(notes), notes, completed, prefix)

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
        if group.theirs and not (turn is not None and self._is_damaged(group, turn)):
            self._guard(group, Outcome.PRESENT, 1)
            return None
        parts = self._parts(group, turn) if turn is not None else None
        if turn is None or parts is None:
            known = (item for turn in group.turns.values() for item in turn.items)
            self._guard(group, Outcome.GUARDED_FORM, sum(len(item.run) for item in known))
        elif withheld := [item for item in turn.items if item.withheld]:
            self._guard(group, outcome_of_withheld(withheld), len(withheld))
        else:
            return self._plan_of(group, turn, parts)
        return None

    def _is_damaged(self, group: MessageGroup, turn: Turn) -> bool:
        """Return whether the client sends other reasoning than the turn's, which upstream wants."""
        if not self._completes(turn):
            return False
        run = [part for item in turn.items for part in item.run]
        emitted = [(place_of(part), normal(part.raw)) for part in run]
        others = [block.start for block in group.blocks]
        sent = [(bisect(others, item.start), normal(item.raw)) for item in group.theirs]
        return bool(emitted) and emitted != sent

    def _plan_of(
        self, group: MessageGroup, turn: Turn, parts: Sequence[tuple[int, Reasoning]]
    ) -> _Planned | None:
        outcome = self._reason_not_to(turn)
        edits = self._edits(group, parts) if parts and outcome is None else None
        if edits is None:
            self._guard(group, outcome or Outcome.GUARDED_FORM, len(parts))
            return None
        last = parts[-1][1]
        bound = BoundEdits(turn, edits, place_of(last), last.blobs[0], self._is_bound(turn))
        return _Planned(group, parts, bound)

    def _parts(self, group: MessageGroup, turn: Turn) -> list[tuple[int, Reasoning]] | None:
        """Return the reasoning of a turn, with the index before which it goes; None if unclear."""
        if self._is_verbatim(group, turn):
            both = zip(group.places, turn.items, strict=True)
            return [(index, part) for index, item in both for part in item.run]
        if self._has_calls(group, turn) and self._begins_run(group):
            return [(group.places[0], part) for part in turn.items[0].run]
        return None

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

    def _is_verbatim(self, group: MessageGroup, turn: Turn) -> bool:
        """Return whether the blocks of a group are those of a turn, with the same content."""
        both = zip(group.places, turn.items, strict=False)
        return group.has_whole_turn and all(
            item.content == self._item(index).content for index, item in both
        )

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

    def _edits(
        self, group: MessageGroup, parts: Sequence[tuple[int, Reasoning]]
    ) -> list[Edit] | None:
        """Return the edits that inject blocks; None if their place is not certain."""
        blocks = group.blocks
        number_of = {block.start: number for number, block in enumerate(blocks)}
        runs: dict[Block, list[bytes]] = {}
        for index, part in parts:
            number = number_of[self._item(index).start]
            if len(blocks) > len(group.places):  # the client kept blank text
                place = place_of(part)
                ahead = [each for each in group.places if number_of[self._item(each).start] < place]
                if len(ahead) != group.places.index(index):
                    return None
                number = place
            runs.setdefault(blocks[number], []).append(part.raw)
        edits, emptied = _without_theirs(group)
        for block, run in runs.items():
            if block.start in emptied:
                start, end = emptied.pop(block.start)
                edits.append(Edit(start, end, b",".join(run)))
            elif block.is_content:
                edits.append(Edit(block.start, block.start, b"[" + b",".join(run) + _BEFORE_TEXT))
                edits.append(Edit(block.end, block.end, _AFTER_TEXT))
            else:
                edits += [edit for raw in run for edit in inserted(block.start, raw)]
        return edits if not emptied else None

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


def _without_theirs(group: MessageGroup) -> tuple[list[Edit], dict[int, tuple[int, int]]]:
    """
    Return the edits that take the client's reasoning out of a group.

    A message that has nothing else is not emptied. The second result has the range of its blocks,
    by the offset of the block after it.
    """
    edits: list[Edit] = []
    emptied: dict[int, tuple[int, int]] = {}
    others = group.blocks
    for message in group.messages:
        gone = {item.number for item in group.theirs if item.message is message}
        if gone and len(gone) == len(message.blocks):
            after = next((block.start for block in others if block.start > message.start), -1)
            emptied[after] = message.blocks[0][0], message.blocks[-1][1]
        elif gone:
            edits += json_spans.removals(message.blocks, gone)
    return edits, emptied
