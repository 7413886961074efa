"""
What is learned of a conversation: a cure that was accepted is repeated before the first attempt.

A lesson names the kind of the refusal and its form, and never an item: the cure looks for all items
with such a fault.
"""

from collections.abc import Iterator

from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.responses.heal.captured import RefusedItems
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.dialects.responses.heal.ids import demands_reasoning_ids
from reasoning_replay.core.history.turns import Lesson

# In the order in which they are repeated: no cure makes work for an earlier one.
_LEARNED = (
    RefusalKind.NOT_FOUND,
    RefusalKind.DUPLICATE,
    RefusalKind.BAD_ID,
    RefusalKind.BLOB,
    RefusalKind.FIELD,
    RefusalKind.LACKS_CALL,
    RefusalKind.LACKS_OUTPUT,
    RefusalKind.LACKS_FOLLOWER,
    RefusalKind.LACKS_TEXT,
    RefusalKind.LACKS_REASONING,
    RefusalKind.INPUT,
    RefusalKind.FORM,
)


def lesson_of(case: RefusedItems, *, is_as_given: bool) -> Lesson | None:
    """Return what the cure of a refusal teaches about its conversation; None if nothing."""
    kind = case.diagnosis.kind
    if is_as_given:
        return None
    what = _form_of(case)
    return Lesson(kind.value, what) if _expected(kind, what) is not None else None


def _form_of(case: RefusedItems) -> str:
    """Return the form that upstream demands, or the member that it refuses."""
    diagnosis = case.diagnosis
    match diagnosis.kind:
        case RefusalKind.BLOB:  # others are remembered one by one
            return "bound" if diagnosis.is_bound else "refused"
        case RefusalKind.BAD_ID:
            return "id" if demands_reasoning_ids(case) else ""
        case RefusalKind.NOT_FOUND:
            subject = case.by_id.get(diagnosis.subject)
            if diagnosis.is_by_value or (subject is not None and not subject.is_id_alone):
                return "by_value"
            turn = case.turn_of(subject)
            return str(turn.created_ms) if turn is not None else ""
    return diagnosis.member


def learned(refused: KnownRefusals, model: str) -> Iterator[Diagnosis]:
    """Yield the refusals that are expected of a conversation and a family of models, in order."""
    if refused.has(RefusalKind.NOT_FOUND, model):
        yield Diagnosis(RefusalKind.NOT_FOUND, is_by_value=True)
    for kind in _LEARNED if refused.lessons else ():
        for what in sorted(str(what) for name, what in refused.lessons if name == kind):
            if (expected := _expected(kind, what)) is not None:
                yield expected


def _expected(kind: RefusalKind, what: str) -> Diagnosis | None:
    """Return the refusal that a lesson of this dialect tells of; None for any other lesson."""
    match kind, what:
        case RefusalKind.BLOB, "bound":
            return Diagnosis(kind, is_bound=True)
        case RefusalKind.NOT_FOUND, "by_value":
            return Diagnosis(kind, is_by_value=True)
        case RefusalKind.NOT_FOUND, _ if what.isdecimal():
            return Diagnosis(kind, until_ms=int(what))
        case (RefusalKind.BAD_ID, "id") | (
            RefusalKind.FIELD,
            "status" | "content" | "encrypted_content",
        ):
            return Diagnosis(kind, member=what)
        case _, "" if kind in _LEARNED and kind not in (RefusalKind.BLOB, RefusalKind.FIELD):
            return Diagnosis(kind)
    return None
