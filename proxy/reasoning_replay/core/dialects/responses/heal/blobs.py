"""Reasoning cures: for reasoning that is refused because of its blob, a member or the model."""

from collections.abc import Iterable

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.copies import complete_copies
from reasoning_replay.core.dialects.responses.heal.diagnosis import Form
from reasoning_replay.core.dialects.responses.heal.draft import Draft
from reasoning_replay.core.dialects.responses.include import exclude_edit
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans

# Members that hold the content of reasoning.
_CONTENT = ("encrypted_content", "content", "summary")


def without_blobs(case: Case) -> bytes | None:
    """
    Remove refused blobs: injected ones first, then the client's.

    If the client altered one that is refused, what was captured goes in the place of all that it
    altered. Of the client's blobs, the named ones and those not known to be of this upstream and
    model are removed. If upstream names none, those of a foreign shape are removed first.
    """
    draft, diagnosis = Draft(case.sent), case.diagnosis
    encrypted = _encrypted(case)
    named = _named(case)
    says_which = bool(diagnosis.subject or diagnosis.ends)
    if says_which and not (named or case.injected):
        return None  # the refusal is not about any reasoning in the request
    suspects = named if says_which or diagnosis.is_foreign else encrypted
    originals = {item: raw for item in encrypted if (raw := case.original(item))}
    if not originals.keys().isdisjoint(suspects):
        draft.texts |= originals
        return draft.body()
    injected = case.injected.intersection(encrypted)
    if injected and (not named or injected.intersection(named)):
        refused = injected
    else:
        foreign = {item for item in encrypted if not case.profile.is_own_blob(item.blob)}
        # If a captured blob of this model is refused, no other captured blob can be trusted.
        known = filter(None, map(case.known, named))
        is_all = any(case.is_own(one.turn) for one in known)
        doubtful = {item for item in encrypted if is_all or not _is_trusted(case, item)}
        refused = doubtful.union(named) if named else foreign or doubtful or set(encrypted)
    draft.remove_reasoning(refused)
    return draft.body()


def named_blobs(case: Case) -> set[bytes]:
    """Return the digests, in all known forms, of the one blob that upstream names."""
    named = _named(case)
    # The few characters that upstream quotes from each end may match several blobs.
    if case.diagnosis.form is Form.BY_VALUE or len({item.blob for item in named}) != 1:
        return set()
    return _digests(case, named)


def blamed_blobs(case: Case, lost: frozenset[bytes]) -> frozenset[bytes]:
    """
    Return the digests, in all known forms, of the lost blobs that may be why upstream refused.

    If upstream named a blob, others that were removed with it do not count: they may be good.
    """
    items = _named(case) or _encrypted(case)
    return frozenset(_digests(case, [item for item in items if blob_digest(item) in lost]))


def without_member(case: Case) -> bytes | None:
    """
    Remove a member from all reasoning, and remove reasoning that becomes empty.

    A `phase` is removed from all messages of the model. Where reasoning is its id alone, one with
    an id stays.
    """
    draft, member, index = Draft(case.sent), case.diagnosis.member, case.diagnosis.index
    is_by_id = case.diagnosis.form is Form.BY_ID
    role = Role.MODEL if member == "phase" else Role.REASONING
    if index is not None and index < len(case.items) and case.items[index].role is not role:
        return None  # the member is of another item
    items = [item for item in case.items if item.role is role]
    if role is Role.REASONING:
        complete_copies(case, draft)
    draft.leave_out(member, *items)
    if role is Role.REASONING:
        others = [one for one in items if not (is_by_id and read_item(draft.text(one)).id)]
        draft.remove_reasoning({one for one in others if _is_useless(case, one, draft.text(one))})
    return draft.body()


def without_reasoning(case: Case) -> bytes | None:
    """
    Remove all reasoning, references to it, and the ids that require it.

    Where no ids are taken, that is also each id that may require reasoning that is not there.
    """
    draft = Draft(case.sent)
    draft.remove_reasoning([item for item in case.items if item.is_reasoning])
    if case.diagnosis.form is Form.NAMELESS:
        draft.remove_lone_ids(case.had_none)
    return draft.body()


def without_include(case: Case) -> bytes | None:
    """Stop asking for encrypted reasoning."""
    edit = exclude_edit(case.sent)
    return json_spans.apply(case.sent.body, [edit]) if edit is not None else None


def _digests(case: Case, items: Iterable[ResponsesItem]) -> set[bytes]:
    found = set()
    for item in items:
        digest, known = blob_digest(item), case.known(item)
        found.add(digest)
        if known is not None and digest in known.part.blobs:
            found.update(known.part.blobs)
    return found


def _encrypted(case: Case) -> list[ResponsesItem]:
    """Return the reasoning that has a blob."""
    return [item for item in case.items if item.role is Role.REASONING and item.blob]


def _named(case: Case) -> list[ResponsesItem]:
    """Return the reasoning that upstream's message names; [] if it names none."""
    if case.diagnosis.subject:
        return [item for item in _encrypted(case) if case.is_named(item)]
    if case.diagnosis.ends is None:
        return []
    head, tail = case.diagnosis.ends
    items = _encrypted(case)
    return [item for item in items if item.blob.startswith(head) and item.blob.endswith(tail)]


def _is_trusted(case: Case, item: ResponsesItem) -> bool:
    """Return whether a blob is known to fit this account and model; never for a foreign blob."""
    known = case.known(item)
    return known is not None and not case.diagnosis.is_foreign and case.is_own(known.turn)


def _is_useless(case: Case, item: ResponsesItem, text: bytes) -> bool:
    """Return whether reasoning has nothing left to be read: its text, where only blobs are read."""
    if text == item.raw:
        return False
    is_foreign = not (item.blob or item.is_hollow or case.profile.needs) and not case.known(item)
    return is_foreign or (_is_empty(text) and not _is_empty(item.raw))


def _is_empty(raw: bytes) -> bool:
    """Return whether reasoning has no content, only an id."""
    found = json_spans.members(raw)
    values = [found[name] for name in _CONTENT if name in found]
    return all(raw[one.start : one.end] in (b"null", b"[]", b'""') for one in values)
