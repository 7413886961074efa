"""Candidates: the turns found for a request, by every name and text of their items."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import IndexedTurns, ItemIndex, Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import response_named_by
from reasoning_replay.core.history.request_history import Place
from reasoning_replay.core.history.turns import Emitted, Turn, turn_id

__all__ = ["Candidates", "may_be_called", "says_the_same"]

_MODEL, _REFERENCE = Role.MODEL, Role.REFERENCE

# Of an id that upstream has drawn, prefix included; Copilot's are the longest. One that counts
# (`msg_0000…1`) has few different characters, however long it is.
MINTED_CHARS = range(16, 1025)
MINTED_SYMBOLS = 6


class Candidates:
    """
    Recalled turns, and which of their items are spoken for.

    Attributes:
        turns: By id.
        types: Of all their items; an item of another type is none of them, unless it only refers.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        """Find every item by its names."""
        names = turns.names if isinstance(turns, IndexedTurns) else ItemIndex(turns)
        self.turns: Mapping[bytes, Turn] = names.turns
        self.types: AbstractSet[str] = names.types
        self._used: set[tuple[bytes, int]] = set()
        self._by_id, self._by_call = names.by_id, names.by_call
        self._content_index: _ContentIndex | None = None
        self._sole = names.sole

    def settle(self, places: Sequence[Place[HistoryItem]]) -> tuple[dict[int, Match], bool]:
        """
        Match what is certain by its names, in order, each captured item once.

        Returns:
            Index of a place -> what its item is; and whether no other item can be any of them.
        """
        matches: dict[int, Match] = {}
        is_all = True
        types, unmet, used = self.types, self._sole.copy(), self._used
        unnoted: list[Match] = []
        for index, place in enumerate(places):
            item = place.item
            match = unmet.pop(item.id, None)
            if match is not None:
                emitted = match.turn.items[match.k]
                if (
                    item.call_id == emitted.call_id
                    and item.type == emitted.type
                    and item.name == emitted.name
                    and (not used or _place(match) not in used)
                ):
                    matches[index] = match
                    unnoted.append(match)
                    continue
            elif item.type not in types and item.role is not _REFERENCE:
                continue
            match = None
            if item.id or item.call_id:
                used.update(map(_place, unnoted))
                unnoted.clear()
                match = self.certain(item)
            if match is not None:
                matches[index] = match
                used.add(_place(match))
            elif (item.type in types or item.role is _REFERENCE) and (
                item.role is _MODEL or item.type != "message"
            ):
                is_all = False  # as no message of others is anything that a model has said
        used.update(map(_place, unnoted))
        return matches, is_all

    def use(self, match: Match) -> None:
        """Note that a captured item is spoken for: each is used once."""
        self._used.add(_place(match))

    def free(self, matches: Iterable[Match], item: HistoryItem) -> list[Match]:
        """Return those that are not spoken for, and that the item can be at all."""
        used = self._used
        return [m for m in matches if (m.turn.id, m.k) not in used and _agrees(item, m.emitted)]

    def certain(self, item: HistoryItem) -> Match | None:
        """Match by an id that upstream emitted, or by a call id that only one call has."""
        named, called = self._by_id.get(item.id), self._by_call.get(item.call_id)
        if (
            named
            and called
            and named[0] is called[0]
            and len(named) == len(called) == 1
            and ":" not in item.call_id
        ):
            # Both names are one item's, as they are of most calls.
            match = named[0]
            if (match.turn.id, match.k) not in self._used and _agrees(item, match.emitted):
                sure = is_distinctive(item.id, "") or is_distinctive(item.call_id, item.name)
                return match if sure else None
        return self._certain(item)

    def _certain(self, item: HistoryItem) -> Match | None:
        by_id: Sequence[Match] = self._by_id.get(item.id, ()) if item.id else ()
        if by_id:
            by_id = self.free(by_id, item) if is_distinctive(item.id, "") else ()
        by_call: Sequence[Match] = ()
        if response_id := response_named_by(item):
            by_call = self.free(self._in_response(response_id, item), item)
        elif item.call_id and is_distinctive(item.call_id, item.name):
            by_call = self.free(self._by_call.get(item.call_id, ()), item)
            by_call = by_call or self.free(self._by_id.get(item.call_id, ()), item)
        if by_id and by_call and not self._have_common(by_id, by_call):
            return None  # one item, two origins: contradictory
        if len(by_id) == 1:
            return by_id[0]
        return by_call[0] if len(by_call) == 1 else None

    def likenesses(
        self, item: HistoryItem, chain: bytes, before: Match | None, limit: int | None = None
    ) -> Iterator[list[Match]]:
        """
        Yield what an item may be, likeliest first: each is for when nothing before it fits.

        Args:
            item: One that is not certain.
            chain: Of what had been said before it.
            before: What the last recognised item ahead of it is.
            limit: So many are enough of each: a thousand calls may say the same.
        """
        sources: list[Iterable[Match]] = []
        if before is not None:  # the rest of a turn that has been recognised already
            rest = [Match(before.turn, k) for k in range(len(before.turn.items))]
            sources.append([match for match in rest if says_the_same(item, match.emitted)])
        if item.content:
            # Of calls under names of their own, only namesakes can be the same.
            own = _own_name(item)
            names = ("", own) if own else (None,)
            if self._content_index is None:
                self._content_index = _ContentIndex(self.turns.values())
            by_place, by_content = self._content_index.by_place, self._content_index.by_content
            at_place = [by_place.get((chain, item.content, name), ()) for name in names]
            anywhere = [by_content.get((item.content, name), ()) for name in names]
            sources.append(itertools.chain(*at_place))
            sources.append(itertools.chain(*anywhere))
        if item.id:
            sources.append(self._by_id.get(item.id, ()))
        for source in sources:
            found = (m for m in self._free(source, item) if may_be_called(item, m.emitted))
            yield list(itertools.islice(found, limit))

    def is_another(self, item: HistoryItem, emitted: Emitted) -> bool:
        """Tell whether an item's names say that it is another captured item than this one."""
        return any(
            named not in ("", own) and named in known
            for named, own, known in (
                (item.id, emitted.id, self._by_id),
                (item.call_id, emitted.call_id, self._by_call),
            )
        )

    @staticmethod
    def _have_common(some: Sequence[Match], others: Sequence[Match]) -> bool:
        if some[0] is others[0]:  # an item is one object, by whichever name it is found
            return True
        return not {_place(match) for match in some}.isdisjoint(map(_place, others))

    def _free(self, matches: Iterable[Match], item: HistoryItem) -> Iterator[Match]:
        used = self._used
        for match in matches:
            if _place(match) not in used and _agrees(item, match.emitted):
                yield match

    def _in_response(self, response_id: str, item: HistoryItem) -> list[Match]:
        """Find the call that `<response id>:<call id>` names."""
        turn = self.turns.get(turn_id(response_id))
        call_id = item.call_id.rpartition(":")[2]
        items = enumerate(turn.items if turn is not None else ())
        return [Match(turn, k) for k, e in items if turn is not None and e.call_id == call_id]


