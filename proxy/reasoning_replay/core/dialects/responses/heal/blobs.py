"""Reasoning cures: for reasoning that is refused because of its blob, a member or the model."""

from collections.abc import Iterable

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.captured import RefusedRequest
from reasoning_replay.core.dialects.responses.heal.draft import Draft
from reasoning_replay.core.dialects.responses.heal.runs import (
    remove_reasoning,
    runs_of,
    send_by_value,
)
from reasoning_replay.core.dialects.responses.include import exclude_edit
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans

__all__ = [
    "lost_blobs",
    "named_blobs",
    "without_blobs",
    "without_include",
    "without_member",
    "without_reasoning",
]

# Members that hold the content of reasoning.
_CONTENT = ("encrypted_content", "content", "summary")


def without_blobs(case: RefusedRequest) -> bytes | None:
    """
    Remove refused blobs: injected ones first, then the client's.

    A blob that upstream never issued for its item is replaced by the captured one. One that only
    fails to match its id stays, without the id. Of the client's blobs, the named
    ones and those not known to be of this upstream and model are removed. If upstream names none,
    those of a foreign shape are removed first.
    """
    draft, diagnosis = Draft(case.sent), case.diagnosis
    if diagnosis.is_bound:
        for run in runs_of(case.items):
            send_by_value(draft, run, case.profile)
        return draft.body()
    encrypted = _encrypted(case)
    named = _named(case)
    says_which = bool(diagnosis.subject or diagnosis.ends)
    if says_which and not (named or case.injected):
        return None  # the refusal is not about any reasoning in the request
    suspects = named if says_which or diagnosis.is_foreign else encrypted
    damaged = [item for item in suspects if _is_damaged(case, item)]
    if damaged:
        for item in damaged:
            draft.set_text(item, case.captured(item))
        return draft.body()
    injected = case.injected.intersection(encrypted)
    if injected and (not named or injected.intersection(named)):
        refused = injected
    else:
        foreign = {item for item in encrypted if not case.profile.is_own_blob(item.blob)}
        # If a captured blob is refused, no other captured blob can be trusted.
        is_all = any(case.known(item) is not None for item in named)
        doubtful = {item for item in encrypted if is_all or not _is_trusted(case, item)}
        refused = doubtful.union(named) if named else foreign or doubtful or set(encrypted)
    remove_reasoning(draft, refused)
    return draft.body()


def named_blobs(case: RefusedRequest) -> set[bytes]:
    """Return the digests, in all known forms, of the one blob that upstream names."""
    named = _named(case)
    # The few characters that upstream quotes from each end may match several blobs.
    if case.diagnosis.is_bound or len({item.blob for item in named}) != 1:
        return set()
    return _digests(case, named)


def lost_blobs(case: RefusedRequest, cured: Request) -> set[bytes]:
    """
    Return the digests of the blobs that a cured request leaves out, in all known forms.

    If upstream named a blob, others that were removed with it do not count: they may be good.
    """
    left = {place.item.blob for place in cured.places}
    return _digests(case, [i for i in _named(case) or _encrypted(case) if i.blob not in left])


def without_member(case: RefusedRequest) -> bytes | None:
    """
    Remove a member from all reasoning, and remove reasoning that becomes empty.

    A `phase` is removed from all messages of the model.
    """
    draft, member, index = Draft(case.sent), case.diagnosis.member, case.diagnosis.index
    role = Role.MODEL if member == "phase" else Role.REASONING
    if index is not None and index < len(case.items) and case.items[index].role is not role:
        return None  # the member is of another item
    items = [item for item in case.items if item.role is role]
    draft.leave_out(member, *items)
    if role is Role.REASONING:
        empty = {one for one in items if _is_empty(draft.text(one)) and not _is_empty(one.raw)}
        remove_reasoning(draft, empty)
    return draft.body()


def without_reasoning(case: RefusedRequest) -> bytes | None:
    """Remove all reasoning, references to it, and the ids that require it."""
    draft = Draft(case.sent)
    remove_reasoning(draft, {item for item in case.items if item.is_reasoning})
    return draft.body()


def without_include(case: RefusedRequest) -> bytes | None:
    """Stop asking for encrypted reasoning."""
    edit = exclude_edit(case.sent)
    return json_spans.apply(case.sent.body, [edit]) if edit is not None else None


def _digests(case: RefusedRequest, items: Iterable[ResponsesItem]) -> set[bytes]:
    found = set()
    for item in items:
        digest, known = blob_digest(item), case.known(item)
        found.add(digest)
        if known is not None and digest in known.part.blobs:
            found.update(known.part.blobs)
    return found


def _encrypted(case: RefusedRequest) -> list[ResponsesItem]:
    """Return the reasoning that has a blob."""
    return [item for item in case.items if item.role is Role.REASONING and item.blob]


def _named(case: RefusedRequest) -> list[ResponsesItem]:
    """Return the reasoning that upstream's message names; [] if it names none."""
    if case.diagnosis.subject:
        return [item for item in _encrypted(case) if case.is_named(item)]
    if case.diagnosis.ends is None:
        return []
    head, tail = case.diagnosis.ends
    items = _encrypted(case)
    return [item for item in items if item.blob.startswith(head) and item.blob.endswith(tail)]


def _is_damaged(case: RefusedRequest, item: ResponsesItem) -> bool:
    """Return whether upstream never issued this blob for the item, and a good one is stored."""
    known = case.known(item)
    is_other = known is not None and blob_digest(item) not in known.part.blobs
    return is_other and bool(case.captured(item))


def _is_trusted(case: RefusedRequest, item: ResponsesItem) -> bool:
    """Return whether a blob is known to fit this account and model; never for a foreign blob."""
    known = case.known(item)
    return known is not None and not case.diagnosis.is_foreign and case.is_own(known.turn)


def _is_empty(raw: bytes) -> bool:
    """Return whether reasoning has no content, only an id."""
    found = json_spans.members(raw)
    values = [found[name] for name in _CONTENT if name in found]
    return all(raw[one.start : one.end] in (b"null", b"[]", b'""') for one in values)
