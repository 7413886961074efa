"""Laws of healing: they hold for every history, client and refusal."""

import json
import re
from collections import Counter
from typing import Any

from hypothesis import example, given
from reasoning_replay.core.dialects.responses.heal.calls import in_order
from reasoning_replay.core.dialects.responses.heal.diagnosis import Diagnosis, RefusalKind
from reasoning_replay.core.wire import json_spans

from tests.core.dialects.responses.heal.histories import (
    History,
    changed,
    histories,
    history_of,
    refusals,
    requests,
)
from tests.core.dialects.responses.heal.played import (
    case_of,
    cure_of_body,
    hollow,
    maybe_cure_of,
    repaired,
    repaired_body,
)
from tests.core.world import Item, body, input_of
from tests.fast_lane import examples

Refused = tuple[History, list[Item], dict[str, Any], Diagnosis]
Requested = tuple[History, list[Item], dict[str, Any]]

# The cures that send an item once that is there twice.
SENDS_ONCE = (RefusalKind.DUPLICATE, RefusalKind.INPUT, RefusalKind.FORM)
# Members that may be left out of an item that stays.
LEFT_OUT = ("id", "encrypted_content", "content", "status")


# A client's copy of reasoning, before the item it led to, has its id; the other has a bad one.
TWICE = history_of([("R C", True)])
THOUGHT_TWICE = TWICE, changed(TWICE.items, [("copy", 1, 3), ("change", 1, 2)])
# One response with reasoning before a hosted search and before a call, sent to another model. The
# first reasoning lacks its id.
SEARCHED = history_of([("R W R C", True)])
SEARCHED_WITHOUT_ID = [
    SEARCHED.items[0],
    {key: value for key, value in SEARCHED.items[1].items() if key != "id"},
    *SEARCHED.items[2:],
]


def raws(request: bytes) -> list[bytes]:
    """Return the bytes of each item of a request."""
    member = json_spans.members(request)["input"]
    return [request[at:end] for at, end in json_spans.elements(request, member.start, member.end)]


def meaning(raw: bytes) -> str:
    """Return the content of an item, independent of its white space."""
    return json.dumps(json.loads(raw))


def said(items: list[Item]) -> list[Item]:
    """Return the messages of users."""
    return [item for item in items if item.get("role") == "user"]


def outputs(items: list[Item]) -> Counter[str]:
    """Return the number of outputs of each call."""
    return Counter(str(i["call_id"]) for i in items if i.get("type", "").endswith("_output"))


def calls(items: list[Item]) -> set[str]:
    """Return the `call_id` of each call that is present as a whole item."""
    return {i["call_id"] for i in items if i.get("type", "").endswith("_call") and "call_id" in i}


def core(item: Item) -> str:
    """Return the part of an item that an edit never changes."""
    return json.dumps({k: v for k, v in item.items() if k not in LEFT_OUT}, sort_keys=True)


def is_made_of(item: Item, sources: list[Item], ids: set[object]) -> bool:
    """Return whether an item is one of the sources, less some members, with an allowed id."""
    if item.get("id") not in ids:
        return False
    return any(
        core(item) == core(one)
        and all(item[key] == one.get(key) for key in LEFT_OUT[1:] if key in item)
        for one in sources
    )


@examples(400)
@given(refusals())
def test_a_cure_keeps_the_history_and_invents_nothing(refused: Refused) -> None:
    """User messages, outputs and their calls stay; each item comes from the client or upstream."""
    history, sent, more, diagnosis = refused
    found = maybe_cure_of(history.world, sent, diagnosis, **more)
    if found is None:
        return
    before, got = body(sent, **more), input_of(found.body)
    names = {item.get("id") for item in [*sent, *history.emitted]} | {None}

    assert found.body != before
    assert said(got) == said(sent)
    assert all(is_made_of(item, [*sent, *history.emitted], names) for item in got)
    assert set(outputs(got)) == set(outputs(sent))
    if diagnosis.kind not in SENDS_ONCE:
        assert outputs(got) == outputs(sent)
    if "previous_response_id" not in more:
        assert calls(sent) & set(outputs(got)) <= calls(got)


