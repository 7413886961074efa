"""
Repair: what is certainly wrong with a request is fixed before the first attempt.

What only upstream can know is left to upstream: see `cure`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.blobs import unsealed
from reasoning_replay.core.dialects.responses.heal.ids import once
from reasoning_replay.core.dialects.responses.heal.input_editor import (
    InputPiece,
    Run,
    body_of,
    pieces_of,
    runs_of,
)
from reasoning_replay.core.dialects.responses.heal.reasoning_index import (
    KnownReasoning,
    ReasoningIndex,
)
from reasoning_replay.core.dialects.responses.heal.unpaired import pair
from reasoning_replay.core.dialects.responses.id_policy import in_form
from reasoning_replay.core.dialects.responses.profiles import GENERIC, Profile
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.model_names import are_known_to_differ, family
from reasoning_replay.core.history.turns import Turn

__all__ = ["Repair", "Repaired", "Repairs", "is_sound", "repair"]


class Repair(StrEnum):
    """What is repaired without a refusal; each may be switched off."""

    DUPLICATES = "duplicates"  # an item with a random id that stood before, to the letter
    HOLLOW = "hollow"  # an id alone, to an upstream that keeps nothing
    FOREIGN = "foreign"  # reasoning of another model or credential, or refused before
    UNPAIRED = "unpaired"  # reasoning with its id, what it led to without, or the other way round
    DANGLING = "dangling"  # reasoning at the very end, with nothing that it led to


@dataclass(frozen=True, slots=True)
class Repairs:
    """
    What may be repaired, and what is known apart from the captured turns.

    Attributes:
        allowed: By the operator.
        is_refused: Tells of a blob's digest whether upstream will not have it.
        takes_reasoning: False when the model has refused reasoning altogether.
        profile: Of the upstream: what it does not check is not repaired.
    """

    allowed: Collection[Repair]
    is_refused: Callable[[bytes], bool]
    takes_reasoning: bool = True
    profile: Profile = GENERIC


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repaired body (the same object if nothing was), and how many items each repair touched."""

    body: bytes
    counts: Mapping[Repair, int] = field(default_factory=dict)


def repair(request: Request, turns: Sequence[Turn], repairs: Repairs) -> Repaired:
    """
    Repair what is certain.

    Args:
        request: As it came, not stateful.
        turns: Those that were looked_up for it.
        repairs: See Repairs.

    Cost: one look at each item where there is nothing to repair.
    """
    allowed, profile = repairs.allowed, repairs.profile
    # Where nobody checks ids, they may be anything, and say nothing of what is a copy.
    repeats = Repair.DUPLICATES in allowed and profile.checks_pairs and has_an_id_twice(request)
    if not (repeats or request.has_reasoning):
        return Repaired(request.body)
    pieces = pieces_of(request)
    counts: dict[Repair, int] = {}
    if repeats:
        left = once(pieces, exact=True)
        counts[Repair.DUPLICATES] = len(pieces) - len(left)
        pieces = left
    thoughts = ReasoningIndex(turns)
    keeps_items = request.stores and profile.keeps_items
    if Repair.HOLLOW in allowed and not keeps_items:
        counts[Repair.HOLLOW] = _complete(pieces, thoughts, request.model, profile)
    if Repair.FOREIGN in allowed:
        foreign = _foreign(pieces, thoughts, request.model, repairs)
        if foreign:
            counts[Repair.FOREIGN] = len(foreign)
            foreign -= _replaced(foreign, thoughts, request.model, repairs)
            pieces = unsealed(pieces, foreign, stores=keeps_items)
    if Repair.UNPAIRED in allowed and profile.checks_pairs:
        counts[Repair.UNPAIRED] = pair(pieces, thoughts, profile, is_kept=keeps_items)
    if Repair.DANGLING in allowed and profile.checks_pairs:
        left = _less_dangling(pieces)
        counts[Repair.DANGLING] = len(pieces) - len(left)
        pieces = left
    body = body_of(request, pieces)
    if body is request.body:
        return Repaired(body)  # also where what has a key twice could not be cut
    return Repaired(body, {kind: count for kind, count in counts.items() if count})


