"""Candidates: the turns found for a request, searched by the ids of their items."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.fingerprints import (
    are_two_counts,
    are_two_items,
    have_one_origin,
    is_distinctive,
)
from reasoning_replay.core.history.item_index import FoundTurns, IndexedTurns, ItemIndex, Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import response_named_by
from reasoning_replay.core.history.request_history import Place
from reasoning_replay.core.history.turns import Emitted, Turn, turn_id

_MODEL, _REFERENCE = Role.MODEL, Role.REFERENCE


class Candidates:
    """
    Turns found for a request, and which of their items are already matched.

    Attributes:
        index: Index of them.
        turns, by_whole: Turns by id, and by `Context.whole`.
        types: Types of all their items. An item of another type cannot match, unless it is a
            reference.
    """

    def __init__(self, turns: Iterable[Turn], given: bytes = b"") -> None:
        """Search turns; those of `given` (`Decided.turns`) are matched already."""
        indexed = turns if isinstance(turns, IndexedTurns | FoundTurns) else None
        self.index = index = indexed.names if indexed is not None else ItemIndex(turns)
        self.turns, self.by_whole, self.types = index.turns, index.by_whole, index.types
        self._by_id, self._by_call = index.by_id, index.by_call
        self._given = given
        self._used: set[tuple[bytes, int]] = set()

    def match_certain(
        self, places: Sequence[Place[HistoryItem]], crowded: AbstractSet[int] = frozenset()
    ) -> tuple[dict[int, Match], bool]:
        """
        Match items that their ids identify with certainty, in order, each captured item once.

        Args:
            places: All items of the request.
            crowded: Indices of items whose ids more conversations have than were loaded, so that
                they identify nothing.

        Returns:
            Index of a place -> the captured item; and whether no other item can match one.
        """
        matches: dict[int, Match] = {}
        is_all = True
        types = self.types
        for index, place in enumerate(places):
            item = place.item
            is_known = item.type in types or item.role is _REFERENCE
            if not is_known and not item.call_id:
                continue
            has_name = (item.id or item.call_id) and index not in crowded
            match = self.certain_match(item) if has_name else None
            if match is not None:
                matches[index] = match
                self.use(match)
            elif is_known and (item.role is _MODEL or item.type != "message"):
                is_all = False  # only messages that are not from a model can never match
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

    def is_free(self, match: Match, item: HistoryItem) -> bool:
        """Return whether a captured item is not matched yet and agrees in type and tool name."""
        return _place(match) not in self._used and _agrees(item, match.emitted)

    def certain_match(self, item: HistoryItem) -> Match | None:
        """Match by a random id from upstream, or by a `call_id` that only one call has."""
        named, called = self._by_id.get(item.id, ()), self._by_call.get(item.call_id, ())
        if (
            len(named) == 1
            and ":" not in item.call_id
            and (not item.call_id or (len(called) == 1 and named[0] is called[0]))
        ):
            # Fast path, for most items: their ids lead to one and the same item.
            match = named[0]
            if self.is_free(match, item) and match.turn.id not in self._given:
                sure = is_distinctive(item.id, "") or is_distinctive(item.call_id, item.name)
                return match if sure else None
        return self._certain_match(item)

    def _certain_match(self, item: HistoryItem) -> Match | None:
        named: Sequence[Match] = ()
        if item.id and is_distinctive(item.id, ""):
            named = self._by_id.get(item.id, ())
        if called := self._with_call_id(item):
            # If the two lead to different items, they contradict each other.
            both = {_place(match) for match in called}
            named = [match for match in named if _place(match) in both] if named else called
        agreed = [match for match in named if _agrees(item, match.emitted)]
        if any(match.turn.id in self._given for match in agreed):
            raise Reopened  # a part of a response that began before
        # A name of several captured items proves nothing, even if all but one are matched.
        is_free = len(agreed) == 1 and _place(agreed[0]) not in self._used
        return agreed[0] if is_free else None

    def _with_call_id(self, item: HistoryItem) -> Sequence[Match]:
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
    """
    Return whether an item agrees with an emitted one in type and tool name.

    A call of another type is the same one if its random `call_id` and its name are: clients turn
    calls of custom tools into calls of functions.
    """
    if item.role is Role.REFERENCE:
        return True
    if item.type != emitted.type:
        is_call = item.role is _MODEL and item.name != "" and item.call_id == emitted.call_id
        return is_call and item.name == emitted.name and is_distinctive(item.call_id, item.name)
    return not (item.name and emitted.name and item.name != emitted.name)


def ids_allow(
    item: HistoryItem,
    emitted: Emitted,
    are_renamed: Callable[[], bool] = bool,
    are_renumbered: Callable[[], bool] = bool,
) -> bool:
    """
    Return whether the ids of an item allow that it is an emitted one.

    Args:
        item: An item of a request.
        emitted: A captured one.
        are_renamed: Whether the client may have replaced the ids of calls (`have_one_origin`).
        are_renumbered: Whether another number of the same counter may be one that the client made.
    """
    if are_two_items(item.id, emitted.id):
        return False
    if (
        are_two_counts(item.id, emitted.id) or are_two_counts(item.call_id, emitted.call_id)
    ) and not are_renumbered():
        return False
    return (
        item.call_id in ("", emitted.call_id)
        or not is_distinctive(item.call_id, item.name)
        or not is_distinctive(emitted.call_id, emitted.name)
        or (not have_one_origin(item.call_id, emitted.call_id, item.name) and are_renamed())
    )


def says_the_same(item: HistoryItem, emitted: Emitted) -> bool:
    """Return whether an item has the random id or the content of an emitted one."""
    if item.id and item.id == emitted.id and is_distinctive(item.id, ""):
        return True
    if not _agrees(item, emitted):
        return False
    if item.content and emitted.content:
        return item.content == emitted.content
    return not item.content and not emitted.content