class _ContentIndex:
    """
    Where what is said was said, for those few requests that are looked up by it.

    Attributes:
        by_content: By it and the call's own name, "" where it has none; None stands for any.
        by_place: By what had been said before it, besides.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        self.by_content: dict[tuple[bytes, str | None], list[Match]] = defaultdict(list)
        self.by_place: dict[tuple[bytes, bytes, str | None], list[Match]] = defaultdict(list)
        for turn in turns:
            chain = turn.context.chain
            for k, item in enumerate(turn.items if turn.context.is_known else ()):
                if item.content:
                    match = Match(turn, k)
                    for name in (None, _own_name(item)):
                        self.by_content[item.content, name].append(match)
                        self.by_place[chain, item.content, name].append(match)


def _place(match: Match) -> tuple[bytes, int]:
    return match.turn.id, match.k


def _own_name(item: HistoryItem | Emitted) -> str:
    """Return the `call_id` if no other call has it; else ""."""
    return item.call_id if is_distinctive(item.call_id, item.name) else ""


def _agrees(item: HistoryItem, emitted: Emitted) -> bool:
    """Tell whether an item can be one that was emitted, whatever its ids say."""
    if item.role is Role.REFERENCE:
        return True
    if item.type != emitted.type:
        return False
    return not (item.name and emitted.name and item.name != emitted.name)


def may_be_called(item: HistoryItem, emitted: Emitted) -> bool:
    """Tell whether an item's own names leave open that it is one that was emitted."""
    return not _are_two(item.id, emitted.id) and (
        item.call_id in ("", emitted.call_id)
        or not is_distinctive(item.call_id, item.name)
        or not is_distinctive(emitted.call_id, emitted.name)
    )


def _are_two(one: str, other: str) -> bool:
    """
    Tell whether two ids are of two items, as one hand has made both.

    A client may give an item an id of its own (`msg_0`, a uuid), and it is still what upstream
    said. But one like upstream's is upstream's: with it, what says the same is another item, and
    the right one is only not known here.
    """
    return one != other and _hand(one) is not None and _hand(one) == _hand(other)


def _hand(name: str) -> tuple[str, int, bool] | None:
    """Return what ids of one making have in common; None for one that is not drawn at random."""
    return _hand_of(name) if len(name) in MINTED_CHARS else None


@lru_cache(maxsize=4096)
def _hand_of(name: str) -> tuple[str, int, bool] | None:
    kind, _, rest = name.rpartition("_")
    if len(set(rest)) < MINTED_SYMBOLS:
        return None
    return kind, len(rest), not rest.strip("0123456789abcdef")


def says_the_same(item: HistoryItem, emitted: Emitted) -> bool:
    """Tell whether an item of a recognised turn is one of those that it emitted."""
    if item.id and item.id == emitted.id:
        return True
    if not _agrees(item, emitted):
        return False
    if item.content and emitted.content:
        return item.content == emitted.content
    return not item.content and not emitted.content
