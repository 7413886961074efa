"""
Pairs of reasoning and the item that it led to, and the cures of a half without the other.

An upstream that checks pairs links the two by their ids, and refuses one id without the other. It
accepts both ids, and it accepts neither; no form loses anything.
"""

from collections.abc import Collection

from reasoning_replay.core.dialects.responses.emitted import is_open
from reasoning_replay.core.dialects.responses.heal.calls import add_calls, in_order, reordered
from reasoning_replay.core.dialects.responses.heal.captured import (
    Case,
    KnownReasoning,
    is_follower,
)
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.draft import (
    EMITTED,
    Draft,
    SentRun,
    is_output,
    needs_output,
    sent_runs,
)
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.dialects.responses.profiles import Ids
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import Emitted

OF_PAIRS = (RefusalKind.LACKS_REASONING, RefusalKind.LACKS_FOLLOWER)

# Known pairs


def pair_ids(case: Case, draft: Draft, *, names_reasoning: bool = True) -> int:
    """
    Send reasoning and the item that it led to with both ids, or with neither.

    Args:
        case: The request; only pairs that a captured turn proves are changed.
        draft: Its edits.
        names_reasoning: Whether reasoning that is sent by value may get its id. An upstream may
            take it only as it is.

    Returns:
        The number of items changed.
    """
    # An item that stands elsewhere, or that can be added because its output is present, is left
    # for upstream to name.
    present = {item.call_id if is_output(item) else item.id for item in draft.items} - {""}
    before = len(draft.texts)
    for run in sent_runs(draft.items):
        known = case.known(run.reasoning[-1]) if run.group else None
        if known is None or is_open(known.part) or not known.follower.id:
            continue
        follower, next_item = known.follower, run.group[0]
        own = run._replace(reasoning=run.reasoning[-len(follower.run) :])
        if [case.known(item) for item in own.reasoning] != known.whole_run:
            continue
        is_whole = all(item.id for item in own.reasoning)
        if next_item.id == follower.id:
            _name_reasoning(case, draft, own, known, adds_ids=names_reasoning)
        elif not is_follower(next_item, follower):
            is_elsewhere = {follower.id, follower.call_id} & present or any(
                is_follower(item, follower) for item in (*run.group, *run.later)
            )
            if not is_elsewhere:
                _pair(case, draft, own, known)
        elif is_whole and case.looks_up_ids:
            _set_id(draft, next_item, follower)
    return len(draft.texts) - before


def _pair(case: Case, draft: Draft, run: SentRun, known: KnownReasoning) -> bool:
    """Pair reasoning with the item after it, by both ids or none; False if it cannot stay."""
    next_item = run.group[0]
    if not is_follower(next_item, known.follower):
        return known.led_to(next_item) and _send_by_value(case, draft, run, known.ids)
    needs_id = case.looks_up_ids or not next_item.id_is_optional
    has_id = bool(next_item.id) or (needs_id and _set_id(draft, next_item, known.follower))
    return has_id or _send_by_value(case, draft, run)


def _name_reasoning(
    case: Case, draft: Draft, run: SentRun, known: KnownReasoning, *, adds_ids: bool
) -> None:
    """Add the ids of reasoning before an item that has its id, or remove that id."""
    nameless = [item for item in run.reasoning if not item.id]
    is_dropped = bool(nameless) and case.profile.ids is Ids.DROPPED
    if is_dropped and draft.send_by_value(run, case.profile, known.ids):
        return
    for item, captured in zip(run.reasoning, known.whole_run, strict=True):
        if captured.part.id and not item.id and (adds_ids or len(nameless) < len(run.reasoning)):
            draft.set_id(item, captured.part.id)


def by_value(case: Case) -> bytes:
    """
    Send reasoning, and the items that it led to, without ids: no pair can be checked by them.

    If a pair is refused, that is what was not captured; if a blob does not match its id, all.
    """
    draft = Draft(case.sent)
    for run in sent_runs(case.items):
        is_certain = case.diagnosis.kind in OF_PAIRS and all(map(case.known, run.reasoning))
        if run.group and not is_certain:
            draft.send_by_value(run, case.profile)
    return draft.body()


# An item without its reasoning


def with_reasoning(case: Case) -> bytes | None:
    """Move reasoning before its follower; else inject it; else remove the ids that require it."""
    wanted, subject = case.by_id.get(case.diagnosis.wanted), case.by_id.get(case.diagnosis.subject)
    draft = Draft(case.sent)
    if wanted is not None:
        body = reordered(case) if case.known(wanted) else _beside(draft, wanted, subject)
        if body is not case.sent.body:
            return body
    else:
        pair_ids(case, draft)
        # Ids go after the injection: an unknown id is evidence that its item is none of those that
        # were captured, even if it says the same.
        fetched = case.of(case.inject_again(draft.body()))
        if case.diagnosis.wanted in fetched.by_id or case.diagnosis.subject not in fetched.by_id:
            # Unknown items may lack reasoning as well, and there is no second retry.
            draft = Draft(fetched.sent)
            draft.remove_lone_ids(spares=fetched.matches.__contains__)
            return draft.body()
        draft = Draft(case.sent)
    for run in sent_runs(case.items):
        if subject in run.group:  # upstream does not accept this reasoning as the item's own
            draft.send_by_value(run, case.profile)
    draft.remove_lone_ids(case.had_none, hosted=subject.type if subject is not None else "")
    return draft.body()


