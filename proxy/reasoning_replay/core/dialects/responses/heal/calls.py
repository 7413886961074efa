"""
Calls and outputs: the cures of a half without the other, and of a history out of order.

A unit holds the items that one response emitted (reasoning directly before the item it led to),
followed by the outputs of its calls. A unit stands where its first item other than reasoning
stands. User messages between a call and its output move after the unit. Captured turns determine
the units; items that were not captured are grouped with their neighbours.
"""

from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from reasoning_replay.core.dialects.responses.emitted import is_open
from reasoning_replay.core.dialects.responses.heal.captured import Case, Position
from reasoning_replay.core.dialects.responses.heal.draft import Draft, is_output, sent_runs
from reasoning_replay.core.dialects.responses.id_policy import in_form
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.dialects.responses.reasoning_runs import head_of_group
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import Reasoning, Turn

_TEXT = b'"reasoning_text"'
_Unit = list[ResponsesItem]


def in_units(case: Case) -> bytes:
    """Put calls before their outputs, also captured ones that are missing; none is made up."""
    draft = Draft(case.sent)
    added = add_calls(case, draft)
    draft.items = in_order(draft.items, case.positions() | added)
    return draft.body()


def with_text(case: Case) -> bytes:
    """Add captured plain text to reasoning, or inject it; else move outputs after their group."""
    draft = Draft(case.sent)
    for item in case.items:
        whole = case.captured(item) if item.role is Role.REASONING else b""
        if _TEXT in whole and _TEXT not in item.raw:
            draft.texts[item] = whole
    body = case.inject_again(draft.body())
    return body if body != case.sent.body else in_units(case)


def with_answers(case: Case) -> bytes | None:
    """
    Move outputs after their calls; or leave out the calls that have none, if that is allowed.

    Each goes with the reasoning that led to nothing else, as of an agent that was interrupted.
    """
    body = in_units(case)
    if body != case.sent.body or not case.profile.drops_unanswered:
        return body
    # All of them, because the API names only the first.
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


def reordered(case: Case) -> bytes:
    """Return the request in order."""
    draft = Draft(case.sent)
    draft.items = in_order(case.items, case.positions())
    return draft.body()


# Captured calls


def outputs_without_call(items: Sequence[ResponsesItem]) -> list[ResponsesItem]:
    """Return the outputs without a whole call among the items."""
    calls = {item.call_id for item in items if item.role is Role.MODEL}
    return [item for item in items if is_output(item) and item.call_id not in calls]


def add_calls(case: Case, draft: Draft) -> dict[ResponsesItem, Position]:
    """
    Insert captured calls, with their reasoning, before the outputs that lack them.

    Returns:
        The position of each inserted item in its turn.
    """
    lacking = set(outputs_without_call(draft.items))
    if case.sent.is_stateful:  # upstream holds the other calls
        lacking = {item for item in lacking if item.call_id == case.diagnosis.subject}
    calls = _captured_calls(case) if lacking else {}
    # A run comes once, with the first of its calls.
    present = _present(case, draft) if calls else {}
    added: dict[ResponsesItem, Position] = {}
    items: _Unit = []
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
    case: Case, draft: Draft, call: Match, present: dict[Position, bool]
) -> dict[ResponsesItem, Position]:
    """
    Return a captured call after its reasoning.

    It comes with its id only if all the reasoning before its group does.
    """
    turn, item = call.turn, read_item(call.emitted.raw)
    head = head_of_group(call)
    run = turn.items[head].run if head is not None else ()
    unit: dict[ResponsesItem, Position] = {}
    positions: list[Position] = [(turn.id, (head or 0, n - len(run))) for n in range(len(run))]
    if head == call.k and all(_accepts(case, turn, part) for part in run):
        for part, position in zip(run, positions, strict=True):
            if position not in present:
                added = read_item(in_form(part, case.profile))
                unit[added] = position
                present[position] = bool(added.id)
    is_withheld = head is not None and turn.items[head].withheld
    is_named = not is_withheld and all(present.get(position, False) for position in positions)
    if not is_named and item.id_is_optional:
        draft.leave_out("id", item)
    return unit | {item: (turn.id, (call.k, 0))}


