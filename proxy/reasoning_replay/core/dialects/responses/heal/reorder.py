"""
Reordering: a history brought back into the order in which it happened.

A unit is what one response emitted (reasoning directly ahead of what it led to) with the outputs
of its calls behind it. Units stand where the first of their items stands; what users say between
a call and its output comes after the unit. What was captured says what belongs to a unit; of
what was not, neighbours do.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from reasoning_replay.core.dialects.responses.heal.input_editor import InputPiece, Spot
from reasoning_replay.core.history.items import Role

__all__ = ["in_order"]


@dataclass(slots=True, eq=False)
class _Unit:
    """
    What one response emitted, and the outputs of its calls.

    Attributes:
        anchor: The piece that says where it stands: the first one that is not reasoning.
    """

    pieces: list[InputPiece]
    anchor: InputPiece
    outputs: list[InputPiece] = field(default_factory=list)


def in_order(
    pieces: Sequence[InputPiece], spot_of: Callable[[InputPiece], Spot | None], *, joins: bool
) -> list[InputPiece]:
    """
    Return the pieces in order; a list equal to what was given if nothing is out of order.

    Args:
        pieces: The input of a request.
        spot_of: Where a piece stood in its turn; None when that is not known.
        joins: Whether calls that were not captured, and have nothing but outputs between them,
            are taken for one unit: only upstream can know, and has said so.
    """
    units = _units(pieces, spot_of, joins=joins)
    _answer(pieces, units)
    by_anchor = {unit.anchor: unit for unit in units}
    placed = {piece for unit in units for piece in (*unit.pieces, *unit.outputs)}
    ordered: list[InputPiece] = []
    for piece in pieces:
        unit = by_anchor.get(piece)
        if unit is not None:
            ordered += [*unit.pieces, *unit.outputs]
        elif piece not in placed:
            ordered.append(piece)
    return ordered


def _units(
    pieces: Sequence[InputPiece], spot_of: Callable[[InputPiece], Spot | None], *, joins: bool
) -> list[_Unit]:
    """Return every unit, in the order in which they begin to speak."""
    captured: dict[bytes, list[tuple[tuple[int, int], int]]] = defaultdict(list)
    others: list[InputPiece] = []
    for n, piece in enumerate(pieces):
        is_said = piece.item.role in (Role.CLIENT, Role.FRAME)
        spot = spot_of(piece) if not is_said else None
        if spot is not None:
            captured[spot[0]].append((spot[1], n))
        else:
            others.append(piece)
    at = {piece: n for n, piece in enumerate(pieces)}
    known = [[pieces[n] for _, n in sorted(unit)] for unit in captured.values()]
    units = [_Unit(unit, _anchor(unit, at)) for unit in known]
    standing = sorted((*others, *(unit.anchor for unit in units)), key=lambda piece: at[piece])
    unknown = _unknown(standing, set(others), joins=joins)
    units += [_Unit(unit, _anchor(unit, at)) for unit in unknown]
    return sorted(units, key=lambda unit: at[unit.anchor])


def _unknown(
    standing: Sequence[InputPiece], others: Collection[InputPiece], *, joins: bool
) -> list[list[InputPiece]]:
    """Tell what was not captured by what stands between; of a captured unit, its anchor does."""
    units: list[list[InputPiece]] = []
    is_open = is_answered = False
    for piece in standing:
        if piece not in others:
            is_open = False
        elif piece.item.role in (Role.CLIENT, Role.FRAME):
            is_open = is_open and joins and piece.is_output
            is_answered = True
        else:
            if not is_open or (piece.is_reasoning and is_answered):
                units.append([])
            units[-1].append(piece)
            is_open, is_answered = True, False
    return units


def _anchor(unit: Sequence[InputPiece], at: Mapping[InputPiece, int]) -> InputPiece:
    spoken = [piece for piece in unit if not piece.is_reasoning]
    return min(spoken or unit, key=lambda piece: at[piece])


def _answer(pieces: Sequence[InputPiece], units: Sequence[_Unit]) -> None:
    """Give each call its output: the first one behind it that answers no other, or before it."""
    at = {piece: n for n, piece in enumerate(pieces)}
    waiting: dict[str, list[int]] = defaultdict(list)
    for n, piece in enumerate(pieces):
        if piece.is_output and piece.item.call_id:
            waiting[piece.item.call_id].append(n)
    for unit in units:
        for call in unit.pieces:
            outputs = waiting.get(call.item.call_id, []) if call.item.is_tool else []
            if outputs:
                behind = bisect(outputs, at[call])
                output = outputs.pop(behind if behind < len(outputs) else 0)
                unit.outputs.append(pieces[output])
        unit.outputs.sort(key=lambda piece: at[piece])
