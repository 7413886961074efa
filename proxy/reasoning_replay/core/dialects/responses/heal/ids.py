"""Id cures: for ids that are sent twice, not found, or in a form that the API refuses."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from reasoning_replay.core.dialects.responses.heal.calls import outputs_without_call
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.diagnosis import Form, RefusalKind
from reasoning_replay.core.dialects.responses.heal.draft import (
    Draft,
    SentRun,
    is_output,
    needs_output,
    sent_runs,
)
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Unspliceable

# Prefixes of the ids that clients rebuild; ids of other types are not checked.
_PREFIXES: Mapping[str, str] = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
}
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def deduplicated(case: Case) -> bytes | None:
    """
    Send every item once: remove copies with equal content; other items only lose the id.

    A copy of a call goes with the copies of its output.
    """
    subject, draft = case.diagnosis.subject, Draft(case.sent)
    if subject and [item.id for item in case.items].count(subject) < 2:  # noqa: PLR2004 (twice)
        return _without_what_upstream_holds(case) if case.sent.is_stateful else None
    outputs: dict[str, list[ResponsesItem]] = defaultdict(list)
    for item in filter(is_output, case.items):
        outputs[item.call_id].append(item)
    first: dict[str, ResponsesItem] = {}
    gone: set[ResponsesItem] = set()
    for item in sorted(case.items, key=lambda item: item.is_id_alone):  # whole items stay
        # The same reasoning may come with its id and without.
        names = [one for one in (item.id, item.blob if item.is_reasoning else "") if one]
        before = next((first[name] for name in names if name in first), item)
        first |= dict.fromkeys(names, before)
        if before is item or item.type.startswith("compaction"):
            continue
        results = outputs[item.call_id] if item.is_tool and item.call_id else []
        if _is_copy(item, before) and len({output.said for output in results}) <= 1:
            gone.update([item, *results[1:]])
        elif item.id_is_optional or item.role in (Role.CLIENT, Role.FRAME):
            draft.leave_out("id", item)
        elif not needs_output(item.type, item.call_id):
            gone.add(item)
    draft.remove(gone)
    return draft.body()


def _is_copy(item: ResponsesItem, before: ResponsesItem) -> bool:
    """Return whether an item repeats an earlier one with the same id; no message of the user."""
    if item.is_reasoning or item.role is Role.REFERENCE:
        return True
    if (item.type, item.call_id) != (before.type, before.call_id):
        return False
    if item.role is Role.MODEL:
        return item.content == before.content
    return item.type != "message" and item.said == before.said


def _without_what_upstream_holds(case: Case) -> bytes:
    """Remove the items that are in the history that upstream holds."""
    known = {case.diagnosis.subject}
    for turn in case.looked_up.turns:
        ids = {item.id for item in turn.items} | {part.id for i in turn.items for part in i.run}
        if case.diagnosis.subject in ids:
            known |= ids - {""}
    draft = Draft(case.sent)
    draft.remove({item for item in case.items if item.id in known and item.type != "compaction"})
    return draft.body()


def completed(case: Case) -> bytes | None:
    """
    Replace bare ids by whole items; remove those that cannot be completed.

    An upstream that looks up ids keeps those of later responses than the one that it did not find,
    unless they lose nothing as whole items. None if a call would be removed while its output stays:
    half of a unit is never removed.
    """
    draft = Draft(case.sent)
    whole = _whole(case.items)
    lost = complete_bare(case, draft)
    others = {item for item in lost if not item.is_reasoning}
    if others and outputs_without_call(draft.items):
        return None
    is_nameless = case.diagnosis.form is Form.NAMELESS
    if is_nameless or case.diagnosis.subject in whole:  # it looks up all ids
        leave_out_ids(draft)
    for run in sent_runs(draft.items):
        if run.group and others.issuperset(run.group):
            lost.update(run.reasoning)  # all the items that it led to are gone
    draft.remove_reasoning(lost - others)
    draft.remove(others)
    return draft.body()


def complete_bare(case: Case, draft: Draft) -> set[ResponsesItem]:
    """Send whole items in place of bare ids; return those that are unknown, which stay."""
    whole = _whole(draft.items)
    bare = [item for item in draft.items if item.is_id_alone and item.id not in whole]
    # Items of the same age are probably gone as well, and only one retry is left.
    kept = _still_found(case, bare)
    found = {item: case.captured(item) for item in bare if item not in kept}
    # Two of them may have the same id: the first one becomes the item.
    first = {item.id: item for item, raw in reversed(found.items()) if raw}
    wholes = {item: raw for item, raw in found.items() if first.get(item.id, item) is item}
    whole |= first.keys()
    gone = (item for item in draft.items if item.is_id_alone and item.id in whole)
    draft.remove({item for item in gone if item not in wholes})
    draft.complete(wholes)
    return {item for item, raw in wholes.items() if not raw}


def _whole(items: Sequence[ResponsesItem]) -> set[str]:
    """Return the ids of the items that are more than an id."""
    return {item.id for item in items if item.id and not item.is_id_alone}


def leave_out_ids(draft: Draft) -> None:
    """Leave out all ids, except where one is required."""
    runs = sent_runs(draft.items)
    hosting = {one for run in runs if _is_hosting(run) for one in (*run.reasoning, *run.group)}
    for item in (one for one in draft.items if one not in hosting):
        is_optional = item.blob if item.role is Role.REASONING else item.id_is_optional
        if is_optional and item.role in (Role.REASONING, Role.MODEL):
            draft.leave_out("id", item)


def _is_hosting(run: SentRun) -> bool:
    """Return whether reasoning led to an item whose id, which demands it, is required."""
    return any(item.role is Role.MODEL and not item.id_is_optional for item in run.group)


def _still_found(case: Case, bare: Sequence[ResponsesItem]) -> set[ResponsesItem]:
    """Return the bare ids that upstream finds, as far as is known."""
    if case.diagnosis.kind is not RefusalKind.NOT_FOUND:
        return set(bare) if case.looks_up_ids else set()
    named = case.turn_of(case.by_id.get(case.diagnosis.subject))
    until_ms = named.created_ms if named is not None else case.diagnosis.until_ms
    if not (until_ms and case.looks_up_ids):
        return set()
    # What has a blob loses nothing, and its group follows it.
    with_blobs = {
        known.turn.id
        for known in map(case.known, bare)
        if known is not None and known.part.has_blob
    }
    turns = {item: case.turn_of(item) for item in bare}
    return {
        item
        for item, turn in turns.items()
        if turn is not None
        and turn.is_stored
        and turn.created_ms > until_ms
        and turn.id not in with_blobs
    }


def form_of_ids(case: Case) -> Form:
    """Return which ids upstream demands, or takes."""
    form, subject = case.diagnosis.form, _subject(case)
    if form is not Form.ANY or subject is None:
        return form
    if subject.is_reasoning and not subject.id:
        return Form.NAMED
    is_own = subject.role is not Role.CLIENT and subject.type in _PREFIXES
    is_good = is_own and bool(subject.id) and not _has_bad_id(subject)
    is_refused = is_good and case.emitted_id(subject) in ("", subject.id)
    return Form.NAMELESS if is_refused else Form.ANY


def _subject(case: Case) -> ResponsesItem | None:
    index = case.diagnosis.index
    return case.items[index] if index is not None and index < len(case.items) else None


def with_good_ids(case: Case) -> bytes | None:
    """
    Replace bad ids by the ids that upstream emitted where they are required; remove the others.

    Ids of a group stay together: if one of them cannot be added, the others are removed too.
    """
    draft = Draft(case.sent)
    runs = {item: run for run in sent_runs(case.items) for item in (*run.reasoning, *run.group)}
    subject, form = _subject(case), form_of_ids(case)
    if form is Form.NAMELESS:
        leave_out_ids(draft)
        return draft.body()
    lacks_id = form is Form.NAMED
    lost = set()
    for item in case.items:
        is_lacking = lacks_id and item.role is Role.REASONING and not item.id
        if not (item is subject or is_lacking or _has_bad_id(item)):
            continue
        emitted_id, run = case.emitted_id(item), runs.get(item)
        is_demanded = run is not None and all(one.id for one in run.reasoning)
        if emitted_id not in ("", item.id) and (is_demanded or not item.id_is_optional):
            draft.set_id(item, emitted_id)
        elif is_demanded and run is not None and draft.send_by_value(run, case.profile):
            continue
        elif item.id_is_optional or item.blob or is_output(item):
            draft.leave_out("id", item)
        elif item.role is Role.REASONING:
            lost.add(item)
    draft.remove_reasoning(lost)
    return draft.body()


def _has_bad_id(item: ResponsesItem) -> bool:
    if item.role not in (Role.MODEL, Role.REASONING):
        return False
    if not item.id:
        try:
            return "id" in json_spans.members(item.raw)
        except Unspliceable:
            return False
    return _ID.fullmatch(item.id) is None or not item.id.startswith(_PREFIXES.get(item.type, ""))
