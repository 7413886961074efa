"""
Placement: decides which reasoning the messages of a request lack, and injects it as members.

`plan_injection` is pure and total: it takes the matches and returns edits, with counted reasons.

- A message gets the reasoning of a turn if all its items come from that turn, in its order, and no
  other message holds items of it. Members of a tool call go to that call only.
- Calls that are known by random ids may have another order, or be split over messages: then the
  first message gets what is plain text, or each of them where upstream demands it. A text that the
  client adds to all calls of a turn changes nothing.
- What the client replays is compared member by member: upstream wants back what it emitted, under
  the name that it emitted. Members of other names are the client's and stay.
- A message with another value in a member than upstream emitted is left alone, unless upstream
  demands all: the client has its own text, or continues another turn. If upstream refused what the
  client makes of a signature, the message gets all that was emitted (*completed*).
- A text that the message has in another form is not added, unless upstream demands all.
- A member is added at the end of its object. An empty value of the same name is replaced, and so is
  one that is only a piece of what was emitted, or repeats it. A text takes the place of one that
  upstream did not emit, under a name of another upstream.
- Where upstream demands it, a message that is known by its calls alone gets what they need; and
  reasoning that names its call by upstream's id goes with that id, in the call and in its result.
"""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

import msgspec
from typing_extensions import override

from reasoning_replay.core.dialects.chat.demanded import DemandedMatches
from reasoning_replay.core.dialects.chat.items import CALL, OUTPUT, ChatItem
from reasoning_replay.core.dialects.chat.members import (
    EMPTY_TEXT,
    LISTS,
    NULL,
    TEXTS,
    ChatMessage,
    Sent,
    is_of_call,
    name_of,
    sent_of,
    value_of,
)
from reasoning_replay.core.dialects.chat.message_groups import (
    MessageGroup,
    TurnSpread,
    groups_of,
)
from reasoning_replay.core.dialects.chat.profiles import Policy
from reasoning_replay.core.dialects.chat.request import ChatRequest, start_of_round
from reasoning_replay.core.dialects.planner import Planner
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import is_known_not_to_reason
from reasoning_replay.core.history.plan import Outcome, Plan, outcome_of_withheld
from reasoning_replay.core.history.turns import Reasoning, Turn
from reasoning_replay.core.wire.json_spans import Edit, Member, Unspliceable

_NO_PLAN = Plan()
_REPLAYED = (Sent.WHOLE, Sent.OWN)
_ENCRYPTED = b'"reasoning.encrypted"'
# A string without an end is matched, too: else each quote in it would be tried again.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def plan_injection(
    request: ChatRequest,
    matched: Matches,
    policy: Policy,
    completes: Callable[[Turn], bool] = lambda _: False,
) -> Plan:
    """
    Return a plan with edits that do not overlap.

    They insert members, or replace values that say less, or that are completed: those of a turn for
    which `completes` says so.
    """
    if not request.run:
        return _NO_PLAN
    groups = groups_of(request, matched)
    planner = _Planner(request, matched, groups, completes, policy=policy)
    for group in groups:
        for name, turn in group.turns.items():
            planner.spreads.setdefault(name, TurnSpread(turn)).groups.append(group)
    if not policy.is_current_only:
        return planner.plan()
    planner.round_start = start = start_of_round(request)
    # What this round gets, the next one takes away.
    return planner.plan(open_from=start if start < len(request.places) else None)


