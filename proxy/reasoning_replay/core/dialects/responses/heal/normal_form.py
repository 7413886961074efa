"""
Normal form: a history as the strictest API would accept it, made from the client's and captured.

`normal` is the one edit of a history: each rule looks for one kind of fault, and edits only the
items that have it. What is refused, or was learned, chooses the rule, what it blames, and the form
in which the upstream takes the rest. If that is unknown, all rules apply. A history without faults
stays as it is.
"""

from collections.abc import Callable, Mapping

from reasoning_replay.core.dialects.responses.heal.blobs import (
    without_blobs,
    without_include,
    without_member,
    without_reasoning,
)
from reasoning_replay.core.dialects.responses.heal.calls import (
    in_units,
    with_answers,
    with_text,
)
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.copies import with_captured
from reasoning_replay.core.dialects.responses.heal.diagnosis import Form, RefusalKind
from reasoning_replay.core.dialects.responses.heal.draft import Draft
from reasoning_replay.core.dialects.responses.heal.ids import (
    completed,
    deduplicated,
    with_good_ids,
)
from reasoning_replay.core.dialects.responses.heal.pairs import (
    by_value,
    pair_ids,
    with_follower,
    with_reasoning,
)


def normal(case: Case) -> bytes:
    """
    Return a history without the faults that a case is about; the same bytes if it has none.

    The diagnosis says what is blamed, and which form upstream takes. It may name items, or none, if
    it was learned; if it does not say what is wrong, this is the normal form.
    """
    kind, form = case.diagnosis.kind, case.diagnosis.form
    rule = _RULES.get(kind)
    if kind is RefusalKind.LACKS_REASONING and not case.diagnosis.subject:
        rule = normal_form
    if form is Form.BY_VALUE:
        rule = by_value
    body = rule(case) if rule is not None else None
    return case.sent.body if body is None else body


def normal_form(case: Case) -> bytes:
    """Return the history in normal form, whatever is refused; the same bytes if it is."""
    case = _stepped(case)
    # Before the ids: one that is unknown shows that its item is none of those that were captured.
    case = case.of(case.inject_again(case.sent.body))
    return _settled(case, _PASSES)


def _settled(case: Case, passes: int) -> bytes:
    """Return the history once a further pass of this number changes nothing."""
    after = _stepped(_without_lone_ids(case))
    if passes and after.sent.body != case.sent.body:
        return _settled(after, passes - 1)
    return after.sent.body


def _stepped(case: Case) -> Case:
    for step in _STEPS:
        body = step(case)
        if body is not None and body != case.sent.body:
            case = case.of(body)
    return case


def _without_lone_ids(case: Case) -> Case:
    """Leave out ids that require reasoning which is not there."""
    if case.sent.is_stateful:  # upstream holds what they require
        return case
    draft = Draft(case.sent)
    hosted = case.diagnosis.member if case.diagnosis.kind is RefusalKind.LACKS_REASONING else ""
    draft.remove_lone_ids(spares=case.matches.__contains__, hosted=hosted)
    return case.of(draft.body())


def _paired(case: Case) -> bytes:
    """Send reasoning and the item that it led to with both ids, or with neither."""
    draft = Draft(case.sent)
    pair_ids(case, draft)
    return draft.body()


# An id that is left out may show another step more; this never needs more passes.
_PASSES = 4
# In an order in which a step seldom makes work for an earlier one.
_STEPS: tuple[Callable[[Case], bytes | None], ...] = (
    with_captured,
    completed,
    deduplicated,
    with_good_ids,
    _paired,
    with_follower,
)
_RULES: Mapping[RefusalKind, Callable[[Case], bytes | None]] = {
    RefusalKind.LACKS_REASONING: with_reasoning,
    RefusalKind.LACKS_FOLLOWER: with_follower,
    RefusalKind.LACKS_OUTPUT: with_answers,
    RefusalKind.LACKS_CALL: in_units,
    RefusalKind.LACKS_TEXT: with_text,
    RefusalKind.DUPLICATE: deduplicated,
    RefusalKind.NOT_FOUND: completed,
    RefusalKind.BAD_ID: with_good_ids,
    RefusalKind.BLOB: without_blobs,
    RefusalKind.FIELD: without_member,
    RefusalKind.INCLUDE: without_include,
    RefusalKind.NO_REASONING_MODEL: without_reasoning,
    RefusalKind.INPUT: normal_form,
    RefusalKind.FORM: normal_form,
}
