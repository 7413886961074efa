"""
Alignment: the assignment of a request's blocks to captured turns, shared by all passes.

A block is the items of a model between two messages of the client's side. Each pass assigns the
blocks that it is sure of. An assignment is final.
"""

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import FoundTurns, IndexedTurns, ItemIndex, Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.request_history import Place, RequestHistory
from reasoning_replay.core.history.turns import Context, Turn

Pairs = dict[int, int]  # index of a place -> index of the matching item in a turn

# Limit on the ancestors that are considered, and on consecutive ancestors without a block.
ANCESTORS_WEIGHED = 32


@dataclass(slots=True)
class Block:
    """
    One block of a request.

    Attributes:
        number: Index among the blocks.
        places: Indices of its items, without reasoning.
        depth: Number of messages of the client's side before it.
        turn: The turn that emitted it; None if unknown.
        is_tied: Whether several turns explain it equally well.
    """

    number: int
    places: list[int]
    depth: int
    turn: Turn | None = None
    is_tied: bool = False


def blocks_of(request: RequestHistory[HistoryItem], emitted_types: AbstractSet[str]) -> list[Block]:
    """
    Return the blocks of a request, in order.

    Some outputs come from upstream itself, for example from a hosted search. So an item of a type
    that a turn emitted belongs to a block, regardless of its role; messages are the exception.
    """
    blocks: list[Block] = []
    is_open = False
    for n, place in enumerate(request.places):
        role, kind = place.item.role, place.item.type
        is_emitted = role is Role.MODEL or role is Role.REFERENCE
        if is_emitted or (kind in emitted_types and kind != "message"):
            if is_open:
                blocks[-1].places.append(n)
            else:
                blocks.append(Block(len(blocks), [n], place.depth))
            is_open = True
        elif role is Role.CLIENT:
            is_open = False
    return blocks


