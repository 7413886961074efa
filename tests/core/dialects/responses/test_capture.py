"""Capture: the same response gives the same turn in every form, and capture never raises."""

import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.captures import CaptureSnapshot, Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.turns import Context, Turn, turn_id
from reasoning_replay.core.wire.digest import digest

from tests.core.documents import values
from tests.core.streams import added, began, done, ended, event, stream_of
from tests.core.world import MODEL, Item, answer, call, message, reasoning, search
from tests.fast_lane import examples

ORIGIN = Origin(Context(b"c" * 16, is_known=True), "gpt-5.6")
R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2 = call("1"), call("2")
WS, SAID = search("1"), message("1", "Sunny.")
CUT = message("2", "Sun", status="incomplete")
BUSY = call("3", status="in_progress")


def after(chunks: Iterable[bytes], origin: Origin = ORIGIN) -> ResponsesCapture:
    """Capture a stream, chunk by chunk, to its end."""
    capture = ResponsesCapture(origin, 1 << 20)
    for chunk in chunks:
        capture.feed(chunk)
    capture.close()
    return capture


def read(body: bytes) -> ResponsesCapture:
    """Capture a whole JSON response."""
    capture = ResponsesCapture(ORIGIN, 1 << 20)
    capture.read(body)
    return capture


def kept(capture: ResponsesCapture | CaptureSnapshot) -> Turn:
    """Return the turn captured from a response."""
    snapshot = capture.snapshot(5) if isinstance(capture, ResponsesCapture) else capture
    assert snapshot.turn is not None
    return snapshot.turn


def runs(capture: ResponsesCapture | CaptureSnapshot) -> dict[str, list[str]]:
    """Return the id of each emitted item -> the ids of the reasoning that led to it."""
    return {item.id: [part.id for part in item.run] for item in kept(capture).items}


def tied(*groups: tuple[Item, list[Item]]) -> dict[str, list[str]]:
    """Return the expected result of `runs`, given as items."""
    return {item["id"]: [part["id"] for part in run] for item, run in groups}


HALF = {"type": "reasoning", "id": "rs_half", "status": "completed"}

# (items emitted by upstream, the reasoning tied to each item)
OUTPUTS = [
    pytest.param([R1, SAID], tied((SAID, [R1])), id="message"),
    pytest.param([R1, C1], tied((C1, [R1])), id="call"),
    pytest.param([R1, C1, C2], tied((C1, [R1]), (C2, [])), id="parallel-calls"),
    pytest.param([R1, R2, C1], tied((C1, [R1, R2])), id="a-run-of-two"),
    pytest.param([R1, WS, R2, SAID], tied((WS, [R1]), (SAID, [R2])), id="interleaved"),
    pytest.param([SAID, R1, C1], tied((SAID, []), (C1, [R1])), id="message-first"),
    pytest.param([SAID], tied((SAID, [])), id="no-reasoning"),
    pytest.param([R1, C1, R2], tied((C1, [R1])), id="trailing-reasoning"),
    pytest.param([R1, CUT], tied((CUT, [])), id="unfinished-message"),
    pytest.param([R1, BUSY, R2, SAID], tied((BUSY, []), (SAID, [R2])), id="unfinished-call"),
    pytest.param(
        [R1, {"type": "of_the_future", "id": "x"}, C1],
        {"x": [R1["id"]], C1["id"]: []},
        id="unknown-item",
    ),
]


@pytest.mark.parametrize(("items", "want"), OUTPUTS)
def test_reasoning_is_tied_to_the_next_item(items: list[Item], want: dict[str, list[str]]) -> None:
    """JSON bodies and streams split anywhere agree; reasoning at the end is tied to nothing."""
    whole = stream_of(items)
    unframed = ResponsesCapture(ORIGIN, 1 << 20)
    for frame in whole.split(b"\n\n")[:-1]:  # a WebSocket message is the JSON of one event
        unframed.hear(frame.partition(b"data: ")[2])
    captures = [
        unframed,
        read(answer(items, "resp_1")),
        after([whole]),
        after(whole[n : n + 1] for n in range(len(whole))),
    ]

    assert [runs(capture) for capture in captures] == [want] * 4
    assert [capture.reasoning_items for capture in captures] == [sum(map(len, want.values()))] * 4


