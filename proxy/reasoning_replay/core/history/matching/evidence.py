"""Evidence: how a block of a request and a captured turn agree, by what is said and after what."""

from collections.abc import Iterable, Sequence

from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.matching.blocks import Block
from reasoning_replay.core.history.matching.candidates import (
    Candidates,
    may_be_called,
    says_the_same,
)
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS, Turn

__all__ = ["LINKS_WEIGHED", "Evidence", "Pairs"]

Pairs = dict[int, int]  # index of a place -> index of the item of a turn that it is

# So many of the last messages are looked at to weigh what was said before.
LINKS_WEIGHED = 32
# Different sayings of so many characters in all are not said twice by chance, after one another.
MUCH_CHARS = 24
# Nor is one of so many, whatever was said before it.
LONG_CHARS = 64


class Evidence:
    """What a request says of turns."""

    def __init__(self, request: RequestHistory[HistoryItem], known: Candidates) -> None:
        """Look at one request and the turns that were found for it."""
        self._request = request
        self._places = request.places
        self._known = known

    def pairs_in_place(self, block: Block, turn: Turn, shift: int | None) -> Pairs:
        """
        Pair a whole block with a turn whose line is known, if it stands where the turn did.

        Args:
            block: No turn has it yet.
            turn: Of the same line as a turn that has a block.
            shift: How many more messages stand before that block than its turn had heard; None:
                it tells nothing of this one.

        Returns:
            {} unless it does.
        """
        pairs = self.pairs(block, turn)
        is_there = len(pairs) == len(block.places) and self._fits(block, turn, pairs, shift)
        return pairs if is_there else {}

    def _fits(self, block: Block, turn: Turn, pairs: Iterable[int], shift: int | None) -> bool:
        """
        Tell whether a turn of the same line has its place before a block's messages.

        As much was said before as its turn had heard, and the last of it is the same; or what is
        said is long enough to recur nowhere else.
        """
        theirs = turn.context
        if theirs.whole == self.whole(block):
            return True
        equal = self.equal_links(block, turn)
        if shift == 0 and block.depth == theirs.depth and (equal or not block.depth):
            return True
        return equal == TAIL_LINKS or self.says_much(pairs, block, equal)

    def equal_links(self, block: Block, turn: Turn) -> int:
        """Count how many of the last messages before a block are those that a turn had heard."""
        ours, tail = self._request.said[: block.depth], turn.context.tail
        equal = 0
        for at in range(len(tail) - LINK_BYTES, -1, -LINK_BYTES):
            if equal == len(ours) or ours[-1 - equal][:LINK_BYTES] != tail[at : at + LINK_BYTES]:
                break
            equal += 1
        return equal

    def reach(self, block: Block, turn: Turn, pairs: Iterable[int]) -> int:
        """
        Return how much of what was said before a block its turn had heard; 0: not enough.

        What a turn had heard and the request lacks at its head was cut off there.
        """
        request, theirs, depth = self._request, turn.context, block.depth
        if theirs.depth == depth and theirs.chain == request.chains[depth]:
            if depth:
                return depth
            return int(bool(theirs.frame) and theirs.frame == self._places[block.places[0]].frame)
        equal = self.equal_links(block, turn)
        if equal == TAIL_LINKS:
            return equal
        if equal and equal == depth < theirs.depth:
            return equal
        if not depth or self.chars(pairs) >= LONG_CHARS:
            return max(1, equal)
        return equal if self.says_much(pairs, block, 0) and equal < theirs.depth else 0

    def says_much(self, paired: Iterable[int], block: Block, links: int) -> bool:
        """Tell whether items, and so many messages before them, say what hardly recurs."""
        chars = self.chars(paired)
        said: set[bytes] = set()
        at = block.places[0] - 1
        while chars < MUCH_CHARS and links and at >= 0:
            item = self._places[at].item
            if item.role is Role.CLIENT:
                links -= 1
                chars += item.chars if item.said not in said else 0
                said.add(item.said)
            at -= 1
        return chars >= MUCH_CHARS

    def chars(self, paired: Iterable[int]) -> int:
        """Count the characters of some items, each saying once."""
        items = [self._places[n].item for n in paired]
        return sum({item.content: item.chars for item in items}.values())

    def pairs(self, block: Block, turn: Turn) -> Pairs:
        """
        Pair the items of a block with those of a turn that say the same, in order.

        Returns:
            {} unless one side is paired whole: clients leave out items, or add messages.
        """
        pairs = self.in_order(block.places, turn, range(len(turn.items)))
        if len(pairs) == len(block.places):
            if len(pairs) == len(turn.items) or self.says_much(pairs, block, 0):
                return pairs
            # After all that was said just so, the rest was left out.
            return pairs if turn.context.whole == self.whole(block) else {}
        are_messages = all(self._places[n].item.type == "message" for n in block.places)
        return pairs if are_messages and len(pairs) == len(turn.items) else {}

    def in_order(self, places: Sequence[int], turn: Turn, emitted: Sequence[int]) -> Pairs:
        """
        Pair what says the same, in order.

        Args:
            places: Indices of items of the request.
            turn: Any.
            emitted: Which of its items.

        Returns:
            Those of the places that are one.
        """
        pairs: Pairs = {}
        at = 0
        for n in places:
            item = self._places[n].item
            for step in range(at, len(emitted)):
                said = turn.items[emitted[step]]
                if says_the_same(item, said) and may_be_called(item, said):
                    pairs[n] = emitted[step]
                    at = step + 1
                    break
        return pairs

    def whole(self, block: Block) -> bytes:
        """Return a digest of all that was said before a block, as `Context.whole`."""
        if not block.whole:
            block.whole = self._request.whole(self._places[block.places[0]])
        return block.whole

    def may_be(self, n: int, match: Match) -> bool:
        """Tell whether an item can be a captured one, whatever it says."""
        item, emitted = self._places[n].item, match.emitted
        return bool(self._known.free([match], item)) and may_be_called(item, emitted)
