"""
Alignment: the assignment of a request's blocks to captured turns, shared by all passes.

Each pass (`remembered`, `by_id`, `ancestry`, `by_content`) assigns the blocks that it is sure of.
An assignment is final. It includes neighbouring blocks that hold the rest of the turn.
"""

from collections.abc import Callable, Iterator

from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.candidates import Candidates
from reasoning_replay.core.history.matching.evidence import Block, Evidence, Pairs, blocks_of
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.turns import Context, Turn

# Limit on the ancestors that are considered, and on consecutive ancestors without a block.
ANCESTORS_WEIGHED = 32


class Alignment:
    """
    The blocks of one request, and the turns that they are assigned to.

    What is given has no blocks and no matches here; its turns are assigned.

    Attributes:
        given: What is decided already.
        matches: Index into `RequestHistory.places` -> the captured item.
        ambiguous: Indices of items that more than one turn could have emitted.
        blocks: Blocks in order.
        turns: Turns by id.
        by_content, by_whole, children: Turns by the content of their items, by `Context.whole`, and
            by the id of their parent.
        parentless: Turns without a known parent (`Turn.lacks_parent`).
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
        self.request = request
        self.given = request.given
        self.places = request.places
        self.crowded = looked_up.crowded
        self.is_refused = is_refused
        self.ambiguous: set[int] = set()
        self.chosen: set[int] = set()
        self.known = Candidates(looked_up.turns, self.given.turns)
        index = self.known.index
        self.turns, self.by_whole, self.by_content = index.turns, index.by_whole, index.by_content
        self.children, self.parentless = index.children, index.parentless
        self.evidence = Evidence(request, self.known)
        # Matches by certain ids, and whether no other item can be matched.
        self.matches, self.is_all_certain = self.known.match_certain(self.places, self.crowded)
        self.blocks: list[Block] = []
        self._assigned: dict[bytes, int] = {}  # id of an assigned turn -> number of its first block
        self._by_history: dict[bytes, Block] = {}  # digest of a block's history -> the block
        self._openings: dict[bytes, Turn] = {}  # id of a turn -> the first turn of its round

    def begin(self) -> None:
        """Make the blocks."""
        self.blocks = blocks_of(self.request, self.known.types)

    def newest(self) -> Turn | None:
        """Return the turn of the last matched item; None without a match."""
        return self.matches[max(self.matches)].turn if self.matches else self.given.newest

    def contents(self, block: Block) -> set[bytes]:
        """Return the content digests of a block's items."""
        return {self.places[n].item.content for n in block.places} - {b""}

    # Assigning blocks.

    def is_assigned(self, turn: Turn) -> bool:
        """Return whether a block is assigned to a turn."""
        return turn.id in self._assigned or turn.id in self.given.turns

    def has_other_place(self, block: Block, turn: Turn) -> bool:
        """Return whether another block stands where a turn was given."""
        if not self._by_history:
            self._by_history = {self.evidence.whole(each): each for each in self.blocks}
        return self._by_history.get(turn.context.whole, block) is not block

    def assign(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        """Assign a block to a turn, and neighbouring blocks that hold the rest of the turn."""
        self.assign_alone(block, turn, pairs)
        self.assign_neighbours(block, turn, pairs)

    def assign_neighbours(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        """Assign the neighbours of an assigned block that hold the rest of its turn."""
        first, last = min(pairs.values(), default=0), max(pairs.values(), default=0)
        for step, rest in ((-1, range(first)), (1, range(last + 1, len(turn.items)))):
            at, left = block, rest
            while left and (after := self._beside(at, step)) is not None:
                more = self.evidence.in_order(after.places, turn, left)
                if len(more) < len(after.places):
                    break
                self.assign_alone(after, turn, more)
                ends = min(more.values()), max(more.values())
                left = range(left.start, ends[0]) if step < 0 else range(ends[1] + 1, left.stop)
                at = after

    def assign_alone(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        """Assign a block to a turn, without its neighbours."""
        block.turn = turn
        self._assigned[turn.id] = min(block.number, self._assigned.get(turn.id, block.number))
        for n, k in pairs.items():
            if n not in self.matches:
                self.record(n, turn, k)
            self.ambiguous.discard(n)

    def record(self, n: int, turn: Turn, k: int) -> None:
        """Match an item with item `k` of a turn; each captured item is used once."""
        self.matches[n] = match = Match(turn, k)
        self.known.use(match)

    def repeat(self, n: int, match: Match | None) -> None:
        """Match an item as before, whatever its ids say; None: it stays unmatched."""
        self.matches.pop(n, None)
        if match is not None:
            self.record(n, match.turn, match.k)

    def keep_open(self, is_open: Callable[[int], bool]) -> None:
        """Take the items out of the blocks that no later pass may match."""
        for block in self.blocks:
            block.places = [n for n in block.places if is_open(n)]
        self.blocks = [block for block in self.blocks if block.places]

    def doubt(self, block: Block, *, is_tied: bool = False) -> None:
        """Count a block as ambiguous; a tied one is left to no later pass."""
        block.is_tied = block.is_tied or is_tied
        self.ambiguous.add(block.places[0])

    def unmatch(self, n: int) -> None:
        """Undo the match of an item."""
        self.known.release(self.matches.pop(n))

    def _beside(self, block: Block, step: int) -> Block | None:
        """Return the neighbouring block, if it is not assigned and nothing is said in between."""
        number = block.number + step
        if not 0 <= number < len(self.blocks) or self.blocks[number].turn is not None:
            return None
        other = self.blocks[number]
        one, two = (other, block) if step < 0 else (block, other)
        between = self.places[one.places[-1] + 1 : two.places[0]]
        spoke = (p.item.type == "message" and p.item.role is not Role.FRAME for p in between)
        return None if any(spoke) else other

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
        calls = sum(bool(item.call_id) for item in parent.items) if parent is not None else 0
        if parent is None or not calls or not parent.context.is_known:
            return None
        return parent if turn.context.depth - parent.context.depth == calls else None

    # Frames.

    def frame_of(self, block: Block) -> bytes:
        """Return the digest of the frame before a block."""
        return self.places[block.places[0]].frame

    def preference(self, block: Block, turn: Turn) -> tuple[bool, bool]:
        """Return whether a turn has the request's hint, and whether it has the block's frame."""
        hint, context = self.request.hint, turn.context
        return bool(hint) and context.hint == hint, context.frame == self.frame_of(block)
