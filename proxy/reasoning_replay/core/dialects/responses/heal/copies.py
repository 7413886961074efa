"""Copies: what a client makes of captured reasoning, and what was captured in their place."""

from reasoning_replay.core.dialects.lenient import value_of
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.draft import Draft, sent_runs
from reasoning_replay.core.dialects.responses.items import ResponsesItem


def with_captured(case: Case) -> bytes:
    """Send captured reasoning in place of the client's copies that have other members."""
    draft = Draft(case.sent)
    complete_copies(case, draft)
    return draft.body()


def complete_copies(case: Case, draft: Draft) -> None:
    """
    Send captured reasoning in place of copies of it that have other members.

    A bare id stays where upstream looks up ids. What has no id, before an item without one, gets
    none.
    """
    for run in sent_runs(draft.items):
        is_named = any(item.id for item in run.group[:1])
        for item in run.reasoning:
            known = case.stands_for(item)
            is_stored = item.is_id_alone and case.looks_up_ids
            if known is None or (is_stored and (b'"summary"' in item.raw or not item.is_hollow)):
                continue
            is_named_alone = is_stored and known.turn.is_stored
            whole = known.acceptable(case.sent.model, case.profile)
            whole = whole or (known.part.raw if is_named_alone else b"")
            if not whole or _is_equal(item, whole):
                continue
            draft.texts[item] = whole
            if known.part.has_blob and not (item.id or is_named):
                draft.leave_out("id", item)


def _is_equal(item: ResponsesItem, whole: bytes) -> bool:
    """Return whether an item has the members of another, apart from an id that it lacks."""
    sent, emitted = value_of(item.raw), value_of(whole)
    if not (isinstance(sent, dict) and isinstance(emitted, dict)):
        return True  # its numbers cannot be compared
    if not item.id:
        emitted.pop("id", None)
        sent.pop("id", None)
    return sent == emitted
