"""
Reordering: a history in the order in which it happened.

A unit holds the items that one response emitted (reasoning directly before the item it led to),
followed by the outputs of its calls. A unit stands where its first item other than reasoning
stands. User messages between a call and its output move after the unit. Captured turns determine
the units; items that were not captured are grouped with their neighbours.
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
    The items that one response emitted, and the outputs of its calls.

    Attributes:
        anchor: Piece that determines where the unit stands: the first that is not reasoning.
    """

    pieces: list[InputPiece]
    anchor: InputPiece
    outputs: list[InputPiece] = field(default_factory=list)


def in_order(
    pieces: Sequence[InputPiece], spot_of: Callable[[InputPiece], Spot | None], *, joins: bool
) -> list[InputPiece]:
    """
    Return the pieces in order; an equal list if nothing is out of order.

    Args:
        pieces: The input of a request.
        spot_of: Position of a piece in its turn; None if unknown.
        joins: Whether calls that were not captured form one unit if only outputs are between them.
            Only a refusal can show this.
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
    """Return every unit, in the order of their anchors."""
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
    """Group uncaptured pieces by the pieces between them; an anchor stands for a captured unit."""
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
    """Attach to each call its first free output after the call, else the first one before it."""
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
