"""
Repair: fixes errors in a request that are certain, before the first attempt.

Errors that only upstream can judge are left to upstream: see `cure`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.blobs import unsealed
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
    """Repairs that need no refusal; each can be switched off."""

    DUPLICATES = "duplicates"  # the same reasoning twice in a row
    HOLLOW = "hollow"  # a bare id, sent to an upstream that stores nothing
    FOREIGN = "foreign"  # reasoning of another model or account, or refused before
    UNPAIRED = "unpaired"  # reasoning has its id and its follower has none, or the reverse
    DANGLING = "dangling"  # reasoning at the very end, without the item that it led to


@dataclass(frozen=True, slots=True)
class Repairs:
    """
    The allowed repairs, and the facts that captured turns do not hold.

    Attributes:
        allowed: Repairs that the operator allows.
        is_refused: Predicate for the digest of a blob that upstream will refuse.
        completes: Whether captured reasoning must replace what the client makes of a turn's.
        takes_reasoning: False if the model has refused all reasoning.
        profile: Profile of the upstream; only errors that it checks for are repaired.
    """

    allowed: Collection[Repair]
    is_refused: Callable[[bytes], bool]
    completes: Callable[[Turn], bool] = lambda _: False
    takes_reasoning: bool = True
    profile: Profile = GENERIC


@dataclass(frozen=True, slots=True)
class Repaired:
    """A repaired body (the same object if unchanged), and the number of items per repair."""

    body: bytes
    counts: Mapping[Repair, int] = field(default_factory=dict)


def repair(request: Request, turns: Sequence[Turn], repairs: Repairs) -> Repaired:
    """
    Repair the errors that are certain.

    Args:
        request: Request as received, not stateful.
        turns: Turns that were looked up for it.
        repairs: See Repairs.

    Cost: one check per item if there is nothing to repair.
    """
    allowed, profile = repairs.allowed, repairs.profile
    if not request.has_reasoning:
        return Repaired(request.body)
    pieces = pieces_of(request)
    counts: dict[Repair, int] = {}
    if Repair.DUPLICATES in allowed and profile.checks_pairs:
        # Only reasoning never follows itself. A call, a message or an output may: where ids follow
        # from the content, two equal ones are two items.
        copies = {
            piece
            for before, piece in pairwise(pieces)
            if piece.is_reasoning and piece.item.raw == before.item.raw
        }
        counts[Repair.DUPLICATES] = len(copies)
        pieces = [piece for piece in pieces if piece not in copies]
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
        return Repaired(body)  # also if an item has a key twice, so that it could not be cut
    return Repaired(body, {kind: count for kind, count in counts.items() if count})


def is_sound(request: Request) -> bool:
    """
    Return whether the request alone shows that no item needs a repair.

    No reasoning occurs twice in a row or at the end, and no item is a bare id. All other repairs
    depend on captured turns or earlier refusals.
    """
    if not (request.places and request.has_reasoning):
        return True
    before = b""
    for place in request.places:
        item = place.item
        if item.is_id_alone or (item.raw == before and item.is_reasoning):
            return False
        before = item.raw
    return not item.is_reasoning


def _less_dangling(pieces: list[InputPiece]) -> list[InputPiece]:
    """
    Remove reasoning at the end if no other item of the input can be its follower.

    Reasoning without an id requires no follower. A model item without reasoning may be the
    follower, out of order: upstream decides.
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
    """Replace bare ids of reasoning by the whole item; return how many were replaced."""
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
    Return the reasoning that upstream will refuse.

    Removing reasoning before a hosted item would remove that item too, so such reasoning counts
    only after upstream has refused it.
    """
    foreign: set[InputPiece] = set()
    for run in runs_of(pieces):
        for piece in run.reasoning:
            blob = blob_digest(piece.item)
            if not repairs.takes_reasoning or (blob and repairs.is_refused(blob)):
                foreign.add(piece)
                continue
            thought = thoughts.of(piece.item)
            if thought is not None and repairs.completes(thought.turn):
                if _can_replace(thought, piece, model, repairs):
                    foreign.add(piece)
                continue
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
    """Replace refused copies by the captured reasoning; return the pieces that were replaced."""
    replaced: set[InputPiece] = set()
    for piece in foreign:
        thought = thoughts.of(piece.item)
        if thought is not None and _can_replace(thought, piece, model, repairs):
            piece.become(in_form(thought.part, repairs.profile))
            replaced.add(piece)
    return replaced


def _can_replace(thought: KnownReasoning, piece: InputPiece, model: str, repairs: Repairs) -> bool:
    """Return whether the captured blobs differ from the client's, and upstream accepts them."""
    blobs = thought.part.blobs
    is_copy = blob_digest(piece.item) not in blobs
    is_known = family(model) in thought.turn.models and thought.part.has_blob
    is_good = is_copy and is_known and not any(map(repairs.is_refused, blobs))
    return is_good and repairs.takes_reasoning