@pytest.mark.parametrize("conversation", [b"", digest(b"conversation")])
def test_an_unrequested_response_continues_the_one_before_it(conversation: bytes) -> None:
    """It joins the same conversation as a child; the input between the two is not known."""
    before = Origin(Context(is_known=True), "gpt-5.4", conversation, b"parent", stores=False)
    got = after([stream_of([R1, SAID])], before).successor()
    this = turn_id("resp_1")

    assert got == Origin(Context(), "gpt-5.4", conversation or this, this, stores=False)


@pytest.mark.parametrize("unfinished", [CUT, BUSY])
def test_reasoning_of_an_unfinished_item_is_withheld(unfinished: Item) -> None:
    """The turn records whether the unfinished item had reasoning."""
    with_reasoning = kept(read(answer([R1, unfinished], "resp_1"))).items[0]
    without = kept(read(answer([unfinished], "resp_1"))).items[0]

    assert (with_reasoning.withheld, without.withheld) == (True, False)


@pytest.mark.parametrize("damaged", [b'"id":"rs_9","id":"rs_8"', b'"id":"rs_9","x":"\xff"'])
def test_half_a_run_is_withheld(damaged: bytes) -> None:
    """If one reasoning item of a run cannot be captured, the whole run is withheld."""
    item = b'{"type":"reasoning",%b}' % damaged
    body = answer([R1, HALF, C1], "resp_1").replace(json.dumps(HALF).encode(), item)
    follower = kept(read(body)).items[0]

    assert (follower.run, follower.withheld) == ((), True)


@pytest.mark.parametrize("output", [[R1], [], [R1, R2]])
def test_a_response_of_reasoning_alone_is_not_stored(output: list[Item]) -> None:
    """Without another item, reasoning has no anchor for injection."""
    snapshot = after([stream_of(output)]).snapshot(5)

    assert snapshot == read(answer(output, "resp_1")).snapshot(5)
    assert snapshot == CaptureSnapshot("completed", None)


ODD = (
    b'{ "type":"reasoning" ,"id":"rs_1", "status":"completed","summary":["\xc3\xa9" ],\n'
    b'"new":{"status":1.0e1},"encrypted_content":"g\\u0041" }'
)
ODD_LEFT = (
    b'{ "type":"reasoning" ,"id":"rs_1", "summary":["\xc3\xa9" ],\n'
    b'"new":{"status":1.0e1},"encrypted_content":"g\\u0041" }'
)


def test_the_model_and_the_response_id_come_from_the_response() -> None:
    """Both are empty until the response names them."""
    assert (after([]).model, after([]).response_id) == ("", "")

    capture = read(answer([C1], "resp_1", model="gpt-5.6-2026-07-01"))

    assert (capture.model, capture.response_id) == ("gpt-5.6-2026-07-01", "resp_1")


def test_reasoning_is_kept_byte_for_byte() -> None:
    """Spacing, escapes, numbers and unknown fields stay; only `status` is left out."""
    output = b'"output":[%b , %b]' % (ODD, json.dumps(C1).encode())
    answered = answer([], "resp_1").replace(b'"output": []', output)
    part = kept(read(answered)).items[0].run[0]
    data = b'{"type":"response.output_item.done","output_index":0, "item" : ' + ODD + b"}"
    lines = b"".join(b"data: " + line + b"\n" for line in data.split(b"\n"))
    streamed = kept(after([began(), lines + b"\n" + done(1, C1)])).items[0].run[0]

    assert (part.raw, part.id, part.has_blob) == (ODD_LEFT, "rs_1", True)
    assert streamed == part


def blob(text: str) -> bytes:
    """Return the digest of encrypted content."""
    return digest(b"blob", text.encode())


def test_every_blob_is_remembered_and_only_that_of_done_is_injected() -> None:
    """The blobs in `added` and `completed` differ from that in `done`, but name the same item."""
    early, late = (R1 | {"encrypted_content": when} for when in ("early", "late"))
    stream = [began(), added(0, early), done(0, R1), done(1, C1), ended([late, C1])]
    part = kept(after(stream)).items[0].run[0]

    assert json.loads(part.raw) == R1
    assert sorted(part.blobs) == sorted(map(blob, ["early", "late", R1["encrypted_content"]]))


@pytest.mark.parametrize("output", [[], None, {}, "x", [None, 5]])
def test_items_are_captured_from_their_own_events(output: object) -> None:
    """Some upstreams end the stream with an empty or unreadable output."""
    capture = after([began(), done(0, R1), done(1, C1), ended(output)])

    assert runs(capture) == tied((C1, [R1]))


