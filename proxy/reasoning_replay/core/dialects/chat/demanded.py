"""
Demanded reasoning: the turns of messages that upstream refuses without their reasoning.

Matching weighs all that stands around a call, and so it does not know a turn if the client changed
an older result, added a text or an argument, or merged messages. After a refusal the calls decide:
a message is of the only turn that follows the turn before it and has the same calls.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reasoning_replay.core.dialects.chat.heal.diagnosis import Demand
from reasoning_replay.core.dialects.chat.items import CALL, MESSAGE, ChatItem
from reasoning_replay.core.dialects.chat.message_groups import MessageGroup, groups_of
from reasoning_replay.core.dialects.chat.request import ChatRequest, start_of_round
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult, lookup_of_content
from reasoning_replay.core.history.matching.matches import Matches, match_items, match_refused
from reasoning_replay.core.history.turns import Emitted, Turn

# Most turns that may follow one, if they are to be compared.
FOLLOWERS_WEIGHED = 32
# Most calls by which a conversation is looked up without arguments that the client may have added.
CALLS_LOOKED_UP = 4

_BEGINNING = b""  # instead of the turn before the first calls


@dataclass(slots=True)
class DemandedMatches(Matches):
    """
    The matches of a request that upstream refuses without its reasoning.

    Attributes:
        by_calls: Offsets of the messages that calls decided, whatever else they hold.
        is_taught: Whether they are other ones than those of a request that was not refused.
    """

    by_calls: frozenset[int] = frozenset()
    is_taught: bool = False


def match_demanded(
    request: ChatRequest,
    usable: LookupResult,
    demand: Demand = Demand.ROUND,
    *,
    is_tried: bool = False,
) -> DemandedMatches:
    """
    Match a request that upstream refused, or would refuse, without reasoning.

    Args:
        request: The parsed request.
        usable: What was found for it.
        demand: What upstream demands.
        is_tried: Whether it is not known yet that this saves the conversation. Then no choice is
            made between equal turns if something else that upstream demands is unknown.
    """
    found = match_refused(request, usable)
    case = _Case(request, found, usable.turns, demand)
    case.decide()
    if is_tried and not case.is_saved():
        case = _Case(request, found, usable.turns, demand, may_choose=False)
        case.decide()
    is_taught = case.matches != match_items(request, usable).matches
    return DemandedMatches(
        case.matches, case.ambiguous, by_calls=frozenset(case.by_calls), is_taught=is_taught
    )


def lookups_of_calls(request: ChatRequest) -> list[Lookup]:
    """Return the lookups of the oldest and the newest calls without arguments of the client."""
    calls = [n for n in request.anchors if request.places[n].item.type == CALL]
    half = CALLS_LOOKED_UP // 2
    chosen = dict.fromkeys([*calls[:half], *calls[half:][-half:]])
    return [
        lookup_of_content(request, n, content)
        for n in chosen
        for content in request.places[n].item.lesser_contents()
    ]


class _Case:
    """One request: its matches, which are changed where calls decide."""

    def __init__(
        self,
        request: ChatRequest,
        found: Matches,
        turns: Sequence[Turn],
        demand: Demand,
        *,
        may_choose: bool = True,
    ) -> None:
        self._request = request
        self.matches, self.ambiguous = dict(found.matches), set(found.ambiguous)
        self.by_calls: set[int] = set()
        self._groups = groups_of(request, found)
        self._followers = _followers(turns)
        start = start_of_round(request)
        self._demanded = [
            group
            for group in self._groups
            if (demand is not Demand.ROUND or group.places[0] >= start)
            and (demand is Demand.MESSAGES or group.places[0] >= start or self._calls(group))
        ]
        # Items for which one of equal turns may be taken.
        self._choosable = {n for each in self._demanded for n in each.places if may_choose}
        for n in found.chosen - self._choosable:
            self.ambiguous.add(n)
            self.matches.pop(n, None)
        self._used = {match.turn.id for match in self.matches.values() if _is_call(match)}

    def is_saved(self) -> bool:
        """Return whether each message for which upstream demands reasoning is known, or has it."""
        return all(
            group.message.replayed or any(n in self.matches for n in group.places)
            for group in self._demanded
        )

    def decide(self) -> None:
        """Decide about each message with calls, in order; and then about the others."""
        before: bytes | None = _BEGINNING
        known: dict[bytes, Turn] = {}
        for group in self._groups:
            calls = self._calls(group)
            if not calls:
                continue
            turn = self._turn_of(calls) or self._follower(before, calls)
            before = turn.id if turn is not None else None
            if turn is not None:
                known[turn.id] = turn
                self._take(group, calls, turn)
        self._take_texts(known)

    def _calls(self, group: MessageGroup) -> list[int]:
        return [n for n in group.places if self._item(n).type == CALL]

    def _item(self, n: int) -> ChatItem:
        return self._request.places[n].item

    def _turn_of(self, calls: Sequence[int]) -> Turn | None:
        """Return the one turn that all these calls are matched with."""
        found = [self.matches.get(n) for n in calls]
        turns = {match.turn.id: match.turn for match in found if match is not None}
        return next(iter(turns.values())) if len(turns) == 1 and all(found) else None

    def _follower(self, before: bytes | None, calls: Sequence[int]) -> Turn | None:
        """Return the turn that follows one and has these calls; of equal turns, the oldest."""
        if before is None:
            return None
        turns = [turn for turn in self._followers.get(before, ()) if turn.id not in self._used]
        if before == _BEGINNING:
            place = self._request.places[calls[0]]
            chain = self._request.chain(place.depth)
            turns = [turn for turn in turns if turn.context.chain == chain]
        if len(turns) > FOLLOWERS_WEIGHED:
            return None
        for is_same in (_is_same, _is_contained):
            options = [turn for turn in turns if self._pairs(calls, turn, is_same) is not None]
            if options:
                may_choose = calls[0] in self._choosable
                return _oldest(options) if may_choose or len(options) == 1 else None
        return None

    def _pairs(
        self, calls: Sequence[int], turn: Turn, is_same: Callable[[ChatItem, Emitted], bool]
    ) -> dict[int, int] | None:
        """Pair calls with all those of a turn, in any order; None if they are others."""
        left = [k for k, emitted in enumerate(turn.items) if emitted.type == CALL]
        if len(left) != len(calls):
            return None
        pairs: dict[int, int] = {}
        for n in calls:
            item = self._item(n)
            k = next((k for k in left if is_same(item, turn.items[k])), None)
            if k is None:
                return None
            left.remove(k)
            pairs[n] = k
        return pairs

    def _take(self, group: MessageGroup, calls: Sequence[int], turn: Turn) -> None:
        """Match the calls of a message with those of a turn, and no text with another turn."""
        pairs = self._pairs(calls, turn, _is_same) or self._pairs(calls, turn, _is_contained)
        if pairs is None:  # matching knows them by their ids, or the client dropped some
            return
        texts = {item.content: k for k, item in enumerate(turn.items) if item.type == MESSAGE}
        for n in group.places:
            if n not in calls and (k := texts.get(self._item(n).content)) is not None:
                pairs[n] = k
        matches = {n: Match(turn, k) for n, k in pairs.items()}
        if matches == {n: self.matches[n] for n in group.places if n in self.matches}:
            if len(matches) < len(group.places):
                self.by_calls.add(group.message.start)
            return
        for n in group.places:
            self.matches.pop(n, None)
        self.matches |= matches
        self.ambiguous.difference_update(group.places)
        self._used.add(turn.id)
        self.by_calls.add(group.message.start)

    def _take_texts(self, known: dict[bytes, Turn]) -> None:
        """Match texts, wherever they stand, with the turns after known ones that said just them."""
        used = {match.turn.id for match in self.matches.values()}
        said: defaultdict[bytes, list[Turn]] = defaultdict(list)
        for turn in known.values():
            for after in self._followers.texts.get(turn.id, ()):
                if after.id not in used:
                    said[after.items[0].content].append(after)
        sent: defaultdict[bytes, list[int]] = defaultdict(list)
        for group in self._groups:
            if len(group.places) == 1 and group.places[0] not in self.matches:
                sent[self._item(group.places[0]).content].append(group.places[0])
        for content, places in sent.items():
            turns = said.get(content, ())
            if len(places) == len(turns):
                self.matches |= {n: Match(turn, 0) for n, turn in zip(places, turns, strict=True)}
                self.ambiguous.difference_update(places)


class _Followers(dict[bytes, list[Turn]]):
    """
    Turns with calls by the turn with calls before them; _BEGINNING if they are the first ones.

    Attributes:
        texts: Turns of a text alone, in the same way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[bytes, list[Turn]] = {}


