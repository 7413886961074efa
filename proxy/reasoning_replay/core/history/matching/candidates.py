"""Candidates: the turns found for a request, searched by the ids of their items."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import IndexedTurns, ItemIndex, Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import response_named_by
from reasoning_replay.core.history.matching.renaming import have_one_origin
from reasoning_replay.core.history.request_history import Place
from reasoning_replay.core.history.turns import Emitted, Turn, turn_id

__all__ = ["Candidates", "are_two", "may_be_called", "says_the_same"]

_MODEL, _REFERENCE = Role.MODEL, Role.REFERENCE

# Length of a random upstream id, prefix included; Copilot's are the longest. A counter
# (`msg_0000…1`) has few different characters, regardless of its length.
RANDOM_ID_CHARS = range(16, 1025)
RANDOM_ID_SYMBOLS = 6
_DIGITS = "0123456789"


class Candidates:
    """
    Turns found for a request, and which of their items are already matched.

    Attributes:
        turns: Turns by id.
        types: Types of all their items. An item of another type cannot match, unless it is a
            reference.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        """Index every item by its ids, unless the turns have an index."""
        names = turns.names if isinstance(turns, IndexedTurns) else ItemIndex(turns)
        self.turns: Mapping[bytes, Turn] = names.turns
        self.types: AbstractSet[str] = names.types
        self._used: set[tuple[bytes, int]] = set()
        self._by_id, self._by_call = names.by_id, names.by_call
        self._sole = names.sole

    @cached_property
    def names_recur(self) -> bool:
        """Whether a random id names items of several turns, so that none of them is random."""
        return any(
            is_distinctive(name, found[0].emitted.name)
            and any(match.turn is not found[0].turn for match in found)
            for names in (self._by_id, self._by_call)
            for name, found in names.items()
        )

    def settle(
        self, places: Sequence[Place[HistoryItem]], crowded: AbstractSet[int] = frozenset()
    ) -> tuple[dict[int, Match], bool]:
        """
        Match items that their ids identify with certainty, in order, each captured item once.

        Args:
            places: All items of the request.
            crowded: Indices of items whose ids more conversations have than were loaded, so that
                they identify nothing.

        Returns:
            Index of a place -> the captured item; and whether no other item of the request can
            match one.
        """
        matches: dict[int, Match] = {}
        is_all = True
        types, unmet, used = self.types, self._sole.copy(), self._used
        unnoted: list[Match] = []
        for index, place in enumerate(places):
            item = place.item
            is_crowded = index in crowded
            match = None if is_crowded else unmet.pop(item.id, None)
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
            if (item.id or item.call_id) and not is_crowded:
                used.update(map(_place, unnoted))
                unnoted.clear()
                match = self.certain(item)
            if match is not None:
                matches[index] = match
                used.add(_place(match))
            elif (item.type in types or item.role is _REFERENCE) and (
                item.role is _MODEL or item.type != "message"
            ):
                is_all = False  # only messages that are not from a model can never match
        used.update(map(_place, unnoted))
        return matches, is_all

    def use(self, match: Match) -> None:
        """Record that a captured item is matched: each is used once."""
        self._used.add(_place(match))

    def release(self, match: Match) -> None:
        """Record that a captured item is not matched after all."""
        self._used.discard(_place(match))

    def knows_call_of(self, places: Iterable[Place[HistoryItem]]) -> bool:
        """Return whether a call of a request has the random id of a captured one."""
        called = ((place.item.call_id, place.item.name) for place in places)
        return any(this in self._by_call and is_distinctive(this, name) for this, name in called)

    def free(self, matches: Iterable[Match], item: HistoryItem) -> list[Match]:
        """Return the captured items that are not matched yet and agree in type and tool name."""
        used = self._used
        return [m for m in matches if (m.turn.id, m.k) not in used and _agrees(item, m.emitted)]

    def certain(self, item: HistoryItem) -> Match | None:
        """Match by a random id from upstream, or by a `call_id` that only one call has."""
        named, called = self._by_id.get(item.id), self._by_call.get(item.call_id)
        if (
            named
            and called
            and named[0] is called[0]
            and len(named) == len(called) == 1
            and ":" not in item.call_id
        ):
            # Fast path, for most calls: id and `call_id` lead to one and the same item.
            match = named[0]
            if (match.turn.id, match.k) not in self._used and _agrees(item, match.emitted):
                sure = is_distinctive(item.id, "") or is_distinctive(item.call_id, item.name)
                return match if sure else None
        return self._certain(item)

    def _certain(self, item: HistoryItem) -> Match | None:
        named: Sequence[Match] = ()
        if item.id and is_distinctive(item.id, ""):
            named = self._by_id.get(item.id, ())
        if called := self._called(item):
            # If the two lead to different items, they contradict each other.
            both = {_place(match) for match in called}
            named = [match for match in named if _place(match) in both] if named else called
        agreed = [match for match in named if _agrees(item, match.emitted)]
        # A name of several captured items proves nothing, even if all but one are matched.
        is_free = len(agreed) == 1 and _place(agreed[0]) not in self._used
        return agreed[0] if is_free else None

    def _called(self, item: HistoryItem) -> Sequence[Match]:
        """Return the items that a random `call_id` names, also if it was their own id."""
        if response_id := response_named_by(item):
            return self._in_response(response_id, item)
        if not item.call_id or not is_distinctive(item.call_id, item.name):
            return ()
        return self._by_call.get(item.call_id, ()) or self._by_id.get(item.call_id, ())

    def _in_response(self, response_id: str, item: HistoryItem) -> list[Match]:
        """Return the calls that `<response id>:<call id>` names."""
        turn = self.turns.get(turn_id(response_id))
        call_id = item.call_id.rpartition(":")[2]
        items = enumerate(turn.items if turn is not None else ())
        return [Match(turn, k) for k, e in items if turn is not None and e.call_id == call_id]


