"""Item index: captured items by the ids that upstream assigned to them."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import chain, combinations
from typing import Generic, TypeVar

import msgspec
from typing_extensions import override

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.turns import Emitted, Turn

_K = TypeVar("_K")
_V = TypeVar("_V")


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
        by_content, children: Turns by the content of their items, and by the id of their parent.
        parentless: Turns without a known parent (`Turn.lacks_parent`).
        names_recur: Whether a random id names items of several turns, so that none is random.
    """

    __slots__ = (
        "by_call",
        "by_content",
        "by_id",
        "by_whole",
        "children",
        "has_lessons",
        "names_recur",
        "parentless",
        "turns",
        "types",
    )

    def __init__(self, turns: Iterable[Turn] = ()) -> None:
        self.turns: MutableMapping[bytes, Turn] = {}
        self.by_whole: Mapping[bytes, Sequence[Turn]] = {}
        self.types: set[str] = set()
        self.has_lessons = False
        self.by_id: Mapping[str, Sequence[Match]] = {}
        self.by_call: Mapping[str, Sequence[Match]] = {}
        self.by_content: Mapping[bytes, Sequence[Turn]] = {}
        self.children: Mapping[bytes, Sequence[Turn]] = {}
        self.parentless: Sequence[Turn] = ()
        self.names_recur = False
        self._add({turn.id: turn for turn in turns}.values())

    def after(self, turn: Turn) -> "ItemIndex":
        """Return an index of the same turns and of a further one, which must be new."""
        more = ItemIndex()
        for part in ItemIndex.__slots__:
            setattr(more, part, getattr(self, part))
        more._add([turn])
        return more

    def _add(self, turns: Iterable[Turn]) -> None:
        """Add turns, without a change of what may be shared."""
        by_id, by_call, named = _Grown(self.by_id), _Grown(self.by_call), False
        by_whole, by_content = _Grown(self.by_whole), _Grown(self.by_content)
        children, parentless = _Grown(self.children), [*self.parentless]
        self.turns, self.types = {**self.turns}, {*self.types}
        for turn in turns:
            self.turns[turn.id] = turn
            self.has_lessons = self.has_lessons or bool(turn.lessons)
            by_whole.add(turn.context.whole, turn)
            children.add(turn.parent, turn)
            if turn.lacks_parent:
                parentless.append(turn)
            for k, item in enumerate(turn.items):
                match = Match(turn, k)
                self.types.add(item.type)
                named = _recurs(item.id, by_id.add(item.id, match)) or named
                named = _recurs(item.call_id, by_call.add(item.call_id, match)) or named
            for content in {item.content for item in turn.items if item.content}:
                by_content.add(content, turn)
        self.names_recur = self.names_recur or named
        self.by_id, self.by_call, self.by_whole = by_id.lists, by_call.lists, by_whole.lists
        self.by_content, self.children = by_content.lists, children.lists
        self.parentless = parentless


class _Grown(Generic[_K, _V]):
    """Lists by key that grow from others, which stay as they are."""

    __slots__ = ("_own", "lists")

    def __init__(self, before: Mapping[_K, Sequence[_V]]) -> None:
        self.lists = {**before}
        self._own: dict[_K, list[_V]] = {}

    def add(self, key: _K, value: _V) -> Sequence[_V]:
        """Add a value to the list of a key; return the list."""
        own = self._own.get(key)
        if own is None:
            self._own[key] = self.lists[key] = own = [*self.lists.get(key, ()), value]
        else:
            own.append(value)
        return own


def _recurs(name: str, matches: Sequence[Match]) -> bool:
    """Return whether a random name, of which one more item is known, is of several turns."""
    first, last = matches[0], matches[-1]
    return first.turn is not last.turn and is_distinctive(name, first.emitted.name)


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
        names: Index of their items.
    """

    __slots__ = ("names", "parts")

    def __init__(self, found: Mapping[bytes, IndexedTurns]) -> None:
        super().__init__(turn for turns in found.values() for turn in turns)
        self.parts = found
        self.names: ItemIndex = _JoinedIndex([turns.names for turns in found.values()])


class _JoinedIndex(ItemIndex):
    """Several indexes as one; of turns of one id, that of the last one counts."""

    __slots__ = ()

    def __init__(self, parts: Sequence[ItemIndex]) -> None:
        """
        Join indexes; none of their items is visited.

        Cost: some C passes over the names and the turns.
        """
        self.turns = turns = ChainMap(*[one.turns for one in reversed(parts)])
        pairs = combinations([one.turns for one in parts], 2)
        # None: no turn is in two of them.
        held = turns if any(not one.keys().isdisjoint(two) for one, two in pairs) else None
        self.types = {*chain(*[one.types for one in parts])}
        self.has_lessons = any(one.has_lessons for one in parts)
        by_id = self.by_id = _Joined([one.by_id for one in parts], _of_match, held)
        by_call = self.by_call = _Joined([one.by_call for one in parts], _of_match, held)
        self.by_whole = _Joined([one.by_whole for one in parts], _itself, held)
        self.by_content = _Joined([one.by_content for one in parts], _itself, held)
        self.children = _Joined([one.children for one in parts], _itself, held)
        self.parentless = [
            turn for one in parts for turn in one.parentless if turns[turn.id] is turn
        ]
        self.names_recur = any(one.names_recur for one in parts) or any(
            _recurs(name, matches)
            for names in (by_id, by_call)
            for name in names.shared()
            if (matches := names.get(name))
        )


class _Joined(Mapping[_K, Sequence[_V]]):
    """
    The lists of several mappings, joined.

    With `turns`, what is of another turn than the one that counts is left out.
    """

    __slots__ = ("_parts", "_turn_of", "_turns")

    def __init__(
        self,
        parts: Sequence[Mapping[_K, Sequence[_V]]],
        turn_of: Callable[[_V], Turn],
        turns: Mapping[bytes, Turn] | None,
    ) -> None:
        self._parts, self._turn_of, self._turns = parts, turn_of, turns

    def shared(self) -> set[_K]:
        """Return the keys of more than one mapping."""
        pairs = combinations(self._parts, 2)
        return {key for one, other in pairs for key in one.keys() & other.keys()}

    @override
    def __getitem__(self, key: _K) -> Sequence[_V]:
        found = [parts[key] for parts in self._parts if key in parts]
        if not found:
            raise KeyError(key)
        every = found[0] if len(found) == 1 else [*chain(*found)]
        if self._turns is None:
            return every
        return [one for one in every if self._turns[self._turn_of(one).id] is self._turn_of(one)]

    @override
    def __iter__(self) -> Iterator[_K]:
        return iter({*chain(*self._parts)})

    @override
    def __len__(self) -> int:
        return len({*chain(*self._parts)})


def _of_match(match: Match) -> Turn:
    return match.turn


def _itself(turn: Turn) -> Turn:
    return turn


def by_conversation(turns: Sequence[Turn]) -> Mapping[bytes, IndexedTurns]:
    """Return the turns of each conversation that was found; {} if they are not indexed."""
    if isinstance(turns, IndexedTurns):
        return {turns[0].conversation: turns} if turns else {}
    return turns.parts if isinstance(turns, FoundTurns) else {}
