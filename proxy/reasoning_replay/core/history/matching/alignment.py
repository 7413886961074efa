"""
Alignment: which blocks of a request have been given to which captured turns.

The passes (`following`, `names`, `lineage`, `sayings`) give blocks, each what it is sure of. What
is given stays given, and around it what else the turn emitted is found.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.blocks import Block, blocks_of
from reasoning_replay.core.history.matching.candidates import Candidates
from reasoning_replay.core.history.matching.evidence import Evidence, Pairs
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.turns import Turn

__all__ = ["Alignment"]

# A turn whose place has moved, as messages came and went before it, is looked for so far away.
NEIGHBOURS = 4
# So many turns of a line are looked at, or one after another that have no place.
ANCESTORS_WEIGHED = 32


class Alignment:
    """
    The blocks of one request, and the turns that have them.

    Attributes:
        matches: Index into `RequestHistory.places` -> what the item is.
        ambiguous: Indices of items that more than one turn could have emitted.
        blocks: By number.
        is_appended: Whether the request goes on from one that a turn answered, unchanged.
        basis: The turn that remembers what was decided about older items; b"" for none.
        since: Index of the first item in `RequestHistory.heard` that is not older.
        turns: By id.
        by_content, by_whole, children: The same by what they say, after what, and by their parent.
        parentless: Those that lack their parent.
    """

    def __init__(self, request: RequestHistory[HistoryItem], looked_up: LookupResult) -> None:
        """Look at a request and what was found for it; `begin` makes the blocks."""
        self.request = request
        self.places = request.places
        self.crowded = looked_up.crowded
        self.matches: dict[int, Match] = {}
        self.ambiguous: set[int] = set()
        self.known = Candidates(looked_up.turns)
        self.turns: Mapping[bytes, Turn] = self.known.turns
        self.evidence = Evidence(request, self.known)
        self.blocks: list[Block] = []
        self.is_appended = False
        self.basis, self.since = b"", 0
        self.children: dict[bytes, list[Turn]] = defaultdict(list)
        self.by_content: dict[bytes, list[Turn]] = defaultdict(list)
        self.by_whole: dict[bytes, list[Turn]] = defaultdict(list)
        self.parentless: list[Turn] = []
        self._given: dict[bytes, int] = {}  # turns that have a block, with its number

    def settle(self) -> bool:
        """Match what is certain by its names; tell whether nothing else can be matched."""
        self.matches, is_all = self.known.settle(self.places)
        return is_all

    def begin(self) -> None:
        """Make the blocks, and find turns by what they say."""
        self.blocks = blocks_of(self.request, self.known.types)
        for turn in self.turns.values():
            self.children[turn.parent].append(turn)
            self.by_whole[turn.context.whole].append(turn)
            if turn.lacks_parent:
                self.parentless.append(turn)
            for content in {item.content for item in turn.items if item.content}:
                self.by_content[content].append(turn)

    def contents(self, block: Block) -> set[bytes]:
        """Return what the items of a block say."""
        return {self.places[n].item.content for n in block.places} - {b""}

    # Giving.

    def is_given(self, turn: Turn) -> bool:
        """Tell whether a turn has a block."""
        return turn.id in self._given

    def give(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        """Give a block to a turn, and with it those around it that are the rest of the turn."""
        self.note(block, turn, pairs)
        first, last = min(pairs.values(), default=0), max(pairs.values(), default=0)
        for step, rest in ((-1, range(first)), (1, range(last + 1, len(turn.items)))):
            at, left = block, rest
            while left and (after := self._beside(at, step)) is not None:
                more = self.evidence.in_order(after.places, turn, left)
                if len(more) < len(after.places):
                    break
                self.note(after, turn, more)
                ends = min(more.values()), max(more.values())
                left = range(left.start, ends[0]) if step < 0 else range(ends[1] + 1, left.stop)
                at = after

    def note(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        """Give a block to a turn, and nothing else."""
        block.turn = turn
        self._given[turn.id] = min(block.number, self._given.get(turn.id, block.number))
        for n, k in pairs.items():
            if n not in self.matches:
                self.match(n, turn, k)
            self.ambiguous.discard(n)

    def match(self, n: int, turn: Turn, k: int) -> None:
        """Note what an item is; each captured item is used once."""
        self.matches[n] = match = Match(turn, k)
        self.known.use(match)

    def _beside(self, block: Block, step: int) -> Block | None:
        """Return the next block, if it has no turn yet and only outputs are in between."""
        number = block.number + step
        if not 0 <= number < len(self.blocks) or self.blocks[number].turn is not None:
            return None
        other = self.blocks[number]
        one, two = (other, block) if step < 0 else (block, other)
        between = self.places[one.places[-1] + 1 : two.places[0]]
        return None if any(place.item.type == "message" for place in between) else other

    # Lines.

    def ancestry(self, block: Block, turn: Turn) -> Iterator[tuple[Block, Turn, Pairs]]:
        """Yield the blocks before one that are the turns' before a turn, newest first."""
        shift, before = self.shift(block, turn), block.number
        seen = {turn.id}
        unplaced = 0
        parent = self.turns.get(turn.parent)
        while parent is not None and parent.id not in seen and before:
            seen.add(parent.id)
            if not parent.context.is_known or parent.id in self._given:
                return  # one that is given has its own line
            for other in reversed(self.blocks[max(0, before - NEIGHBOURS) : before]):
                if other.turn is not None:
                    break
                # Behind a turn of the line that has no place, where it stood says nothing.
                at = None if unplaced else shift
                if pairs := self.evidence.pairs_in_place(other, parent, at):
                    yield other, parent, pairs
                    before, unplaced = other.number, -1
                    shift = other.depth - parent.context.depth
                    break
            unplaced += 1
            if unplaced > ANCESTORS_WEIGHED:
                return
            parent = self.turns.get(parent.parent)

    def shift(self, block: Block, turn: Turn) -> int:
        """Return how many more messages stand before a turn's first block than it had heard."""
        first = self.blocks[self._given.get(turn.id, block.number)]
        return first.depth - turn.context.depth

    def kin(self, block: Block, turn: Turn) -> Turn | None:
        """Return the nearest ancestor of a turn that has a block before this one."""
        for one in self.line(turn):
            if self._given.get(one, block.number) < block.number:
                return self.turns[one]
        return None

    def line(self, turn: Turn) -> Iterator[bytes]:
        """Yield the ids of the turns before one, the newest first, as many as are worth a look."""
        at: Turn | None = turn
        for _ in range(ANCESTORS_WEIGHED):
            if at is None or not at.parent:
                return
            yield at.parent
            at = self.turns.get(at.parent)

    # Frames.

    def frame_of(self, block: Block) -> bytes:
        """Return what the application had set before a block."""
        return self.places[block.places[0]].frame

    def tie(self, block: Block, turn: Turn) -> tuple[bool, bool]:
        """Tell whether the conversation's name is that of a turn, and the frame of a block."""
        hint, theirs = self.request.hint, turn.context
        return bool(hint) and theirs.hint == hint, theirs.frame == self.frame_of(block)