class Alignment:
    """
    The blocks of one request, the turns that were found for it, and what is assigned so far.

    What is decided has no blocks and no matches here; its turns are assigned.

    Attributes:
        decided: What is decided already.
        index: The turns that were found, by their names, content and ancestry.
        turns: The same by id.
        matches: Index into `RequestHistory.places` -> the captured item.
        ambiguous: Indices of items that more than one turn could have emitted.
        blocks: Blocks in order.
        is_refused: Whether upstream refused the request.
        chosen: Indices of items for which one of equal turns was taken because of that.
    """

    def __init__(
        self,
        request: RequestHistory[HistoryItem],
        looked_up: LookupResult,
        *,
        is_refused: bool = False,
    ) -> None:
        turns = looked_up.turns
        indexed = turns if isinstance(turns, IndexedTurns | FoundTurns) else None
        self.index = indexed.names if indexed is not None else ItemIndex(turns)
        self.turns = self.index.turns
        self.request, self.decided, self.places = request, request.decided, request.places
        self.crowded, self.is_refused = looked_up.crowded, is_refused
        self.matches: dict[int, Match] = {}
        self.ambiguous: set[int] = set()
        self.chosen: set[int] = set()
        self.blocks: list[Block] = []
        self._used: set[tuple[bytes, int]] = set()  # id of a turn, and index of a matched item
        self._assigned: dict[bytes, int] = {}  # id of an assigned turn -> number of its first block
        self._openings: dict[bytes, Turn] = {}  # id of a turn -> the first turn of its round

    def begin(self) -> None:
        """Make the blocks."""
        self.blocks = blocks_of(self.request, self.index.types)

    def newest(self) -> Turn | None:
        """Return the turn of the last matched item; None without a match."""
        return self.matches[max(self.matches)].turn if self.matches else self.decided.newest

    # What a block says.

    def first(self, block: Block) -> Place[HistoryItem]:
        """Return the place of a block's first item."""
        return self.places[block.places[0]]

    def whole(self, block: Block) -> bytes:
        """Return a digest of the whole history before a block, as `Context.whole`."""
        return self.request.whole(self.first(block))

    def contents(self, block: Block) -> set[bytes]:
        """Return the content digests of a block's items."""
        return {self.places[n].item.content for n in block.places} - {b""}

    def saying(self, block: Block) -> dict[bytes, Turn]:
        """Return the turns that have content of a block, by id."""
        by_content = self.index.by_content
        return {t.id: t for said in self.contents(block) for t in by_content.get(said, ())}

    @cached_property
    def are_renamed(self) -> bool:
        """Whether the client may replace ids of calls: it keeps none that is known."""
        called = [(place.item.call_id, place.item.name) for place in self.places]
        return self.request.may_rename and not any(
            this in self.index.by_call and is_distinctive(this, name) for this, name in called
        )

    # Assigning.

    def is_assigned(self, turn: Turn) -> bool:
        """Return whether a block is assigned to a turn."""
        return turn.id in self._assigned or turn.id in self.decided.turns

    def has_other_place(self, block: Block, turn: Turn) -> bool:
        """Return whether another block stands where a turn was given."""
        return self._by_history.get(turn.context.whole, block) is not block

    @cached_property
    def _by_history(self) -> dict[bytes, Block]:
        return {self.whole(each): each for each in self.blocks}

    def assign(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        """Assign a block to a turn, and match its items that are not matched."""
        block.turn = turn
        self._assigned[turn.id] = min(block.number, self._assigned.get(turn.id, block.number))
        for n, k in pairs.items():
            if n not in self.matches:
                self.record(n, Match(turn, k))
            self.ambiguous.discard(n)

    def is_used(self, match: Match) -> bool:
        """Return whether a captured item is matched: each is used once."""
        return (match.turn.id, match.k) in self._used

    def record(self, n: int, match: Match) -> None:
        """Match an item with a captured one."""
        self.matches[n] = match
        self._used.add((match.turn.id, match.k))

    def unmatch(self, n: int) -> None:
        """Undo the match of an item."""
        match = self.matches.pop(n)
        self._used.discard((match.turn.id, match.k))

    def keep_open(self, is_open: Callable[[int], bool]) -> None:
        """Take the items out of the blocks that no later pass may match."""
        for block in self.blocks:
            block.places = [n for n in block.places if is_open(n)]
        self.blocks = [block for block in self.blocks if block.places]

    def doubt(self, block: Block, *, is_tied: bool = False) -> None:
        """Count a block as ambiguous; a tied one is left to no later pass."""
        block.is_tied = block.is_tied or is_tied
        self.ambiguous.add(block.places[0])

    # Ancestors.

    def offset(self, block: Block, turn: Turn) -> int:
        """
        Return how far a turn has moved: its block's depth minus the depth of its context.

        The block is the first one assigned to the turn, or this one if there is no other.
        """
        first = self.blocks[self._assigned.get(turn.id, block.number)]
        return first.depth - turn.context.depth

    def nearest_ancestor(self, block: Block, turn: Turn) -> Turn | None:
        """Return the nearest ancestor of a turn that a block before this one is assigned to."""
        for one in self.ancestors(turn):
            if self._assigned.get(one, block.number) < block.number:
                return self.turns[one]
        return None

    def ancestors(self, turn: Turn) -> Iterator[bytes]:
        """Yield the ids of a turn's ancestors, newest first, up to ANCESTORS_WEIGHED."""
        at: Turn | None = turn
        for _ in range(ANCESTORS_WEIGHED):
            if at is None or not at.parent:
                return
            yield at.parent
            at = self.turns.get(at.parent)

    # Rounds.

    def contexts(self, turn: Turn) -> list[Context]:
        """
        Return the contexts in which a turn may stand: its own, and that of the round that it ends.

        A round is a run of turns, each of which answered only the outputs of the one before. Chat
        apps keep the last text of a round and drop its calls.
        """
        if any(item.call_id for item in turn.items):
            return [turn.context]
        line = [turn]
        while line[-1].id not in self._openings and (before := self._before(line[-1])) is not None:
            line.append(before)
        opening = self._openings.get(line[-1].id, line[-1])
        self._openings.update((one.id, opening) for one in line)
        is_whole = opening is turn or self.is_assigned(opening)
        return [turn.context] if is_whole else [turn.context, opening.context]

    def _before(self, turn: Turn) -> Turn | None:
        """Return the turn before one in the same round."""
        parent = self.turns.get(turn.parent)
        if parent is None or not parent.context.is_known:
            return None
        calls = sum(bool(item.call_id) for item in parent.items)
        return parent if 0 < calls == turn.context.depth - parent.context.depth else None
