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
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from typing_extensions import override

from reasoning_replay.core.dialects.anthropic.binding import read_binding
from reasoning_replay.core.dialects.anthropic.block_edits import DueBlock, edits_of
from reasoning_replay.core.dialects.anthropic.capture import is_at_end, place_of
from reasoning_replay.core.dialects.anthropic.completion import kept_of
from reasoning_replay.core.dialects.anthropic.items import MESSAGE, MessagesItem
from reasoning_replay.core.dialects.anthropic.message_groups import MessageGroup, groups_of
from reasoning_replay.core.dialects.anthropic.prefix_walk import BoundEdits, walk
from reasoning_replay.core.dialects.anthropic.profiles import Profile
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.dialects.planner import Planner
from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import Outcome, Plan, outcome_of_withheld
from reasoning_replay.core.history.turns import Emitted, Reasoning, Turn


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
    groups = groups_of(request, matched)
    planner = _Planner(request, matched, groups, completes, profile=profile, demands=demands)
    return planner.bound_plan()


class _Planned(NamedTuple):
    """
    The reasoning to inject into one group.

    Attributes:
        added: The blocks that are injected.
        kept: Number of the client's blocks that stay with them.
    """

    added: Sequence[DueBlock]
    kept: int
    bound: BoundEdits


@dataclass(eq=False, kw_only=True)
class _Planner(Planner[MessagesRequest, MessageGroup]):
    """
    The planner of a request.

    Attributes:
        planned: What each group gets, by its first place.
        accepted: The first places of the groups whose history is the one of the request.
    """

    profile: Profile
    demands: bool
    planned: dict[int, _Planned] = field(default_factory=dict)
    accepted: Container[int] = ()

    def bound_plan(self) -> Plan:
        """Return the plan, with the binding of the request if the model binds reasoning."""
        request, groups = self.request, self.groups
        self.accepted = self.planned = {
            group.first: made for group in groups if (made := self._plan(group))
        }
        if not self._needs_prefix():
            return self.plan(b"")
        if request.decided.items and not request.bound_to:
            raise Reopened  # the digest of what is decided is not known
        bound = {first: made.bound for first, made in self.planned.items()}
        self.accepted, prefix = walk(request, groups, bound, read_binding(request.bound_to))
        return self.plan(prefix, 0 if self._goes_on() else len(request.places))

    @override
    def decide(self, group: MessageGroup) -> None:
        planned = self.planned.get(group.first)
        if planned is not None and group.first not in self.accepted:
            self._guard(group, Outcome.GUARDED_PREFIX, len(planned.added))
        elif planned is not None:
            self.edits += planned.bound.edits
            if group.theirs:
                conversation = planned.bound.turn.conversation
                self.completed |= {message.start: conversation for message in group.messages}
            self.note(group.first, Outcome.PRESENT, planned.kept)
            for index, _, part in planned.added:
                self.note_injected(index, part.raw, part.id)
        elif not (group.matches or group.replayed):
            self.note_unknown(group.places)

    def _goes_on(self) -> bool:
        """Return whether what is bound was made after all that is decided."""
        newest = self.matched.newest() if self.matched.matches else None
        return newest is None or newest.binding.startswith(self.request.bound_to)

    def _needs_prefix(self) -> bool:
        """Return whether the request's history may be what reasoning is bound to."""
        turns = [turn for group in self.groups for turn in group.turns.values()]
        if turns:
            return any(map(self._is_bound, turns))
        return self.profile.may_bind(self.request.model)

    def _is_bound(self, turn: Turn) -> bool:
        """Return whether a turn is bound: by the requested model, or by the one that responded."""
        return any(map(self.profile.is_bound, (self.request.model, *turn.models)))

    def _plan(self, group: MessageGroup) -> _Planned | None:
        """Return the reasoning of a turn for its message; None, with a note, if it must not go."""
        turn = group.turn
        due = self._due(group, turn) if turn is not None else None
        if turn is None or due is None:
            known = (item for turn in group.turns.values() for item in turn.items)
            self._guard(group, Outcome.GUARDED_FORM, sum(len(item.run) for item in known))
        elif withheld := [item for item in turn.items if item.withheld]:
            lost = sum(item.lacks for item in withheld)
            self._guard(group, outcome_of_withheld(withheld), len(due) + lost)
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
        return _Planned(added, len(kept), bound)

    def _kept(
        self, group: MessageGroup, turn: Turn, due: Sequence[DueBlock]
    ) -> Mapping[int, MessagesItem] | None:
        """Return what the client sends of a turn's reasoning, as `kept_of`."""
        models = self.request.model, *turn.models
        signs = any(map(self.profile.signs, models)) and all(one.part.has_blob for one in due)
        is_proven = any(
            self._is_certain(index, self.matched.matches[index].emitted)
            for index in group.places
            if index in self.matched.matches
        )
        is_refused = self.completes(turn)
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
        if not self.demands and self._repeats_another(group, turn):
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
        for turn in self.matched.found:
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
        item, match = self._item(index), self.matched.matches.get(index)
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
            match = self.matched.matches.get(index)
            if match is None or (match.turn.id, match.k) != (turn.id, k):
                return False
            if emitted.content != self._item(index).content:
                return False
        return True

    def _reason_not_to(self, turn: Turn) -> Outcome | None:
        """Return why a turn's reasoning may not be injected in this request; None if it may."""
        if self.request.is_switched_off:
            return Outcome.SKIPPED
        if not self.is_of_model(turn):
            return Outcome.GUARDED_MODEL
        parts = (part for item in turn.items for part in item.run)
        if self.profile.is_signed and not all(part.has_blob for part in parts):
            return Outcome.GUARDED_FORM
        return None

    @override
    def is_of_model(self, turn: Turn) -> bool:
        # By its full name: the API refuses the reasoning of another version.
        model = self.request.model
        if model in turn.models:
            return True
        return self.demands and family(model) in map(family, turn.models)

    def _item(self, index: int) -> MessagesItem:
        return self.request.places[index].item

    def _guard(self, group: MessageGroup, outcome: Outcome, count: int) -> None:
        """Note why a group gets nothing; if the client sends any, that is there."""
        if group.theirs:
            self.note(group.first, Outcome.PRESENT, group.replayed)
        else:
            self.note(group.first, outcome, count)
