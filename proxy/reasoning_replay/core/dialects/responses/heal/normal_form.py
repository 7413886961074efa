"""
Normal form: a history as the strictest API would accept it.

It is made of the client's items and of what was captured, for a refusal that does not say what is
wrong: each step looks for one kind of fault and edits only the items that have it. A history
without faults stays as it is.
"""

from collections.abc import Callable

from reasoning_replay.core.dialects.responses.heal.captured import RefusedItems
from reasoning_replay.core.dialects.responses.heal.copies import complete_copies
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.draft import Draft
from reasoning_replay.core.dialects.responses.heal.ids import (
    completed,
    deduplicated,
    with_good_ids,
)
from reasoning_replay.core.dialects.responses.heal.pairs import pair_ids, with_follower


def normal_form(case: RefusedItems) -> bytes:
    """Return the history of a refused request in normal form; the same bytes if it is."""
    case = _stepped(case)
    # Before the ids: one that is unknown shows that its item is none of those that were captured.
    case = case.of(case.inject_again(case.sent.body))
    return _settled(case, _PASSES)


def _settled(case: RefusedItems, passes: int) -> bytes:
    """Return the history once a further pass of this number changes nothing."""
    after = _stepped(_without_lone_ids(case))
    if passes and after.sent.body != case.sent.body:
        return _settled(after, passes - 1)
    return after.sent.body


def _stepped(case: RefusedItems) -> RefusedItems:
    for step in _STEPS:
        body = step(case)
        if body is not None and body != case.sent.body:
            case = case.of(body)
    return case


def _without_lone_ids(case: RefusedItems) -> RefusedItems:
    """Leave out ids that require reasoning which is not there."""
    if case.sent.is_stateful:  # upstream holds what they require
        return case
    draft = Draft(case.sent)
    hosted = case.diagnosis.member if case.diagnosis.kind is RefusalKind.LACKS_REASONING else ""
    draft.remove_lone_ids(spares=case.matches.__contains__, hosted=hosted)
    return case.of(draft.body())


def with_captured(case: RefusedItems) -> bytes:
    """Send captured reasoning in place of the client's copies that have other members."""
    draft = Draft(case.sent)
    complete_copies(case, draft)
    return draft.body()


def _paired(case: RefusedItems) -> bytes:
    """Send reasoning and the item that it led to with both ids, or with neither."""
    draft = Draft(case.sent)
    pair_ids(case, draft)
    return draft.body()


# An id that is left out may show another step more; this never needs more passes.
_PASSES = 4
# In an order in which a step seldom makes work for an earlier one.
_STEPS: tuple[Callable[[RefusedItems], bytes | None], ...] = (
    with_captured,
    completed,
    deduplicated,
    with_good_ids,
    _paired,
    with_follower,
)