@dataclass(eq=False, kw_only=True)
class _Planner(Planner[ChatRequest, MessageGroup]):
    """
    The planner of a request.

    Attributes:
        spreads: The turns that its messages come from, by id.
        round_start: Place of the first item that gets reasoning.
        lost_until: Place of the last item of a run of messages that counts as missed.
    """

    policy: Policy
    spreads: dict[bytes, TurnSpread] = field(default_factory=dict)
    round_start: int = 0
    lost_until: int = -2

    @override
    def decide(self, group: MessageGroup) -> None:
        first, turn = group.places[0], next(iter(group.turns.values()), None)
        is_lost = self.lost_until == first - 1
        if turn is None and not group.message.replayed:
            is_counted = is_lost or is_known_not_to_reason(self.request.model)
            is_lost = self.note_unknown(group.places, is_counted=is_counted)
        elif turn is not None and self._is_of_turn(group, turn):
            self._decide(group, turn)
        elif group.message.replayed:  # it cannot be compared
            self.note(first, Outcome.PRESENT, group.message.replayed)
        else:
            count = sum(self.spreads[name].members for name in group.turns)
            self.note(first, Outcome.GUARDED_FORM, count)
        if is_lost:
            self.lost_until = group.places[-1]

    def _decide(self, group: MessageGroup, turn: Turn) -> None:
        """Inject the reasoning of a turn into its message, or note why not."""
        first = group.places[0]
        due = self._due(group, turn)
        parts = [part for _, run in due for part in run]
        count = len(parts)
        if not count:
            return
        if (outcome := self._reason_not_to(group, turn)) is not None:
            self.note(first, outcome, count)
            return
        try:
            edits = [] if self._has_named_calls(group, turn, parts) else self._ids_back(group)
            edits += [edit for index, run in due for edit in self._edits_of(index, run, turn)]
        except Unspliceable:
            self.note(first, Outcome.GUARDED_FORM, count)
            return
        self.edits += edits
        if self._is_damaged(turn, due):
            self.completed[group.message.start] = turn.conversation
        for index, run in due:
            for part in run:
                self.note_injected(index, part.raw, name_of(part))

    def _is_of_turn(self, group: MessageGroup, turn: Turn) -> bool:
        """Return whether a message is one of a turn, as far as the place of its members goes."""
        spread = self.spreads[turn.id]
        if (
            isinstance(self.matched, DemandedMatches)
            and group.message.start in self.matched.by_calls
        ):
            return True
        if spread.is_mixed:
            return False
        is_alone = len(spread.groups) == 1 and group.is_in_order
        if is_alone and len(group.matches) == len(group.places):
            return True
        others = [self._item(index) for index in group.places if index not in group.matches]
        if others and not (all(map(self._is_own_text, others)) and _has_all_calls(group, spread)):
            return False
        is_plain = not any(part.has_blob and not is_of_call(part) for part in turn.items[0].run)
        return (is_alone or is_plain) and self._is_certain(spread)

    def _is_own_text(self, item: ChatItem) -> bool:
        """Return whether an item is a text that the client made, and not one of another turn."""
        return item.type != CALL and item.content not in self._matched_contents

    @cached_property
    def _matched_contents(self) -> frozenset[bytes]:
        return frozenset(each.emitted.content for each in self.matched.matches.values())

    def _is_certain(self, spread: TurnSpread) -> bool:
        """Return whether all calls of a turn that the client sends are known by random ids."""
        if spread.is_certain is None:
            spread.is_certain = all(map(self._has_certain_calls, spread.groups))
        return spread.is_certain

    def _has_certain_calls(self, group: MessageGroup) -> bool:
        """Return whether the calls of a message are known by random ids."""
        both = ((self._item(index), match.emitted) for index, match in group.matches.items())
        return all(
            item.call_id == emitted.call_id and is_distinctive(item.call_id, item.name)
            for item, emitted in both
            if emitted.type == CALL
        )

    def _leads(self, group: MessageGroup, turn: Turn) -> bool:
        """Return whether a message gets the members of its turn that belong to no call."""
        if self.policy.demands_all:
            return True
        spread = self.spreads[turn.id]
        return group is spread.groups[0] and not spread.is_replayed_later

    def _due(self, group: MessageGroup, turn: Turn) -> list[tuple[int, list[Reasoning]]]:
        """Return the members that are lacking, each run with the place of its message or call."""
        first, head = group.places[0], turn.items[0]
        withheld = [head] if head.withheld else []
        leading = head.run if self._leads(group, turn) else ()
        runs = [(first, [part for part in leading if not is_of_call(part)])]
        for index, match in group.matches.items():
            withheld += [match.emitted] if match.k > 0 and match.emitted.withheld else []
            runs.append((index, [part for part in match.emitted.run if is_of_call(part)]))
        sent = {(index, part.id): self._sent(index, part) for index, run in runs for part in run}
        if is_damaged := self._is_damaged(turn, runs):
            own = {each for each, state in sent.items() if state is Sent.OWN}
            sent |= dict.fromkeys(own, Sent.TORN)
        replayed = sum(each in _REPLAYED for each in sent.values())
        if not sent:  # upstream emitted none that is known, so the client's is its own
            replayed = group.message.replayed
        elif group.message.thinks_aloud:
            replayed += 1
        self.note(first, Outcome.PRESENT, replayed)
        self.note(first, outcome_of_withheld(withheld), 0 if replayed else len(withheld))
        if Sent.OWN in sent.values() and not self.policy.demands_all:
            return []
        has_list = any(sent.get((first, one), Sent.NOTHING) is not Sent.NOTHING for one in LISTS)
        said = () if is_damaged else self._said(group.message, has_list=has_list)
        due = []
        for index, run in runs:
            chosen = [part for part in self._chosen(run) if part.id not in said]
            states = [(part, sent[index, part.id]) for part in run if self._is_taken(part)]
            lacking = [
                part
                for part, state in states
                if state is Sent.TORN or (state is Sent.NOTHING and part in chosen)
            ]
            due.append((index, lacking))
        return [(index, run) for index, run in due if run]

    def _is_damaged(self, turn: Turn, runs: Iterable[tuple[int, Sequence[Reasoning]]]) -> bool:
        """Return whether the client sends another signature in place of one that upstream wants."""
        return self.completes(turn) and any(
            part.has_blob and self._is_taken(part) and self._sent(index, part) is Sent.OWN
            for index, run in runs
            for part in run
        )

    def _sent(self, index: int, part: Reasoning) -> Sent:
        """Return what the client sends in place of a member."""
        message = self._item(index).message
        try:
            member = self._members(index, part).get(name_of(part))
        except Unspliceable:
            member = None
        return sent_of(message.raw[member.start : member.end] if member else b"", part)

    def _said(self, message: ChatMessage, *, has_list: bool) -> Collection[str]:
        """
        Return the members whose text the client sends in another form.

        `has_list` says whether it has a list that upstream emitted: its entries hold the text, too.
        """
        if self.policy.demands_all:
            return ()
        if message.thinks_aloud:
            return (*TEXTS, *LISTS)
        return TEXTS if has_list else ()

    def _chosen(self, parts: list[Reasoning]) -> list[Reasoning]:
        """Return the members of a message or a call that upstream takes."""
        profile = self.policy.profile
        if not self.policy.demands_all:
            parts = [part for part in parts if value_of(part) != EMPTY_TEXT]
        parts = [part for part in parts if self._is_taken(part)]
        if profile.alone:
            parts = [part for part in parts if part.id in profile.alone][:1] or parts
        return parts

    def _is_taken(self, part: Reasoning) -> bool:
        """Return whether the profile and the model accept a member."""
        takes = self.policy.profile.takes
        is_known = takes is None or is_of_call(part) or part.id in takes
        return is_known and name_of(part) not in self.policy.refused

    def _reason_not_to(self, group: MessageGroup, turn: Turn) -> Outcome | None:
        """Return why a turn's reasoning may not be injected in this request; None if it may."""
        if self.request.is_switched_off and not turn.switched_off:
            return Outcome.SKIPPED
        if group.places[0] < self.round_start:
            return Outcome.SKIPPED
        return None if self.is_of_model(turn) else Outcome.GUARDED_MODEL

    def _has_named_calls(self, group: MessageGroup, turn: Turn, parts: Iterable[Reasoning]) -> bool:
        """Return whether the message has the calls whose ids encrypted reasoning names."""
        encrypted = [part.raw for part in parts if _ENCRYPTED in part.raw]
        if not encrypted:
            return True
        ours = {self._item(index).call_id for index in group.places}
        others = {item.call_id for item in turn.items} - ours - {""}
        names = {msgspec.json.encode(call_id) for call_id in others}
        return all(names.isdisjoint(_STRINGS.findall(raw)) for raw in encrypted)

    def _ids_back(self, group: MessageGroup) -> list[Edit]:
        if not self.policy.restores_ids:
            raise Unspliceable("the calls must keep the ids of the client")
        return _upstreams_ids(self.request, group)

    def _edits_of(self, index: int, run: Sequence[Reasoning], turn: Turn) -> list[Edit]:
        """Return the edits that inject members into the message or the call at a place."""
        message = self._item(index).message
        emitted = {name_of(part) for part in turn.items[0].run}
        return _edits(message, self._members(index, run[0]), run, emitted)

    def _members(self, index: int, part: Reasoning) -> dict[str, Member]:
        """Return the members of the message or the call at a place: those of its holder."""
        item = self._item(index)
        if not is_of_call(part):
            return item.message.members
        if item.number < 0:
            raise Unspliceable("the client sends the call in the old form")
        return item.message.members_of_call(item.number)

    def _item(self, index: int) -> ChatItem:
        return self.request.places[index].item


