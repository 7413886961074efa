"""Claims: that an item, or a block, came from a captured turn; and what both have in common."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from reasoning_replay.core.history.decided import MUCH_CHARS, enough
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.matching.alignment import Alignment, Block, Pairs
from reasoning_replay.core.history.turns import LINK_BYTES, Context, Emitted, Turn

# Content that more turns share is no evidence, and comparing all of them would not be linear.
CANDIDATES_WEIGHED = 32


class Named(NamedTuple):
    """
    A claim: an item of a request is a captured one.

    Attributes:
        n: Index of the item.
        since: Index of the first item that is paired with the turn in order; -1: none is.
    """

    found: Alignment
    n: int
    match: Match
    since: int = -1

    @property
    def item(self) -> HistoryItem:
        """The item of the request."""
        return self.found.places[self.n].item

    @property
    def emitted(self) -> Emitted:
        """The captured item."""
        return self.match.emitted

    @property
    def is_changed(self) -> bool:
        """Whether both have content, and it differs."""
        said, captured = self.item.content, self.emitted.content
        return bool(said and captured and said != captured)

    @property
    def is_after_another(self) -> bool:
        """Whether the last message of the client's side before the item is another."""
        depth = self.found.places[self.n].depth
        last = self.found.request.link(depth - 1) if depth else b""
        return last != self.match.turn.context.tail[-LINK_BYTES:]


class Said(NamedTuple):
    """
    A claim: a block is what a turn said.

    Attributes:
        pairs: The pairs of their items.
        context: The context in which the turn stands (`Alignment.contexts`).
        offset: Number of client messages before the block next to it, minus the number before that
            one's turn; None if positions are no evidence.
        child: The block next to it, with a child of the turn.
    """

    found: Alignment
    block: Block
    turn: Turn
    pairs: Pairs
    context: Context
    offset: int | None = None
    child: tuple[Block, Turn] | None = None

    @property
    def is_own(self) -> bool:
        """Whether the turn stands in its own context, not in that of its round."""
        return self.context is self.turn.context

    @property
    def is_at_cut(self) -> bool:
        """Whether nothing is before the block: it was cut off, or the application wrote it."""
        return self.is_own and not self.block.depth

    @property
    def is_long(self) -> bool:
        """Whether messages are before the block, and its text hardly recurs by chance."""
        return self.is_own and self.block.depth > 0 and says_much(self)

    @property
    def is_named(self) -> bool:
        """Whether the turn has the request's hint."""
        hint = self.found.request.hint
        return bool(hint) and self.context.hint == hint

    @property
    def is_whole(self) -> bool:
        """Whether all items of the block are paired."""
        return len(self.pairs) == len(self.block.places)

    @property
    def has_call(self) -> bool:
        """Whether not all paired items are messages."""
        return any(self.found.places[n].item.type != "message" for n in self.pairs)

    @property
    def traces(self) -> bytes:
        """Traces of the model's items before the block, as `Context.model_traces`."""
        return self.found.first(self.block).model_traces


def says_much(claim: Said, messages: int = 0) -> bool:
    """
    Return whether items, with up to so many `messages` before them, hardly recur by chance.

    Equal content counts once. A text in another spelling than the turn's does not count: two
    responses may differ in nothing else.
    """
    found, items = claim.found, claim.turn.items
    both = [(found.places[n].item, items[k].spelling) for n, k in claim.pairs.items()]
    chars = {item.content: item.chars for item, said in both if said in (None, item.spelling)}
    left = MUCH_CHARS - sum(chars.values())
    if left > 0 and messages:
        asked = islice(enough(found.request.asked_before(claim.block.places[0])), messages)
        left -= sum(dict(asked).values())
    return left <= 0


def equal_messages(found: Alignment, block: Block, context: Context) -> int:
    """Count the last client messages before a block that equal the last before a turn."""
    newest, tail, link = block.depth - 1, context.tail, found.request.link
    equal = 0
    for at in range(len(tail) - LINK_BYTES, -1, -LINK_BYTES):
        if newest < equal or link(newest - equal) != tail[at : at + LINK_BYTES]:
            break
        equal += 1
    return equal


def children_of(found: Alignment, turn: Turn) -> Sequence[Turn]:
    """Return the children of a turn, only the newest of too many."""
    return found.index.children.get(turn.id, ())[-CANDIDATES_WEIGHED:]


def contents_after(found: Alignment, block: Block) -> set[bytes]:
    """Return the content digests of the block after one."""
    after = found.blocks[block.number + 1 : block.number + 2]
    return {content for other in after for content in found.contents(other)}


def is_followed(found: Alignment, block: Block, child: Turn) -> bool:
    """Return whether the message after a block is one before a child, or the child has a block."""
    asked, tail = found.request.link(block.depth), child.context.tail
    return found.is_assigned(child) or any(
        asked == tail[at : at + LINK_BYTES] for at in range(0, len(tail), LINK_BYTES)
    )
