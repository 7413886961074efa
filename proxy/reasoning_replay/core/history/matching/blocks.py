"""Blocks: the items that a model made between two messages of the other side."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.turns import Turn

__all__ = ["Block", "blocks_of"]


@dataclass(slots=True)
class Block:
    """
    The items of a model between two messages of the other side.

    Attributes:
        number: Its place among the blocks.
        places: Indices of its items, reasoning left out.
        depth: How many messages of the other side stand before it.
        turn: The turn that emitted it; None: not known.
        is_tied: Whether several turns explain it equally well.
        whole: Digest of all that was said before it; b"" until it is first needed.
    """

    number: int
    places: list[int]
    depth: int
    turn: Turn | None = None
    is_tied: bool = False
    whole: bytes = b""


def blocks_of(request: RequestHistory[HistoryItem], emitted_types: AbstractSet[str]) -> list[Block]:
    """
    Return the runs of items that a model made, in order.

    Some outputs are upstream's own, as those of a hosted search: what has been emitted once is no
    message of the other side.
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
        elif role is not Role.REASONING:
            is_open = False
    return blocks