def _beside(draft: Draft, wanted: ResponsesItem, subject: ResponsesItem | None) -> bytes:
    """Make the two items that upstream names adjacent, if that is possible."""
    items = draft.items
    if subject is None or subject is wanted or subject.role not in EMITTED:
        return draft.body()
    here, there = items.index(wanted), items.index(subject)
    is_shared = here > 0 and items[here - 1].is_reasoning
    leads = here + 1 < len(items) and items[here + 1].role not in (Role.CLIENT, Role.FRAME)
    if here > there or is_shared or not leads:
        items.remove(wanted)
        items.insert(items.index(subject), wanted)
    else:  # the item after the reasoning would lack it, so the named item moves instead
        items.remove(subject)
        items.insert(here + 1, subject)
    return draft.body()


# Reasoning without the item that it led to


def with_follower(case: Case) -> bytes | None:
    """Take out injected reasoning that lacks its follower; else repair the client's own pairs."""
    draft = Draft(case.sent)
    added = add_calls(case, draft)
    if not added and (unpaired := _injected_without_follower(case, draft)):
        draft.remove_reasoning(unpaired)
        return draft.body()
    draft.items = in_order(draft.items, case.positions() | added)
    outputs = {item.call_id for item in draft.items if is_output(item)}
    lacking = outputs - {item.call_id for item in draft.items if item.is_tool}
    returned: dict[ResponsesItem, list[ResponsesItem]] = {}
    alone, lost = set[ResponsesItem](), set[ResponsesItem]()
    for run in sent_runs(draft.items):
        *others, last = _parts(case, run.reasoning)
        for own in (*(SentRun(part, [], []) for part in others), run._replace(reasoning=last)):
            known = case.known(own.reasoning[-1])
            if not any(item.id for item in own.reasoning):
                continue
            if known is not None and _may_return(case, own, known.follower, lacking):
                returned[own.reasoning[-1]] = [read_item(known.follower.raw)]
            elif not _is_paired(case, draft, own, known):
                (lost if own.reasoning is last else alone).update(own.reasoning)
    draft.items = [one for item in draft.items for one in (item, *returned.get(item, ()))]
    draft.remove(alone)
    draft.remove_reasoning(lost)
    if lost:  # its follower is unknown, so an item that lacks it now is sent by value
        draft.remove_lone_ids(case.had_none)
    return draft.body()


def _injected_without_follower(case: Case, draft: Draft) -> set[ResponsesItem]:
    """Return the injected reasoning that has another item after it; none if upstream names none."""
    unpaired = set[ResponsesItem]()
    if not any(map(case.is_named, case.injected)):
        return unpaired
    for run in sent_runs(draft.items):
        known = case.known(run.reasoning[-1])
        is_followed = known is not None and any(
            is_follower(item, known.follower) for item in run.group[:1]
        )
        if not is_followed or any(map(case.is_named, run.reasoning)):
            unpaired |= case.injected.intersection(run.reasoning)
    return unpaired


def _parts(case: Case, reasoning: list[ResponsesItem]) -> list[list[ResponsesItem]]:
    """Split consecutive reasoning where captured turns show that an item stood in between."""
    parts: list[list[ResponsesItem]] = [[]]
    before: object = None
    for item in reasoning:
        known = case.known(item)
        led_to = (known.turn.id, known.k) if known is not None else None
        if parts[-1] and led_to != before:
            parts.append([])
        parts[-1].append(item)
        # If upstream names unknown reasoning, the next item is not its follower.
        is_blamed = known is None and item.id == case.diagnosis.subject
        before = item if is_blamed else led_to
    return parts


def _may_return(case: Case, run: SentRun, follower: Emitted, lacking: Collection[str]) -> bool:
    """
    Return whether the item that reasoning led to is missing and may be added again.

    The client may have removed a message on purpose, but an action of the model has happened. A
    call is added only if its output is present and has no call (`lacking`: the `call_id` of those).
    """
    if any(is_follower(item, follower) for item in run.group[:1]) or case.sent.is_stateful:
        return False
    if not follower.raw or follower.type == "message":
        return False
    if needs_output(follower.type, follower.call_id):
        return follower.call_id in lacking
    is_there = any(match.emitted is follower for match in case.matches.values())
    return not is_there and case.by_id.get(follower.id) is None


def _is_paired(case: Case, draft: Draft, run: SentRun, known: KnownReasoning | None) -> bool:
    """Pair reasoning with the item after it, by both ids or none; False if it cannot stay."""
    if not run.group:
        return False
    next_item = run.group[0]
    if known is None:
        is_blamed = any(item.id == case.diagnosis.subject for item in run.reasoning)
        return (next_item.id != "" and not is_blamed) or draft.send_by_value(run, case.profile)
    match = case.matches.get(next_item)
    if match is not None and match.emitted is known.follower and next_item.id:
        return True  # upstream will say if its id is bad
    if is_open(known.part):
        return known.led_to(next_item)
    return _pair(case, draft, run, known)


def _send_by_value(
    case: Case, draft: Draft, run: SentRun, captured_ids: Collection[str] | None = None
) -> bool:
    """Send a run by value, as `Draft.send_by_value`; a bare id becomes what was captured."""
    wholes = {item: case.captured(item) for item in run.reasoning if item.is_id_alone}
    draft.texts |= {item: whole for item, whole in wholes.items() if whole}
    return draft.send_by_value(run, case.profile, captured_ids)


def _set_id(draft: Draft, item: ResponsesItem, emitted: Emitted) -> bool:
    """Add the id of an emitted item; False for a message that is reworded or cannot have one."""
    if not (emitted.id and item.takes_id and item.content == emitted.content):
        return False
    draft.set_id(item, emitted.id)
    return True
