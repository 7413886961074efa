"""Ancestry: the passes that assign neighbours of assigned blocks to ancestors and children."""

from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.blocks import Block
from reasoning_replay.core.history.matching.evidence import Pairs
from reasoning_replay.core.history.turns import Turn

__all__ = ["assign_ancestors", "assign_descendants"]


def assign_ancestors(found: Alignment) -> None:
    """Assign the blocks before each assigned one to the ancestors of its turn."""
    for block in found.blocks:
        if block.turn is not None and block.turn.context.is_known:
            for other, turn, pairs in found.ancestry(block, block.turn):
                found.assign(other, turn, pairs)


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
                found.ambiguous.add(after.places[0])
            return
        turn, pairs = options[0]
        found.assign(after, turn, pairs)
        offset = found.offset(after, turn)


def _next_of(found: Alignment, turn: Turn, block: Block, offset: int) -> list[tuple[Turn, Pairs]]:
    """Return the children of a turn that fit a block, and other turns that fit as well."""
    children = [child for child in found.children.get(turn.id, ()) if child.context.is_known]
    options = [
        (child, pairs)
        for child in children
        if not found.is_assigned(child)
        and (pairs := found.evidence.pairs_in_place(block, child, found.contexts(child), offset))
    ]
    frame = found.frame_of(block)
    same = [one for one in options if one[0].context.frame == frame]
    options = same if same and len(options) > 1 else options
    # A turn without a known parent may be a child, too.
    return options + _parentless(found, block) if options else []


def _parentless(found: Alignment, block: Block) -> list[tuple[Turn, Pairs]]:
    """Return the turns without a known parent that have the content of a block."""
    contents = found.contents(block)
    return [
        (turn, pairs)
        for turn in found.parentless
        if not (found.is_assigned(turn) or contents.isdisjoint(item.content for item in turn.items))
        and (pairs := found.evidence.pairs(block, turn))
    ]
