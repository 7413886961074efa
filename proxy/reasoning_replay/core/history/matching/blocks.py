"""Blocks: the runs of a model's items between two messages of the client's side."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.turns import Turn

__all__ = ["Block", "blocks_of"]


@dataclass(slots=True)
class Block:
    """
    The items of a model between two messages of the client's side.

    Attributes:
        number: Index among the blocks.
        places: Indices of its items, without reasoning.
        depth: Number of messages of the client's side before it.
        turn: The turn that emitted it; None if unknown.
        is_tied: Whether several turns explain it equally well.
        whole: Digest of the whole history before it; b"" until first use.
    """

    number: int
    places: list[int]
    depth: int
    turn: Turn | None = None
    is_tied: bool = False
    whole: bytes = b""


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