def _place(match: Match) -> tuple[bytes, int]:
    return match.turn.id, match.k


def _agrees(item: HistoryItem, emitted: Emitted) -> bool:
    """Return whether an item agrees with an emitted one in type and tool name; ignores ids."""
    if item.role is Role.REFERENCE:
        return True
    if item.type != emitted.type:
        return False
    return not (item.name and emitted.name and item.name != emitted.name)


def may_be_called(
    item: HistoryItem,
    emitted: Emitted,
    are_renamed: Callable[[], bool] = bool,
    are_renumbered: Callable[[], bool] = bool,
) -> bool:
    """
    Return whether the ids of an item allow that it is an emitted one.

    Args:
        item: Item of a request.
        emitted: Captured item.
        are_renamed: Whether the client may have replaced the ids of calls (`renaming`).
        are_renumbered: Whether another number of the same counter may be one that the client made.
    """
    if are_two(item.id, emitted.id):
        return False
    if (
        _are_two_numbers(item.id, emitted.id) or _are_two_numbers(item.call_id, emitted.call_id)
    ) and not are_renumbered():
        return False
    return (
        item.call_id in ("", emitted.call_id)
        or not is_distinctive(item.call_id, item.name)
        or not is_distinctive(emitted.call_id, emitted.name)
        or (not have_one_origin(item.call_id, emitted.call_id, item.name) and are_renamed())
    )


def _are_two_numbers(one: str, other: str) -> bool:
    """Return whether two ids are different values of one counter."""
    stem = one.rstrip(_DIGITS)
    return one != other and stem not in (one, other) and stem == other.rstrip(_DIGITS)


def are_two(one: str, other: str) -> bool:
    """
    Return whether two different random ids have the same origin, so that they name two items.

    A client may replace an item's id by its own (`msg_0`, a UUID), so a different id alone proves
    nothing. But a different id in upstream's format is from upstream. It then names another item
    with the same content, and that item was not captured.
    """
    return one != other and _origin(one) is not None and _origin(one) == _origin(other)


def _origin(name: str) -> tuple[str, int, bool] | None:
    """Return the format that ids of one origin share; None for an id that is not random."""
    return _origin_of(name) if len(name) in RANDOM_ID_CHARS else None


@lru_cache(maxsize=4096)
def _origin_of(name: str) -> tuple[str, int, bool] | None:
    kind, _, rest = name.rpartition("_")
    if len(set(rest)) < RANDOM_ID_SYMBOLS:
        return None
    return kind, len(rest), not rest.strip("0123456789abcdef")


def says_the_same(item: HistoryItem, emitted: Emitted) -> bool:
    """Return whether an item has the random id or the content of an emitted one."""
    if item.id and item.id == emitted.id and is_distinctive(item.id, ""):
        return True
    if not _agrees(item, emitted):
        return False
    if item.content and emitted.content:
        return item.content == emitted.content
    return not item.content and not emitted.content