def is_sound(request: Request) -> bool:
    """
    Tell whether no item can need a repair by what the request alone says.

    No id occurs twice, no item stands for a stored one, and no reasoning is at the end. What is
    left is what captured turns or earlier refusals say of an item.
    """
    places = request.places
    if not places:
        return True
    if has_an_id_twice(request) or places[-1].item.is_reasoning:
        return False
    return not any(place.item.is_id_alone for place in places)


def has_an_id_twice(request: Request) -> bool:
    """Tell whether two items of a request have one id."""
    ids = [item_id for place in request.places if (item_id := place.item.id)]
    return len(ids) > len(set(ids))


def _less_dangling(pieces: list[InputPiece]) -> list[InputPiece]:
    """
    Leave reasoning at the end out, if nothing else in the input can be what it led to.

    Without an id nothing demands a follower; and a model's item that lacks reasoning may be the
    follower, out of order: upstream will tell.
    """
    end = len(pieces)
    while end and pieces[end - 1].item.role is Role.REASONING and pieces[end - 1].item.id:
        end -= 1
    if end == len(pieces):
        return pieces
    covered = {piece for run in runs_of(pieces[:end]) for piece in (*run.group, *run.later)}
    emitted = {piece for piece in pieces[:end] if piece.item.role in (Role.MODEL, Role.REFERENCE)}
    return pieces if end == 0 or emitted - covered else pieces[:end]


def _complete(
    pieces: Sequence[InputPiece], thoughts: ReasoningIndex, model: str, profile: Profile
) -> int:
    """Put whole reasoning where only its id stood; return how often."""
    count = 0
    for piece in pieces:
        if not (piece.is_reasoning and piece.item.is_id_alone):
            continue
        thought = thoughts.of(piece.item)
        if thought is not None and thought.part.has_blob and family(model) in thought.turn.models:
            piece.become(in_form(thought.part, profile))
            count += 1
    return count


def _foreign(
    pieces: Sequence[InputPiece], thoughts: ReasoningIndex, model: str, repairs: Repairs
) -> set[InputPiece]:
    """
    Return the reasoning that upstream will not have.

    What hosted items would go with is left for upstream to judge, unless upstream has.
    """
    foreign: set[InputPiece] = set()
    for run in runs_of(pieces):
        for piece in run.reasoning:
            blob = blob_digest(piece.item)
            if not repairs.takes_reasoning or (blob and repairs.is_refused(blob)):
                foreign.add(piece)
                continue
            thought = thoughts.of(piece.item)
            if thought is None or not blob or _is_hosting(run):
                continue
            if are_known_to_differ(model, thought.turn.models):
                foreign.add(piece)
    return foreign


def _is_hosting(run: Run) -> bool:
    return any(piece.item.id and not piece.item.id_is_optional for piece in run.group)


def _replaced(
    foreign: Collection[InputPiece], thoughts: ReasoningIndex, model: str, repairs: Repairs
) -> set[InputPiece]:
    """Put what was captured in place of a refused copy of it; return the pieces it became."""
    replaced: set[InputPiece] = set()
    for piece in foreign:
        thought = thoughts.of(piece.item)
        is_known = thought is not None and family(model) in thought.turn.models
        if repairs.takes_reasoning and thought and is_known and _is_good(thought, piece, repairs):
            piece.become(in_form(thought.part, repairs.profile))
            replaced.add(piece)
    return replaced


def _is_good(thought: KnownReasoning, piece: InputPiece, repairs: Repairs) -> bool:
    """Tell whether what was captured is another blob than the one that was refused."""
    blobs = thought.part.blobs
    is_copy = blob_digest(piece.item) not in blobs
    return is_copy and thought.part.has_blob and not any(map(repairs.is_refused, blobs))
