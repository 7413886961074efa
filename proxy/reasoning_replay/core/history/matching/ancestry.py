"""Ancestry: the passes that assign neighbours of assigned blocks to ancestors and children."""

from collections.abc import Iterator

from reasoning_replay.core.history.matching.alignment import (
    ANCESTORS_WEIGHED,
    Alignment,
    Block,
    Pairs,
)
from reasoning_replay.core.history.matching.claims import Said
from reasoning_replay.core.history.matching.evidence import PLACES, proof
from reasoning_replay.core.history.matching.pairing import assign, pairs_of
from reasoning_replay.core.history.turns import Turn

# Number of blocks that are searched for a turn. Its block may have moved, because clients add and
# remove messages before it.
NEIGHBOURS = 4


def assign_ancestors(found: Alignment) -> None:
    """Assign the blocks before each assigned one to the ancestors of its turn."""
    for block in found.blocks:
        if block.turn is not None and block.turn.context.is_known:
            for other, turn, pairs in ancestry(found, block, block.turn):
                assign(found, other, turn, pairs)


def ancestry(found: Alignment, block: Block, turn: Turn) -> Iterator[tuple[Block, Turn, Pairs]]:
    """Yield the blocks before one that fit ancestors of its turn, newest first."""
    offset, before, after = found.offset(block, turn), block.number, (block, turn)
    seen = {turn.id}
    unplaced = 0
    parent = found.turns.get(turn.parent)
    while parent is not None and parent.id not in seen and before:
        seen.add(parent.id)
        if not parent.context.is_known or found.is_assigned(parent):
            return  # an assigned ancestor is searched from its own block
        # After an ancestor without a block, positions are no evidence.
        fits = list(_fitting(found, parent, before, after, None if unplaced else offset))
        at = parent.context.depth + offset
        for other, pairs in [one for one in fits if one[0].depth == at][:1] or fits[:1]:
            yield other, parent, pairs
            before, unplaced, after = other.number, -1, (other, parent)
            offset = other.depth - parent.context.depth
        unplaced += 1
        if unplaced > ANCESTORS_WEIGHED:
            return
        parent = found.turns.get(parent.parent)


def _fitting(
    found: Alignment, parent: Turn, before: int, after: tuple[Block, Turn], offset: int | None
) -> Iterator[tuple[Block, Pairs]]:
    """Yield the open blocks before one that fit the parent of its turn, newest first."""
    for other in reversed(found.blocks[max(0, before - NEIGHBOURS) : before]):
        if other.turn is not None:
            return
        child = after if offset is not None and other.number == before - 1 else None
        if pairs := pairs_in_place(found, other, parent, offset, child):
            yield other, pairs


def pairs_in_place(
    found: Alignment,
    block: Block,
    turn: Turn,
    offset: int | None,
    child: tuple[Block, Turn] | None = None,
) -> Pairs:
    """Pair a block with the turn that stands next to another block's turn; {} if it is not it."""
    pairs = pairs_of(found, block, turn)
    is_there = pairs and any(
        proof(PLACES, Said(found, block, turn, pairs, each, offset, child))
        for each in found.contexts(turn)
    )
    return pairs if is_there else {}


def assign_descendants(found: Alignment) -> None:
    """Assign the blocks after each assigned one to its turn's descendants, if only one fits."""
    for block in found.blocks:
        if block.turn is not None:
            _assign_after(found, block, block.turn)


def _assign_after(found: Alignment, block: Block, turn: Turn) -> None:
    offset = found.offset(block, turn)
    for number in range(block.number + 1, len(found.blocks)):
        after = found.blocks[number]
        if after.turn is turn:
            continue  # the rest of the same turn
        if after.turn is not None or after.is_tied:
            return
        options = _next_of(found, turn, after, offset)
        if len(options) != 1:
            if options:
                found.doubt(after)
            return
        turn, pairs = options[0]
        assign(found, after, turn, pairs)
        offset = found.offset(after, turn)


def _next_of(found: Alignment, turn: Turn, block: Block, offset: int) -> list[tuple[Turn, Pairs]]:
    """Return the children of a turn that fit a block, and other turns that fit as well."""
    children = [child for child in found.index.children.get(turn.id, ()) if child.context.is_known]
    options = [
        (child, pairs)
        for child in children
        if not found.is_assigned(child) and (pairs := pairs_in_place(found, block, child, offset))
    ]
    frame = found.first(block).frame
    same = [one for one in options if one[0].context.frame == frame]
    options = same if same and len(options) > 1 else options
    # A turn without a known parent may be a child, too.
    return options + _parentless(found, block) if options else []


def _parentless(found: Alignment, block: Block) -> list[tuple[Turn, Pairs]]:
    """Return the turns without a known parent that have the content of a block."""
    contents = found.contents(block)
    return [
        (turn, pairs)
        for turn in found.index.parentless
        if not (found.is_assigned(turn) or contents.isdisjoint(item.content for item in turn.items))
        and (pairs := pairs_of(found, block, turn))
    ]
