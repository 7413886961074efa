"""
What is learned of a conversation: a cure that was accepted is repeated before the first attempt.

A lesson names the kind of the refusal and its form, and never an item: the cure looks for all items
with such a fault.
"""

from collections.abc import Iterator

from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, Form, RefusalKind
from reasoning_replay.core.dialects.responses.heal.ids import form_of_ids
from reasoning_replay.core.dialects.responses.heal.normal_form import normal
from reasoning_replay.core.dialects.responses.heal.pairs import OF_PAIRS
from reasoning_replay.core.history.model_names import family
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
# The forms that are learned, and the members of reasoning that may be refused.
_FORMS = frozenset(
    {
        (RefusalKind.BLOB, Form.BY_VALUE),
        (RefusalKind.NOT_FOUND, Form.NAMELESS),
        (RefusalKind.BAD_ID, Form.NAMED),
        (RefusalKind.BAD_ID, Form.NAMELESS),
        (RefusalKind.FIELD, Form.BY_ID),
        (RefusalKind.LACKS_REASONING, Form.BY_VALUE),
        (RefusalKind.LACKS_FOLLOWER, Form.BY_VALUE),
    }
)
_BLOB = "encrypted_content"
_MEMBERS = frozenset({"status", "content", _BLOB})


def with_learned(case: Case, refused: KnownRefusals) -> tuple[bytes, int]:
    """
    Return a request with the edits that cured its conversation before, and how many these are.

    An edit that only injects is left to the plan, which does the same: the reasoning was missing
    for a while, as when the store did not respond.

    Cost: as many cures as lessons.
    """
    count = 0
    for diagnosis in _learned(refused, family(case.sent.model)):
        body = normal(case.about(diagnosis))
        if body not in (case.sent.body, case.inject_again(case.sent.body)):
            case, count = case.of(body), count + 1
    return case.sent.body, count


def lesson_of(case: Case, cured: bytes) -> Lesson | None:
    """Return what the cure of a refusal teaches about its conversation; None if nothing."""
    kind = case.diagnosis.kind
    what = _form_of(case)
    if kind in OF_PAIRS:
        what = _form_of_pair(case, cured)
    return Lesson(kind.value, what) if _expected(kind, what) is not None else None


def _form_of_pair(case: Case, cured: bytes) -> str:
    """
    Return how a pair is sent, or the type of the item that goes: what needs no names for its cure.

    If only upstream's words show which pair is broken, all that were not captured go by value.
    """
    subject = case.by_id.get(case.diagnosis.subject)
    for what in ("", *([subject.type] if subject is not None else ())):
        expected = _expected(case.diagnosis.kind, what)
        if expected is not None and normal(case.about(expected)) == cured:
            return str(what)
    by_value = normal(case.about(Diagnosis(case.diagnosis.kind, form=Form.BY_VALUE)))
    return Form.BY_VALUE if by_value != case.sent.body else ""


def _form_of(case: Case) -> str:
    """Return the form that upstream demands, or the member that it refuses."""
    diagnosis = case.diagnosis
    match diagnosis.kind:
        case RefusalKind.BLOB:  # others are remembered one by one
            return diagnosis.form or "refused"
        case RefusalKind.BAD_ID:
            return form_of_ids(case)
        case RefusalKind.NOT_FOUND:
            subject = case.by_id.get(diagnosis.subject)
            if diagnosis.form or (subject is not None and not subject.is_id_alone):
                return Form.NAMELESS
            turn = case.turn_of(subject)
            return str(turn.created_ms) if turn is not None else ""
    return str(diagnosis.form or diagnosis.member)


def _learned(refused: KnownRefusals, model: str) -> Iterator[Diagnosis]:
    """Yield the refusals that are expected of a conversation and a family of models, in order."""
    if refused.has(RefusalKind.INCLUDE, model):
        yield Diagnosis(RefusalKind.INCLUDE)
    if refused.has(RefusalKind.NOT_FOUND, model):
        yield Diagnosis(RefusalKind.NOT_FOUND, form=Form.NAMELESS)
    for kind in _LEARNED if refused.lessons else ():
        for what in sorted(str(what) for name, what in refused.lessons if name == kind):
            if (expected := _expected(kind, what)) is not None:
                yield expected


def _expected(kind: RefusalKind, what: str) -> Diagnosis | None:
    """Return the refusal that a lesson of this dialect tells of; None for any other lesson."""
    if (kind, what) in _FORMS:
        return Diagnosis(kind, form=Form(what), member=_BLOB if kind is RefusalKind.FIELD else "")
    if kind is RefusalKind.NOT_FOUND and what.isdecimal():
        return Diagnosis(kind, until_ms=int(what))
    if kind is RefusalKind.LACKS_REASONING and what.endswith("_call"):
        return Diagnosis(kind, member=what)
    if kind is RefusalKind.FIELD:
        return Diagnosis(kind, member=what) if what in _MEMBERS else None
    is_whole = not what and kind in _LEARNED and kind is not RefusalKind.BLOB
    return Diagnosis(kind) if is_whole else None
