"""
Put a history back in the order in which it happened.

A unit is what one response emitted (reasoning directly ahead of what it led to) with the outputs
of its calls behind it. Units stand where the first of their items stands; what users say between
a call and its output comes after the unit. What was captured says what belongs to a unit; of
what was not, neighbours do.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from proxy.core.heal.pieces import Piece
from proxy.core.items import Role

__all__ = ["Spot", "in_order"]

# Of an item that was captured: its turn, and where it stood in it; reasoning sorts ahead.
Spot = tuple[bytes, tuple[int, int]]


@dataclass(slots=True, eq=False)
class _Unit:
    """What one response emitted, and the outputs of its calls."""

    pieces: list[Piece]
    outputs: list[Piece] = field(default_factory=list)

    @property
    def anchor(self) -> Piece:
        """Return the piece that says where it stands: the first one that is not reasoning."""
        spoken = [piece for piece in self.pieces if not piece.is_reasoning]
        return min(spoken or self.pieces, key=_place)


def in_order(
    pieces: Sequence[Piece], spot_of: Callable[[Piece], Spot | None], *, joins: bool
) -> list[Piece]:
    """
    Return the pieces in order; a list equal to what was given if nothing is out of order.

    Args:
        pieces: The input of a request, all of it as it came.
        spot_of: Where a piece stood in its turn; None when that is not known.
        joins: Whether calls that were not captured, and have nothing but outputs between them,
            are taken for one unit: only upstream can know, and has said so.
    """
    by_anchor = {unit.anchor: unit for unit in _units(pieces, spot_of, joins=joins)}
    _answer(pieces, by_anchor)
    placed = {piece for unit in by_anchor.values() for piece in (*unit.pieces, *unit.outputs)}
    ordered: list[Piece] = []
    for piece in pieces:
        unit = by_anchor.get(piece)
        if unit is not None:
            ordered += [*unit.pieces, *unit.outputs]
        elif piece not in placed:
            ordered.append(piece)
    return ordered


def _units(
    pieces: Sequence[Piece], spot_of: Callable[[Piece], Spot | None], *, joins: bool
) -> list[_Unit]:
    captured: dict[bytes, list[tuple[tuple[int, int], int, Piece]]] = defaultdict(list)
    others: list[Piece] = []
    for n, piece in enumerate(pieces):
        is_said = piece.item.role in (Role.CLIENT, Role.FRAME)
        spot = spot_of(piece) if not is_said else None
        if spot is not None:
            captured[spot[0]].append((spot[1], n, piece))
        else:
            others.append(piece)
    known = [_Unit([piece for *_, piece in sorted(unit, key=_spot)]) for unit in captured.values()]
    standing = sorted((*others, *(unit.anchor for unit in known)), key=_place)
    return [*known, *_unknown(standing, set(others), joins=joins)]


def _unknown(standing: Sequence[Piece], others: Collection[Piece], *, joins: bool) -> list[_Unit]:
    """Tell what was not captured by what stands between; of a captured unit, its anchor does."""
    units: list[_Unit] = []
    is_open = is_answered = False
    for piece in standing:
        if piece not in others:
            is_open = False
        elif piece.item.role in (Role.CLIENT, Role.FRAME):
            is_open = is_open and joins and piece.is_output
            is_answered = True
        else:
            if not is_open or (piece.is_reasoning and is_answered):
                units.append(_Unit([]))
            units[-1].pieces.append(piece)
            is_open, is_answered = True, False
    return units


def _answer(pieces: Sequence[Piece], by_anchor: dict[Piece, _Unit]) -> None:
    """Give each call its output: the first one behind it that answers no other, or before it."""
    waiting: dict[str, list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece.is_output and piece.item.call_id:
            waiting[piece.item.call_id].append(piece)
    for anchor in sorted(by_anchor, key=_place):
        unit = by_anchor[anchor]
        for call in unit.pieces:
            outputs = waiting.get(call.item.call_id, []) if call.item.is_tool else []
            if outputs:
                behind = (one for one in outputs if _place(one) > _place(call))
                output = next(behind, outputs[0])
                outputs.remove(output)
                unit.outputs.append(output)
        unit.outputs.sort(key=_place)


def _place(piece: Piece) -> int:
    return piece.index or 0


def _spot(one: tuple[tuple[int, int], int, Piece]) -> tuple[tuple[int, int], int]:
    return one[0], one[1]