def _followers(turns: Iterable[Turn]) -> _Followers:
    found = _Followers()
    before: dict[bytes, bytes] = {}  # of each turn: the newest one with calls up to it
    for turn in sorted(turns, key=lambda turn: turn.created_ms):  # parents first
        last = before.get(turn.parent)
        if not turn.parent and not turn.lacks_parent and turn.context.is_known:
            last = _BEGINNING
        if last is None:
            continue
        if any(item.type == CALL for item in turn.items):
            found.setdefault(last, []).append(turn)
            last = turn.id
        else:
            found.texts.setdefault(last, []).append(turn)
        before[turn.id] = last
    return found


def _is_call(match: Match) -> bool:
    return match.emitted.type == CALL


def _is_same(item: ChatItem, emitted: Emitted) -> bool:
    names = item.call_id, item.name, item.content
    return names == (emitted.call_id, emitted.name, emitted.content)


def _is_contained(item: ChatItem, emitted: Emitted) -> bool:
    """Return whether the arguments of a call contain the emitted ones."""
    names = item.call_id, item.name
    return names == (emitted.call_id, emitted.name) and (
        item.content == emitted.content or emitted.content in item.lesser_contents()
    )


def _oldest(turns: Sequence[Turn]) -> Turn | None:
    """Return the oldest of turns that said the same after the same history; None if they differ."""
    said = {(turn.context.whole, *(item.content for item in turn.items)) for turn in turns}
    return min(turns, key=lambda turn: (turn.created_ms, turn.id)) if len(said) == 1 else None
