"""Blob cures: for reasoning that is refused because of its blob, a member or the model."""

from collections.abc import Iterable

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.input_editor import (
    InputPiece,
    by_value,
    dropped,
    pieces_of,
    runs_of,
)
from reasoning_replay.core.dialects.responses.heal.refused_request import RefusedRequest
from reasoning_replay.core.dialects.responses.include import exclude_edit
from reasoning_replay.core.dialects.responses.request import read_request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans

__all__ = [
    "lost_blobs",
    "named_blobs",
    "unsealed",
    "without_blobs",
    "without_include",
    "without_member",
    "without_reasoning",
]

# Members that hold the content of reasoning.
_HOLDING = ("encrypted_content", "content", "summary")


def without_blobs(case: RefusedRequest) -> bytes | None:
    """
    Remove refused blobs: injected ones first, then the client's.

    A blob that upstream never issued for its item is replaced by the captured one. One that only
    fails to match its id stays, without the id. Of the client's blobs, the named
    ones and those not known to be of this upstream and model are removed. If upstream names none,
    those of a foreign shape are removed first.
    """
    sealed = _sealed(case.pieces)
    if case.diagnosis.is_bound:
        return case.body(_unnamed(case))
    named = set(_named(case, sealed))
    says_which = bool(case.diagnosis.subject or case.diagnosis.ends)
    if says_which and not named and not case.added():
        return None  # the refusal is not about any reasoning in the request
    suspects = named if says_which or case.diagnosis.is_foreign else sealed
    damaged = {piece for piece in suspects if _is_damaged(case, piece)}
    if damaged:
        for piece in damaged:
            piece.raw = case.captured(piece)  # `item` stays the one that upstream named
        return case.body(case.pieces)
    ours = case.added() & set(sealed)
    if ours and (not named or named & ours):
        refused = ours
    else:
        foreign = {p for p in sealed if not case.profile.is_own_blob(p.item.blob)}
        # If a captured blob is refused, no other captured blob can be trusted.
        is_all = any(case.thought(piece) is not None for piece in named)
        doubtful = {piece for piece in sealed if is_all or not _is_trusted(case, piece)}
        refused = named | doubtful if named else foreign or doubtful or set(sealed)
    return case.body(unsealed(case.pieces, refused, stores=case.sent.stores))


def unsealed(
    pieces: list[InputPiece], refused: set[InputPiece], *, stores: bool
) -> list[InputPiece]:
    """
    Remove refused blobs: together with their reasoning, or alone.

    Only the blob is removed if upstream stores the items, so that the id is enough, and if removing
    the reasoning would also remove a hosted item of the group, which requires its id.
    """
    left = set(refused)
    for run in runs_of(pieces) if stores else ():
        hosted = [one for one in run.group if one.item.id and not one.item.id_is_optional]
        if hosted and all(piece.item.id for piece in run.reasoning):
            for piece in left.intersection(run.reasoning):
                piece.leave_out("encrypted_content")
                left.discard(piece)
    return dropped(pieces, left)


def named_blobs(case: RefusedRequest) -> set[bytes]:
    """Return the digests, in all known forms, of the one blob that upstream names."""
    named = _named(case, _sealed(pieces_of(case.sent)))
    # The few characters that upstream quotes from each end may match several blobs.
    if case.diagnosis.is_bound or len({piece.item.blob for piece in named}) != 1:
        return set()
    return _digests(case, named)


def lost_blobs(case: RefusedRequest, body: bytes) -> set[bytes]:
    """
    Return the digests of the blobs that a cured request leaves out, in all known forms.

    If upstream named a blob, others that were removed with it do not count: they may be good.
    """
    left = {place.item.blob for place in read_request(body, {}).places}
    sealed = _sealed(pieces_of(case.sent))
    gone = [piece for piece in sealed if piece.item.blob not in left]
    named = set(_named(case, sealed))
    return _digests(case, [piece for piece in gone if not named or piece in named])


def without_member(case: RefusedRequest) -> bytes | None:
    """
    Remove a member from all reasoning, and remove reasoning that becomes empty.

    A `phase` is removed from all messages of the model.
    """
    member = case.diagnosis.member
    index = case.diagnosis.index
    role = Role.MODEL if member == "phase" else Role.REASONING
    if any(p.index == index and p.item.role is not role for p in case.pieces):
        return None  # the member is of another item
    empty = set()
    for piece in case.pieces:
        if piece.item.role is role:
            piece.leave_out(member)
            if role is Role.REASONING and _is_hollow(piece.raw) and not _is_hollow(piece.item.raw):
                empty.add(piece)
    return case.body(dropped(case.pieces, empty))


def without_reasoning(case: RefusedRequest) -> bytes | None:
    """Remove all reasoning, references to it, and the ids that require it."""
    gone = [piece for piece in case.pieces if piece.is_reasoning]
    return case.body(dropped(case.pieces, gone))


def without_include(case: RefusedRequest) -> bytes | None:
    """Stop asking for encrypted reasoning."""
    edit = exclude_edit(case.sent)
    return json_spans.apply(case.sent.body, [edit]) if edit is not None else None


def _digests(case: RefusedRequest, pieces: Iterable[InputPiece]) -> set[bytes]:
    found = set()
    for piece in pieces:
        digest = blob_digest(piece.item)
        thought = case.thought(piece)
        known = thought.part.blobs if thought is not None else ()
        found |= {digest, *known} if digest in known else {digest}
    return found


def _sealed(pieces: list[InputPiece]) -> list[InputPiece]:
    return [p for p in pieces if p.item.role is Role.REASONING and p.item.blob]


def _named(case: RefusedRequest, sealed: list[InputPiece]) -> list[InputPiece]:
    """Return the reasoning that upstream's message names; [] if it names none."""
    ends = case.diagnosis.ends
    if case.diagnosis.subject:
        return [piece for piece in sealed if case.is_named(piece)]
    if ends is None:
        return []
    head, tail = ends
    return [p for p in sealed if p.item.blob.startswith(head) and p.item.blob.endswith(tail)]


def _is_damaged(case: RefusedRequest, piece: InputPiece) -> bool:
    """Return whether upstream never issued this blob for the item, and a good one is stored."""
    thought = case.thought(piece)
    if thought is None or blob_digest(piece.item) in thought.part.blobs:
        return False
    return case.is_own(thought.turn) and bool(case.captured(piece))


def _is_trusted(case: RefusedRequest, piece: InputPiece) -> bool:
    """Return whether a blob is known to fit this account and model; never for a foreign blob."""
    thought = case.thought(piece)
    return thought is not None and not case.diagnosis.is_foreign and case.is_own(thought.turn)


def _unnamed(case: RefusedRequest) -> list[InputPiece]:
    """Remove the ids of runs that have all their blobs, and the ids that require those runs."""
    for run in runs_of(case.pieces):
        if any(not piece.item.blob for piece in run.reasoning):
            continue
        by_value(run)
    return case.pieces


def _is_hollow(raw: bytes) -> bool:
    """Return whether reasoning has no content, only an id."""
    found = json_spans.members(raw)
    held = [found[name] for name in _HOLDING if name in found]
    return all(raw[at.start : at.end] in (b"null", b"[]", b'""') for at in held)