def test_items_without_events_are_captured_from_the_last_event() -> None:
    """The final output adds each item that had no event of its own, once."""
    none = after([began(), ended([R1, C1])])
    half = after([began(), done(0, R1), ended([R1, C1])])
    elsewhere = after([began(), done(1, R1), done(2, C1), ended([R1, C1])])

    assert runs(none) == runs(half) == tied((C1, [R1]))
    assert runs(elsewhere) == tied((C1, [R1]))


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_every_final_status_ends_the_capture(status: str) -> None:
    """Items that finished before the end of the stream stay captured."""
    snapshot = after([began(), done(0, R1), done(1, C1), ended([], status)]).snapshot(5)

    assert snapshot.status == status
    assert runs(snapshot) == tied((C1, [R1]))


def test_a_broken_stream_is_captured_up_to_the_break() -> None:
    """The last event counts without its blank line; reasoning without a follower is left out."""
    stream = began() + done(0, R1) + done(1, C1) + done(2, R2)

    assert runs(after([stream])) == runs(after([stream.rstrip()])) == tied((C1, [R1]))
    assert after([stream]).snapshot(5).status == "in_progress"


def test_the_id_in_done_is_the_id_of_the_item() -> None:
    """Ids may change from event to event, so items are matched by their output index."""
    other = [R1 | {"id": "rs_0"}, C1 | {"id": "fc_0"}]
    stream = [added(0, other[0]), done(0, R1), added(1, other[1]), done(1, C1), ended(other)]

    assert runs(after([began(), *stream])) == tied((C1, [R1]))


def test_a_constant_output_index_is_tolerated() -> None:
    """Items with one index and different ids are kept in order; an item sent twice is kept once."""
    stream = [began(), done(0, R1), done(0, C1), done(0, R2), done(0, SAID), ended([])]
    twice = [began(), done(0, R1), done(1, C1 | {"arguments": ""}), done(1, C1), ended([])]

    assert runs(after(stream)) == tied((C1, [R1]), (SAID, [R2]))
    assert runs(after(twice)) == tied((C1, [R1]))


@pytest.mark.parametrize("index", [None, "0", 1.5, [0], "x" * 5000])
def test_an_item_without_an_index_is_ignored(index: object) -> None:
    """The final output may still contain it."""
    assert runs(after([began(), done(index, R1), done(index, C1), ended([R1, C1])])) == tied(
        (C1, [R1])
    )


def test_unknown_events_are_ignored() -> None:
    """Pings, comments, errors, `[DONE]` and garbage between the events have no effect."""
    noise = [
        b": response.completed\n\n",
        b"data: response.completed\n\n",
        b'data: {"type":5,"error":"response.failed"}\n\n',
        event("error", error={"message": "response.failed"}),
        event("response.completed", response=None),
        event("response.completed"),
        b"data: [DONE]\n\n",
    ]
    stream = [began(), done(0, R1), done(1, C1)]
    noisy = [part for chunk in stream for part in (*noise, chunk)]

    assert runs(after([*noisy, *noise])) == tied((C1, [R1]))


def test_a_turn_records_its_request() -> None:
    """The turn has the context, the lineage, and the model names of request and response."""
    origin = Origin(Context(b"x" * 16), "openai/gpt-5.6", b"v" * 16, b"p" * 16)
    turn = kept(after([stream_of([SAID])], origin))

    assert (turn.id, turn.conversation, turn.parent) == (turn_id("resp_1"), b"v" * 16, b"p" * 16)
    assert turn.models == tuple(sorted(["gpt-5.6", family(MODEL)]))
    assert (turn.context, turn.created_ms) == (origin.context, 5)


def test_a_turn_without_a_past_starts_a_conversation() -> None:
    """The conversation is named by the id of the turn; an empty model name is left out."""
    turn = kept(after([stream_of([SAID])], Origin(Context(), "")))

    assert (turn.conversation, turn.parent, turn.models) == (turn.id, b"", (family(MODEL),))


@pytest.mark.parametrize(
    ("asked", "answered", "stored"),
    [
        (True, None, True),
        (False, None, False),
        (True, False, False),
        (False, True, True),
        (False, "true", False),
    ],
)
def test_upstream_decides_whether_a_response_is_stored(
    *, asked: bool, answered: object, stored: bool
) -> None:
    """The `store` of the request counts if the response has none."""
    capture = after([stream_of([SAID], store=answered)], Origin(Context(), "", stores=asked))

    assert kept(capture).is_stored is stored


