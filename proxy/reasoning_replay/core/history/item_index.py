"""Item index: captured items by the ids that the upstream gave them."""

from collections.abc import Iterable

import msgspec

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.turns import Emitted, Turn

__all__ = ["IndexedTurns", "ItemIndex", "Match"]


class Match(msgspec.Struct, frozen=True, gc=False):
    """The k-th item that a captured turn emitted."""

    turn: Turn
    k: int

    @property
    def emitted(self) -> Emitted:
        """The item as it was captured."""
        return self.turn.items[self.k]


class ItemIndex:
    """
    Captured items, found by their names. Never changed: `after` makes another.

    Attributes:
        turns: By id.
        types: Of all their items.
        by_id: Items by their id; those without one are under "".
        by_call: Items by their `call_id`, in the same way.
        sole: Items by their id, where no other captured item has one of their names: whatever has
            an item's id and `call_id`, and is of its type and name, is that item for certain.
    """

    __slots__ = ("by_call", "by_id", "sole", "turns", "types")

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        """Find every item by its names."""
        self.turns: dict[bytes, Turn] = {}
        self.types: set[str] = set()
        self.by_id: dict[str, list[Match]] = {}
        self.by_call: dict[str, list[Match]] = {}
        self.sole: dict[str, Match] = {}
        for turn in {turn.id: turn for turn in turns}.values():
            self._add(turn)

    def after(self, turn: Turn) -> "ItemIndex":
        """Return the names of the same turns, and of one that is none of them."""
        more = ItemIndex()
        more.turns = self.turns.copy()
        more.types = self.types.copy()
        more.by_id = self.by_id.copy()
        more.by_call = self.by_call.copy()
        more.sole = self.sole.copy()
        for item in turn.items:  # of the lists, those that become others
            for name, known in ((item.id, more.by_id), (item.call_id, more.by_call)):
                if name in known:
                    known[name] = [*known[name]]
        more._add(turn)
        return more

    def _add(self, turn: Turn) -> None:
        by_id, by_call, sole = self.by_id, self.by_call, self.sole
        self.turns[turn.id] = turn
        for k, item in enumerate(turn.items):
            match = Match(turn, k)
            item_id, call_id = item.id, item.call_id
            self.types.add(item.type)
            named = by_id.get(item_id)
            if named is None:
                by_id[item_id] = [match]
            else:
                named.append(match)
                sole.pop(item_id, None)
            called = by_call.get(call_id)
            if called is None:
                by_call[call_id] = [match]
            else:
                called.append(match)
                if call_id:
                    sole.pop(called[0].emitted.id, None)
            is_sole = named is None and (called is None or not call_id)
            if is_sole and ":" not in call_id and is_distinctive(item_id, ""):
                sole[item_id] = match


class IndexedTurns(list[Turn]):
    """
    Turns that are looked_up again and again, each once; they are not changed any more.

    Attributes:
        names: Of their items.
    """

    __slots__ = ("names",)

    def __init__(self, turns: Iterable[Turn], before: "IndexedTurns | None" = None) -> None:
        """Look through their names; only the last one's, if `before` is all the others."""
        super().__init__(turns)
        self.names: ItemIndex = ItemIndex(self) if before is None else before.names.after(self[-1])
