"""Candidates: the turns found for a request, by every name and text of their items."""

from collections.abc import Iterable, Mapping, Sequence
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
_DIGITS = "0123456789"


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

    @staticmethod
    def _have_common(some: Sequence[Match], others: Sequence[Match]) -> bool:
        if some[0] is others[0]:  # an item is one object, by whichever name it is found
            return True
        return not {_place(match) for match in some}.isdisjoint(map(_place, others))

    def _in_response(self, response_id: str, item: HistoryItem) -> list[Match]:
        """Find the call that `<response id>:<call id>` names."""
        turn = self.turns.get(turn_id(response_id))
        call_id = item.call_id.rpartition(":")[2]
        items = enumerate(turn.items if turn is not None else ())
        return [Match(turn, k) for k, e in items if turn is not None and e.call_id == call_id]


def _place(match: Match) -> tuple[bytes, int]:
    return match.turn.id, match.k


def _agrees(item: HistoryItem, emitted: Emitted) -> bool:
    """Tell whether an item can be one that was emitted, whatever its ids say."""
    if item.role is Role.REFERENCE:
        return True
    if item.type != emitted.type:
        return False
    return not (item.name and emitted.name and item.name != emitted.name)


def may_be_called(item: HistoryItem, emitted: Emitted) -> bool:
    """Tell whether an item's own names leave open that it is one that was emitted."""
    if _are_two(item.id, emitted.id) or _are_two_numbers(item.call_id, emitted.call_id):
        return False
    return (
        item.call_id in ("", emitted.call_id)
        or not is_distinctive(item.call_id, item.name)
        or not is_distinctive(emitted.call_id, emitted.name)
    )


def _are_two_numbers(one: str, other: str) -> bool:
    """Tell whether two names are different numbers of one count."""
    stem = one.rstrip(_DIGITS)
    return one != other and stem not in (one, other) and stem == other.rstrip(_DIGITS)


def _are_two(one: str, other: str) -> bool:
    """
    Tell whether two ids are of two items, as one hand has made both.

    A client may give an item an id of its own (`msg_0`, a uuid), and it is still what upstream
    said. But one like upstream's is upstream's: with it, what says the same is another item, and
    the right one is only not known here.
    """
    if _are_two_numbers(one, other):
        return True
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
    if item.id and item.id == emitted.id and is_distinctive(item.id, ""):
        return True
    if not _agrees(item, emitted):
        return False
    if item.content and emitted.content:
        return item.content == emitted.content
    return not item.content and not emitted.content
