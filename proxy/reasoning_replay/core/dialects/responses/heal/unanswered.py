"""
Unanswered calls: the cure of a call without an output, as of an agent that was interrupted.

A missing output is never made up. If the operator allows it, such calls are left out instead, each
with the reasoning that led to nothing else.
"""

from reasoning_replay.core.dialects.responses.heal.calls import in_units
from reasoning_replay.core.dialects.responses.heal.captured import RefusedItems
from reasoning_replay.core.dialects.responses.heal.draft import Draft, is_output, sent_runs
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.items import Role


def with_answers(case: RefusedItems) -> bytes | None:
    """Move outputs after their calls; or leave out the calls that have none, if that is allowed."""
    body = in_units(case)
    if body != case.sent.body or not case.profile.drops_unanswered:
        return body
    return _without_unanswered(case)


def _without_unanswered(case: RefusedItems) -> bytes | None:
    """Leave out all calls without an output, because the API names only the first of them."""
    answered = {item.call_id for item in case.items if is_output(item)}
    calls = [item for item in case.items if item.role is Role.MODEL and item.call_id]
    gone = {item for item in calls if item.call_id not in answered}
    if not any(item.call_id == case.diagnosis.subject for item in gone):
        return None
    draft = Draft(case.sent)
    lone: set[ResponsesItem] = set()  # reasoning that leads to nothing any more
    headless: set[ResponsesItem] = set()  # reasoning whose first item goes and others stay
    for run in sent_runs(draft.items):
        led = [*run.group, *run.later]
        if gone.issuperset(led):
            lone.update(run.reasoning if led else ())
        elif led[0] in gone and not draft.send_by_value(run, case.profile):
            headless.update(run.reasoning)
    draft.remove_reasoning(headless)
    draft.remove(gone | lone)
    return draft.body()