def _present(case: Case, draft: Draft) -> dict[Position, bool]:
    """Return the captured reasoning that the request holds, and whether it has its id there."""
    positions = case.positions()
    reasoning = [item for item in draft.items if item.is_reasoning and item in positions]
    return {positions[item]: bool(item.id) for item in reasoning}


def _accepts(case: Case, turn: Turn, part: Reasoning) -> bool:
    """Return whether captured reasoning is usable by the requested model."""
    if is_open(part):
        return True
    is_usable = part.has_blob or (bool(part.id) and case.sent.stores and turn.is_stored)
    return is_usable and case.is_own(turn)


def _captured_calls(case: Case) -> dict[str, Match]:
    """Return the captured calls with a random `call_id` that occurs only once."""
    found: dict[str, list[Match]] = defaultdict(list)
    for turn in case.turns:
        for k, item in enumerate(turn.items):
            if item.raw and item.type != "message" and is_distinctive(item.call_id, item.name):
                found[item.call_id].append(Match(turn, k))
    return {call_id: calls[0] for call_id, calls in found.items() if len(calls) == 1}


# Order


def in_order(
    items: Sequence[ResponsesItem], positions: Mapping[ResponsesItem, Position]
) -> list[ResponsesItem]:
    """Return the items in order, by the positions of those that were captured."""
    captured: dict[bytes, _Unit] = defaultdict(list)
    for item in items:
        if item in positions:
            captured[positions[item][0]].append(item)
    units = {_anchor(unit): sorted(unit, key=positions.__getitem__) for unit in captured.values()}
    standing = [item for item in items if item in units or item not in positions]
    units |= {_anchor(unit): unit for unit in _unknown(standing, units.keys())}
    outputs = _outputs(items, units)
    placed = {item for unit in (*units.values(), *outputs.values()) for item in unit}
    ordered: list[ResponsesItem] = []
    for item in items:
        if item in units:
            ordered += units[item] + outputs[item]
        elif item not in placed:
            ordered.append(item)
    return ordered


def _unknown(standing: Sequence[ResponsesItem], anchors: Collection[ResponsesItem]) -> list[_Unit]:
    """Group uncaptured items by the items between them; an anchor stands for a captured unit."""
    units: list[_Unit] = []
    is_begun = False
    for item in standing:
        is_own = item not in anchors and item.role not in (Role.CLIENT, Role.FRAME)
        if is_own and is_begun:
            units[-1].append(item)
        elif is_own:
            units.append([item])
        is_begun = is_own
    return units


def _anchor(unit: _Unit) -> ResponsesItem:
    """Return the item that determines where a unit stands: the first that is not reasoning."""
    return next((item for item in unit if not item.is_reasoning), unit[0])


def _outputs(
    items: Sequence[ResponsesItem], units: Mapping[ResponsesItem, _Unit]
) -> dict[ResponsesItem, _Unit]:
    """Return for each unit, in order, the first free output after each call, else one before it."""
    at = {item: n for n, item in enumerate(items)}
    waiting: dict[str, list[int]] = defaultdict(list)
    for item, n in at.items():
        if is_output(item) and item.call_id:
            waiting[item.call_id].append(n)
    found: dict[ResponsesItem, _Unit] = {}
    for anchor in sorted(units, key=at.__getitem__):
        taken: list[int] = []
        for call in units[anchor]:
            free = waiting.get(call.call_id, []) if call.is_tool else []
            if free:
                after = bisect(free, at[call])
                taken.append(free.pop(after if after < len(free) else 0))
        found[anchor] = [items[n] for n in sorted(taken)]
    return found
