"""
Mend a request before the first try, where it is certain to be refused, or certain to be wrong.

What only upstream can know is left to upstream: see `cure`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from proxy.core.heal.ids import once
from proxy.core.heal.pieces import Piece, body_of, dropped, pieces_of
from proxy.core.heal.thoughts import Thoughts
from proxy.core.items import Role
from proxy.core.models import family
from proxy.core.request import Request
from proxy.core.turns import Turn, blob_digest

__all__ = ["Repair", "Repaired", "Repairs", "repair"]


class Repair(StrEnum):
    """What is mended without being asked; each may be switched off."""

    DUPLICATES = "duplicates"  # an item with an id that stood before, to the letter
    HOLLOW = "hollow"  # an id alone, to an upstream that keeps nothing
    FOREIGN = "foreign"  # reasoning of another model or credential, or refused before
    DANGLING = "dangling"  # reasoning at the very end, with nothing that it led to


@dataclass(frozen=True, slots=True)
class Repairs:
    """
    What may be mended, and what is known besides the recalled turns.

    Attributes:
        allowed: By the operator.
        is_refused: Tells of a blob's digest whether upstream will not have it.
        takes_reasoning: False when the model has refused reasoning altogether.
        keeps_items: Whether upstream knows an item by its id alone, as far as can be told.
    """

    allowed: Collection[Repair]
    is_refused: Callable[[bytes], bool]
    takes_reasoning: bool = True
    keeps_items: bool = True


@dataclass(frozen=True, slots=True)
class Repaired:
    """A mended body (the same object if nothing was), and how many items each repair touched."""

    body: bytes
    counts: Mapping[Repair, int] = field(default_factory=dict)


def repair(request: Request, turns: Sequence[Turn], repairs: Repairs) -> Repaired:
    """
    Mend what is certain.

    Args:
        request: As it came, not stateful.
        turns: Those that were recalled for it.
        repairs: See Repairs.

    Cost: one look at each item where there is nothing to mend.
    """
    allowed = repairs.allowed
    items = [place.item for place in request.places]
    ids = [item.id for item in items if item.id]
    repeats = Repair.DUPLICATES in allowed and len(ids) > len(set(ids))
    thinks = any(item.role in (Role.REASONING, Role.REFERENCE) for item in items)
    if not (repeats or thinks):
        return Repaired(request.body)
    pieces = pieces_of(request)
    counts: Counter[Repair] = Counter()
    if repeats:
        left = once(pieces, exact=True)
        counts[Repair.DUPLICATES] += len(pieces) - len(left)
        pieces = left
    thoughts = Thoughts(turns)
    if Repair.HOLLOW in allowed and not repairs.keeps_items:
        counts[Repair.HOLLOW] += _complete(pieces, thoughts, family(request.model))
    if Repair.FOREIGN in allowed:
        foreign = _foreign(pieces, thoughts, family(request.model), repairs)
        counts[Repair.FOREIGN] += len(foreign)
        pieces = dropped(pieces, foreign)
    if Repair.DANGLING in allowed:
        left = _less_dangling(pieces, thoughts)
        counts[Repair.DANGLING] += len(pieces) - len(left)
        pieces = left
    return Repaired(body_of(request, pieces), +counts)


def _less_dangling(pieces: list[Piece], thoughts: Thoughts) -> list[Piece]:
    """Leave reasoning at the end out, unless what it led to stands somewhere else."""
    names = {name for piece in pieces for name in (piece.item.id, piece.item.call_id) if name}
    end = len(pieces)
    while end and pieces[end - 1].item.role is Role.REASONING:
        thought = thoughts.of(pieces[end - 1].item)
        if thought is not None and {thought.follower.id, thought.follower.call_id} & names:
            return pieces  # out of order, which upstream will tell
        end -= 1
    return pieces[:end]


def _complete(pieces: Sequence[Piece], thoughts: Thoughts, model: str) -> int:
    """Put whole reasoning where only its id stood; return how often."""
    count = 0
    for piece in pieces:
        if not piece.is_reasoning or not (
            piece.item.is_hollow or piece.item.role is Role.REFERENCE
        ):
            continue
        thought = thoughts.of(piece.item)
        if thought is not None and thought.part.has_blob and model in thought.turn.models:
            piece.become(thought.part.raw)
            count += 1
    return count


def _foreign(
    pieces: Sequence[Piece], thoughts: Thoughts, model: str, repairs: Repairs
) -> list[Piece]:
    foreign = []
    for piece in pieces:
        if not piece.is_reasoning:
            continue
        thought = thoughts.of(piece.item)
        blob = blob_digest(piece.item)
        families = thought.turn.models if thought is not None and blob and model else ()
        if (
            (families and model not in families)
            or (blob and repairs.is_refused(blob))
            or not repairs.takes_reasoning
        ):
            foreign.append(piece)
    return foreign