def _has_all_calls(group: MessageGroup, spread: TurnSpread) -> bool:
    matched = sum(match.emitted.type == CALL for match in group.matches.values())
    return matched == spread.calls > 0


def _edits(
    message: ChatMessage,
    members: dict[str, Member],
    run: Iterable[Reasoning],
    emitted: Collection[str],
) -> list[Edit]:
    """Return the edits that inject members into an object that has others of these names."""
    edits: list[Edit] = []
    start, added = message.start, b""
    others = [
        member
        for name in TEXTS
        if name not in emitted and (member := members.get(name)) is not None
        if message.raw[member.start : member.end] != NULL
    ]
    for part in run:
        theirs = members.get(name_of(part))
        if theirs is not None:  # it says less
            edits.append(Edit(start + theirs.start, start + theirs.end, value_of(part)))
        elif others and name_of(part) in TEXTS:
            other = others.pop()
            edits.append(Edit(start + other.key_start, start + other.end, part.raw))
        else:
            added += b"," + part.raw
    if added:
        end = start + next(reversed(members.values())).end
        edits.append(Edit(end, end, added))
    return edits


def _upstreams_ids(request: ChatRequest, group: MessageGroup) -> list[Edit]:
    """
    Return the edits by which the calls of a message, and their results, have upstream's ids.

    Encrypted reasoning may name its call by the id that upstream gave it. The results follow the
    message; those of calls with one id are in the order of the calls.

    Raises:
        Unspliceable: A call is not known, or in the old form, or its result is missing.
    """
    places = request.places
    after = (places[at].item for at in range(group.places[-1] + 1, len(places)))
    results = list(takewhile(lambda item: item.type == OUTPUT, after))
    edits: list[Edit] = []
    for index in (n for n in group.places if places[n].item.type == CALL):
        item, match = places[index].item, group.matches.get(index)
        result = next((one for one in results if one.call_id == item.call_id), None)
        if match is None or result is None or item.number < 0 or not item.call_id:
            raise Unspliceable("a call is not known as one that was answered")
        results.remove(result)
        ids = (
            (item.message, item.message.members_of_call(item.number)["id"]),
            (result.message, result.message.members["tool_call_id"]),
        )
        own = msgspec.json.encode(match.emitted.call_id)
        edits += [
            Edit(message.start + at.start, message.start + at.end, own)
            for message, at in ids
            if message.raw[at.start : at.end] != own
        ]
    return edits
