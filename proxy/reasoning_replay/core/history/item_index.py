"""Item index: captured items by the ids that upstream assigned to them."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from reasoning_replay.core.history.turns import Emitted, Turn


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
    Captured items by id and `call_id`; a later turn replaces an earlier one of the same id.

    An index is never changed: `after` returns a new one.

    Attributes:
        turns: Turns by id.
        by_whole: Turns by `Context.whole`.
        types: Types of all their items.
        has_lessons: Whether a cure taught something.
        by_id: Items by their id; items without one are under "".
        by_call: Items by their `call_id`, in the same way.
    """

    __slots__ = ("by_call", "by_id", "by_whole", "has_lessons", "turns", "types")

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self.turns: dict[bytes, Turn] = {}
        self.by_whole: dict[bytes, tuple[Turn, ...]] = {}
        self.types: set[str] = set()
        self.has_lessons = False
        self.by_id: dict[str, list[Match]] = {}
        self.by_call: dict[str, list[Match]] = {}
        for turn in {turn.id: turn for turn in turns}.values():
            self._add(turn)

    def after(self, turn: Turn) -> "ItemIndex":
        """Return an index of the same turns and of a further one, which must be new."""
        more = ItemIndex()
        more.turns, more.by_whole = self.turns.copy(), self.by_whole.copy()
        more.types, more.has_lessons = self.types.copy(), self.has_lessons
        more.by_id, more.by_call = self.by_id.copy(), self.by_call.copy()
        for item in turn.items:  # copy only the lists that will change
            for name, known in ((item.id, more.by_id), (item.call_id, more.by_call)):
                if name in known:
                    known[name] = [*known[name]]
        more._add(turn)
        return more

    def knows(self, item_id: str, call_id: str) -> bool:
        """Return whether an item has this id or this `call_id`; "" is none."""
        has_id = item_id != "" and item_id in self.by_id
        return has_id or (call_id != "" and call_id in self.by_call)

    def _add(self, turn: Turn) -> None:
        self.turns[turn.id] = turn
        self.has_lessons = self.has_lessons or bool(turn.lessons)
        whole = turn.context.whole
        self.by_whole[whole] = (*self.by_whole.get(whole, ()), turn)
        for k, item in enumerate(turn.items):
            match = Match(turn, k)
            self.types.add(item.type)
            self.by_id.setdefault(item.id, []).append(match)
            self.by_call.setdefault(item.call_id, []).append(match)


class IndexedTurns(list[Turn]):
    """
    Turns of one conversation with an index that many requests share; no turn occurs twice.

    Neither the turns nor the list may be changed.

    Attributes:
        names: Index of their items.
        line: The same object as long as turns were only added at the end.
    """

    __slots__ = ("line", "names")

    def __init__(self, turns: Iterable[Turn], before: "IndexedTurns | None" = None) -> None:
        """Index the turns; only the last one, if `before` holds all the others."""
        super().__init__(turns)
        self.line: object = object() if before is None else before.line
        self.names: ItemIndex = ItemIndex(self) if before is None else before.names.after(self[-1])


class FoundTurns(list[Turn]):
    """
    Turns of several conversations.

    Attributes:
        parts: The turns of each conversation.
    """

    __slots__ = ("parts",)

    def __init__(self, found: Mapping[bytes, IndexedTurns]) -> None:
        super().__init__(turn for turns in found.values() for turn in turns)
        self.parts = found


def by_conversation(turns: Sequence[Turn]) -> Mapping[bytes, IndexedTurns]:
    """Return the turns of each conversation that was found; {} if they are not indexed."""
    if isinstance(turns, IndexedTurns):
        return {turns[0].conversation: turns} if turns else {}
    return turns.parts if isinstance(turns, FoundTurns) else {}
