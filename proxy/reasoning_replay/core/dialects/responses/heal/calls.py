"""Calls and outputs: the cures of a half without the other, and of reasoning without its text."""

from collections import defaultdict
from collections.abc import Sequence

from reasoning_replay.core.dialects.responses.heal.captured import Position, RefusedRequest
from reasoning_replay.core.dialects.responses.heal.draft import Draft, is_output
from reasoning_replay.core.dialects.responses.heal.reorder import in_order
from reasoning_replay.core.dialects.responses.id_policy import in_form
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role

__all__ = [
    "add_calls",
    "outputs_without_call",
    "reordered",
    "with_calls",
    "with_outputs",
    "with_text",
]

_TEXT = b'"reasoning_text"'


def with_outputs(case: RefusedRequest) -> bytes | None:
    """Move outputs after their calls. A missing output is never made up."""
    call_id = case.diagnosis.subject
    if not any(is_output(item) and item.call_id == call_id for item in case.items):
        return None
    return reordered(case)


def with_calls(case: RefusedRequest) -> bytes | None:
    """Move a call before its output, or add the captured call there."""
    if any(item.is_tool and item.call_id == case.diagnosis.subject for item in case.items):
        return reordered(case)
    draft = Draft(case.sent)
    added = add_calls(case, draft)
    draft.items = in_order(draft.items, case.positions() | added)
    return draft.body()


def with_text(case: RefusedRequest) -> bytes | None:
    """Add captured plain text to reasoning, or inject it; else move outputs after their group."""
    draft = Draft(case.sent)
    for item in case.items:
        whole = case.captured(item) if item.role is Role.REASONING else b""
        if _TEXT in whole and _TEXT not in item.raw:
            draft.set_text(item, whole)
    body = case.inject_again(draft.body())
    return body if body != case.sent.body else reordered(case)


def reordered(case: RefusedRequest) -> bytes | None:
    """Return the request in order; None if it is in order already."""
    draft = Draft(case.sent)
    draft.items = in_order(case.items, case.positions())
    return draft.body() if draft.items != case.items else None


def outputs_without_call(items: Sequence[ResponsesItem]) -> list[ResponsesItem]:
    """Return the outputs without a whole call among the items."""
    calls = {item.call_id for item in items if item.role is Role.MODEL}
    return [item for item in items if is_output(item) and item.call_id not in calls]


def add_calls(case: RefusedRequest, draft: Draft) -> dict[ResponsesItem, Position]:
    """
    Insert captured calls, with their reasoning, before the outputs that lack them.

    Returns:
        The position of each inserted item in its turn.
    """
    lacking = set() if case.sent.is_stateful else set(outputs_without_call(draft.items))
    calls = _captured_calls(case) if lacking else {}
    present = {item.id for item in draft.items if item.role is not Role.REFERENCE} - {""}
    added: dict[ResponsesItem, Position] = {}
    items: list[ResponsesItem] = []
    for item in draft.items:
        call = calls.pop(item.call_id, None) if item in lacking else None
        if call is not None:
            unit = _unit(case, draft, call, present)
            added |= unit
            items += unit
        items.append(item)
    # A reference cannot stand for a call with an output, and must not repeat an added item.
    names = {item.id for item in added}
    draft.items = [one for one in items if one.role is not Role.REFERENCE or one.id not in names]
    return added


def _unit(
    case: RefusedRequest, draft: Draft, call: Match, present: set[str]
) -> dict[ResponsesItem, Position]:
    """Return a captured call after its reasoning; by value if that cannot be injected."""
    run = call.emitted.run
    item = read_item(call.emitted.raw)
    unit: dict[ResponsesItem, Position] = {}
    if call.emitted.withheld or not all(case.accepts(call.turn, part) for part in run):
        if item.id_is_optional:
            draft.leave_out("id", item)
    else:
        for n, part in enumerate(run):
            if part.id not in present:
                position = call.turn.id, (call.k, n - len(run))
                unit[read_item(in_form(part, case.profile))] = position
    return unit | {item: (call.turn.id, (call.k, 0))}


def _captured_calls(case: RefusedRequest) -> dict[str, Match]:
    """Return the captured calls with a random `call_id` that occurs only once."""
    found: dict[str, list[Match]] = defaultdict(list)
    for turn in case.looked_up.turns:
        for k, item in enumerate(turn.items):
            if item.raw and item.type != "message" and is_distinctive(item.call_id, item.name):
                found[item.call_id].append(Match(turn, k))
    return {call_id: calls[0] for call_id, calls in found.items() if len(calls) == 1}