def test_a_queued_response_is_kept_for_its_context() -> None:
    """Its output is fetched later, by a request that does not know the first one."""
    capture = read(answer([], "resp_1", status="queued"))

    assert capture.dirty
    turn = kept(capture)
    assert (turn.items, turn.context) == ((), ORIGIN.context)
    assert not capture.dirty


def test_a_missing_status_is_taken_from_the_event() -> None:
    """The name of the event contains the status; a plain body counts as completed."""
    assert after([event("response.failed", response={"id": "r"})]).snapshot(5).status == "failed"
    assert read(b'{"id":"r"}').snapshot(5).status == "completed"


def test_a_capture_is_dirty_as_soon_as_an_item_can_be_matched() -> None:
    """The item must be saved before the client sees it, as the next request may contain it."""
    capture = ResponsesCapture(ORIGIN, 1 << 20)
    seen = []
    for chunk in [began(), added(0, R1), done(0, R1), added(1, C1), done(1, C1), ended([R1, C1])]:
        capture.feed(chunk)
        seen.append(capture.dirty)
        capture.snapshot(5)
        assert not capture.dirty

    assert seen == [False, False, False, False, True, True]


def test_an_event_too_long_to_follow_is_given_up() -> None:
    """Items captured before the long event stay, and later events do not raise."""
    capture = ResponsesCapture(ORIGIN, 9000)
    for chunk in [began(), done(0, R1), done(1, C1), b"data: " + b"x" * 9000, ended([SAID])]:
        capture.feed(chunk)
    capture.close()

    assert capture.gave_up == "frame_too_long"
    assert runs(capture) == tied((C1, [R1]))


def test_a_response_without_an_id_is_not_kept() -> None:
    """A turn without a response id has no name, so nothing is stored."""
    assert after([done(0, R1), done(1, C1)]).snapshot(5) == CaptureSnapshot("", None)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"<html>", b'{"id":1}', b'{"id":"a","id":1}']
)
def test_other_bodies_are_not_captured(body: bytes) -> None:
    """A body that is not a response gives no turn."""
    assert read(body).snapshot(5).turn is None


pieces = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([began(), done(0, R1), done(1, C1), ended([R1, C1]), b"\n\n", b"\r"]),
    st.builds(
        b'data: {"type":"response.%b","output_index":%b,"item":%b,"response":%b}\n\n'.__mod__,
        st.tuples(
            st.sampled_from([b"output_item.done", b"output_item.added", b"completed", b"queued"]),
            st.sampled_from([b"0", b"1", b"-1", b"1e3", b"null", b"9" * 5000]),
            values.map(lambda written: written.text),
            values.map(lambda written: written.text)
            | values.map(lambda written: b'{"id":"r","output":[' + written.text + b"]}"),
        ),
    ),
)


@given(st.lists(pieces, max_size=6))
@examples(50)
def test_no_stream_raises(chunks: list[bytes]) -> None:
    """Capture never raises, whatever bytes upstream sends."""
    after(chunks).snapshot(5)
    read(b"".join(chunks)).snapshot(5)


@given(st.permutations([R1, R2, R3, C1, C2, WS, SAID, CUT]), st.data())
@examples(50)
def test_any_split_of_any_stream_gives_the_same_turn(
    items: list[Item], data: st.DataObject
) -> None:
    """The result is the same for a whole body, a stream, and a stream split anywhere."""
    stream = stream_of(items)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5).map(sorted))
    chunks = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]
    whole = read(answer(items, "resp_1", store=None)).snapshot(5)

    assert after(chunks).snapshot(5) == after([stream]).snapshot(5)
    assert runs(after(chunks)) == runs(whole)


@pytest.mark.parametrize("is_stream", [True, False])
def test_the_size_of_a_whole_response_is_bounded(*, is_stream: bool) -> None:
    """Eighty items of 1 KiB exceed a limit of 50 KiB, as a stream and as a body."""
    items = [reasoning(str(n)) | {"encrypted_content": "x" * 1024} for n in range(80)]
    capture = ResponsesCapture(ORIGIN, 50 << 10)
    if is_stream:
        for chunk in [began(), *[done(n, item) for n, item in enumerate(items)], ended(items)]:
            capture.feed(chunk)
        capture.close()
    else:
        capture.read(answer(items, "resp_1"))

    assert capture.gave_up == "too_large"
    assert 50 << 10 < capture.held_bytes < 54 << 10