def marked(request: bytes) -> bytes:
    """Write each item with its own white space: an edit keeps it, so that its source is known."""
    items = [
        json.dumps(json.loads(raw), separators=(" , ", " " * (n + 2) + ": ")).encode()
        for n, raw in enumerate(raws(request))
    ]
    head, tail = request.partition(b"[")[0], request.rpartition(b"]")[2]
    return head + b"[" + b" , ".join(items) + b"]" + tail


def source_of(raw: bytes) -> int | None:
    """Return the index of the item that another one was made from; None if it was captured."""
    mark = re.search(rb'"( {2,}): ', raw)
    return len(mark[1]) - 2 if mark is not None else None


@examples(200)
@given(refusals())
@example((*THOUGHT_TWICE, {}, Diagnosis(RefusalKind.BAD_ID, index=3)))
def test_a_cure_leaves_all_other_bytes_alone(refused: Refused) -> None:
    """Items with the same meaning keep their bytes, and so does the text around them."""
    history, sent, more, diagnosis = refused
    before = marked(body(sent, **more))
    found = cure_of_body(history.world, before, diagnosis)
    if found is None:
        return
    came, got = raws(before), raws(found.body)
    around = (before.partition(b"[")[0], before.rpartition(b"]")[2])

    assert (found.body.partition(b"[")[0], found.body.rpartition(b"]")[2]) == around
    meant = Counter(map(meaning, came))
    means = Counter(map(meaning, got))
    same = Counter(meaning(raw) for raw in got if raw in came)
    for raw in got:
        source = source_of(raw)
        if source is not None:
            is_edited = raw != came[source]
            # One rule may leave out an id of a broken turn that a later one restores.
            is_restored = is_edited and diagnosis.kind in SENDS_ONCE and b'"id":' in raw
            assert not is_edited or is_restored or meaning(raw) != meaning(came[source])
        else:  # an inserted item may come to mean the same as another, which stays as it is
            assert same[meaning(raw)] >= min(means[meaning(raw)], meant[meaning(raw)])


@examples(200)
@given(requests())
@example((TWICE, [*TWICE.items[:2], hollow(TWICE.items[1]), *TWICE.items[1:]], {"store": False}))
@example((SEARCHED, SEARCHED_WITHOUT_ID, {"model": "o4-mini"}))
def test_repairing_twice_is_repairing_once(requested: Requested) -> None:
    """
    A repaired request needs no further repair; user messages, calls and outputs stay.

    A reference to a captured call may become that call, where upstream stores nothing.
    """
    history, sent, more = requested
    once = repaired(history.world, sent, **more)
    got = input_of(once.body)

    assert said(got) == said(sent)
    assert set(outputs(got)) == set(outputs(sent))
    referred = {item.get("id") for item in sent if "call_id" not in item}
    named = [item for item in history.emitted if item["id"] in referred]
    assert calls(sent) <= calls(got) <= calls([*sent, *named])
    before = body(sent, **more)
    assert repaired_body(history.world, once.body, turns_of=before).body is once.body


@examples(100)
@given(histories)
def test_a_clean_history_returns_the_same_object(history: History) -> None:
    """If nothing needs repair, the body is not copied."""
    sent = body(history.items)
    done = repaired_body(history.world, sent)

    assert done.counts == {}
    assert done.body is sent


@examples(200)
@given(requests())
def test_ordering_loses_nothing_and_is_idempotent(requested: Requested) -> None:
    """Ordering keeps all items, and an ordered input is not changed again."""
    history, sent, more = requested
    case = case_of(history.world, sent, **more)
    ordered = in_order(case.items, case.positions())

    assert Counter(map(id, ordered)) == Counter(map(id, case.items))
    assert in_order(ordered, case.positions()) == ordered


@examples(100)
@given(histories)
def test_an_honest_history_is_in_order(history: History) -> None:
    """A history as upstream emitted it is never reordered, whatever part of it was captured."""
    case = case_of(history.world, history.items)

    assert in_order(case.items, case.positions()) == case.items
