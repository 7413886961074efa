"""What an answer teaches does not depend on how it comes, and learning never stands in its way."""

import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects.base import CaptureSnapshot, Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.turns import Context, Turn, turn_id
from reasoning_replay.core.wire.digest import digest

from tests.core.documents import values
from tests.core.streams import added, began, done, ended, event, stream_of
from tests.core.world import MODEL, Item, answer, call, message, reasoning, search

ORIGIN = Origin(Context(b"c" * 16, is_known=True), "gpt-5.6")
R1, R2, R3 = reasoning("1"), reasoning("2"), reasoning("3")
C1, C2 = call("1"), call("2")
WS, SAID = search("1"), message("1", "Sunny.")
CUT = message("2", "Sun", status="incomplete")
BUSY = call("3", status="in_progress")


def after(chunks: Iterable[bytes], origin: Origin = ORIGIN) -> ResponsesCapture:
    """Follow a stream to its end."""
    capture = ResponsesCapture(origin, 1 << 20)
    for chunk in chunks:
        capture.feed(chunk)
    capture.close()
    return capture


def read(body: bytes) -> ResponsesCapture:
    """Follow a whole JSON answer."""
    capture = ResponsesCapture(ORIGIN, 1 << 20)
    capture.read(body)
    return capture


def kept(capture: ResponsesCapture | CaptureSnapshot) -> Turn:
    """Return what is kept of an answer."""
    snapshot = capture.snapshot(5) if isinstance(capture, ResponsesCapture) else capture
    assert snapshot.turn is not None
    return snapshot.turn


def runs(capture: ResponsesCapture | CaptureSnapshot) -> dict[str, list[str]]:
    """Return the id of each emitted item -> the ids of the reasoning that led to it."""
    return {item.id: [part.id for part in item.run] for item in kept(capture).items}


def tied(*groups: tuple[Item, list[Item]]) -> dict[str, list[str]]:
    """Spell an expectation of `runs` in items."""
    return {item["id"]: [part["id"] for part in run] for item, run in groups}


HALF = {"type": "reasoning", "id": "rs_half", "status": "completed"}

# (what upstream emitted, the reasoning that each item is tied to)
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
    """Directly behind it, in an answer and in a stream in any cut; a run behind all is left."""
    whole = stream_of(items)
    captures = [
        read(answer(items, "resp_1")),
        after([whole]),
        after(whole[n : n + 1] for n in range(len(whole))),
    ]

    assert [runs(capture) for capture in captures] == [want] * 3
    assert [capture.reasoning_items for capture in captures] == [sum(map(len, want.values()))] * 3


@pytest.mark.parametrize(("items", "want"), OUTPUTS)
def test_events_need_no_framing(items: list[Item], want: dict[str, list[str]]) -> None:
    """On a WebSocket each message is the JSON of one event."""
    capture = ResponsesCapture(ORIGIN, 1 << 20)
    for frame in stream_of(items).split(b"\n\n")[:-1]:
        capture.hear(frame.partition(b"data: ")[2])

    assert runs(capture) == want


@pytest.mark.parametrize("conversation", [b"", digest(b"conversation")])
def test_an_unasked_answer_continues_the_one_before_it(conversation: bytes) -> None:
    """In its conversation, as its child; what was said in between is not known."""
    before = Origin(Context(is_known=True), "gpt-5.4", conversation, b"parent", stores=False)
    got = after([stream_of([R1, SAID])], before).successor()
    this = turn_id("resp_1")

    assert got == Origin(Context(), "gpt-5.4", conversation or this, this, stores=False)


@pytest.mark.parametrize("unfinished", [CUT, BUSY])
def test_what_never_finished_withholds_its_reasoning(unfinished: Item) -> None:
    """That there was some is remembered; that there was none, too."""
    with_reasoning = kept(read(answer([R1, unfinished], "resp_1"))).items[0]
    without = kept(read(answer([unfinished], "resp_1"))).items[0]

    assert (with_reasoning.withheld, without.withheld) == (True, False)


def test_half_a_run_is_withheld() -> None:
    """Reasoning that cannot be cut takes the rest of its run with it."""
    twice = b'{"type":"reasoning","id":"rs_9","id":"rs_8"}'
    body = answer([R1, HALF, C1], "resp_1").replace(json.dumps(HALF).encode(), twice)
    item = kept(read(body)).items[0]

    assert (item.run, item.withheld) == ((), True)


@pytest.mark.parametrize("output", [[R1], [], [R1, R2]])
def test_nothing_is_kept_where_nothing_could_be_recognised(output: list[Item]) -> None:
    """Reasoning alone has no item to go back with."""
    snapshot = after([stream_of(output)]).snapshot(5)

    assert snapshot == read(answer(output, "resp_1")).snapshot(5)
    assert snapshot == CaptureSnapshot("completed", None)


ODD = (
    b'{ "type":"reasoning" ,"id":"rs_1", "status":"completed","summary":[ ],\n'
    b'"new":{"status":1.0e1},"encrypted_content":"g\\u0041" }'
)
ODD_LEFT = (
    b'{ "type":"reasoning" ,"id":"rs_1", "summary":[ ],\n'
    b'"new":{"status":1.0e1},"encrypted_content":"g\\u0041" }'
)


def test_who_answers_is_known_from_what_upstream_says() -> None:
    """And by what name; nothing before it has said so."""
    assert (after([]).model, after([]).response_id) == ("", "")

    capture = read(answer([C1], "resp_1", model="gpt-5.6-2026-07-01"))

    assert (capture.model, capture.response_id) == ("gpt-5.6-2026-07-01", "resp_1")


def test_reasoning_is_kept_byte_for_byte() -> None:
    """Spacing, escapes, number spelling and unknown fields stay; only `status` does not go back."""
    output = b'"output":[%b , %b]' % (ODD, json.dumps(C1).encode())
    answered = answer([], "resp_1").replace(b'"output": []', output)
    part = kept(read(answered)).items[0].run[0]
    data = b'{"type":"response.output_item.done","output_index":0, "item" : ' + ODD + b"}"
    lines = b"".join(b"data: " + line + b"\n" for line in data.split(b"\n"))
    streamed = kept(after([began(), lines + b"\n" + done(1, C1)])).items[0].run[0]

    assert (part.raw, part.id, part.has_blob) == (ODD_LEFT, "rs_1", True)
    assert streamed == part


def blob(text: str) -> bytes:
    """Return the digest of an encrypted content."""
    return digest(b"blob", text.encode())


def test_every_blob_is_remembered_and_only_that_of_done_goes_back() -> None:
    """The one in `added` is unfit, the one in `completed` another string: both name the item."""
    early, late = (R1 | {"encrypted_content": when} for when in ("early", "late"))
    stream = [began(), added(0, early), done(0, R1), done(1, C1), ended([late, C1])]
    part = kept(after(stream)).items[0].run[0]

    assert json.loads(part.raw) == R1
    assert sorted(part.blobs) == sorted(map(blob, ["early", "late", R1["encrypted_content"]]))


@pytest.mark.parametrize("output", [[], None, {}, "x", [None, 5]])
def test_items_are_learnt_from_their_own_events(output: object) -> None:
    """Some upstreams end with an empty output, or with none that is readable."""
    capture = after([began(), done(0, R1), done(1, C1), ended(output)])

    assert runs(capture) == tied((C1, [R1]))


def test_items_without_events_are_learnt_from_the_end() -> None:
    """Whatever of the output has not come by itself, once."""
    none = after([began(), ended([R1, C1])])
    half = after([began(), done(0, R1), ended([R1, C1])])
    elsewhere = after([began(), done(1, R1), done(2, C1), ended([R1, C1])])

    assert runs(none) == runs(half) == tied((C1, [R1]))
    assert runs(elsewhere) == tied((C1, [R1]))


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_every_end_is_an_end(status: str) -> None:
    """What finished before it stays learnt."""
    snapshot = after([began(), done(0, R1), done(1, C1), ended([], status)]).snapshot(5)

    assert snapshot.status == status
    assert runs(snapshot) == tied((C1, [R1]))


def test_a_stream_that_breaks_off_teaches_what_came() -> None:
    """The last event also without its blank line; the reasoning behind it has no follower."""
    stream = began() + done(0, R1) + done(1, C1) + done(2, R2)

    assert runs(after([stream])) == runs(after([stream.rstrip()])) == tied((C1, [R1]))
    assert after([stream]).snapshot(5).status == "in_progress"


def test_the_id_of_done_is_the_items() -> None:
    """Ids may rotate from event to event; an output's place does not."""
    other = [R1 | {"id": "rs_0"}, C1 | {"id": "fc_0"}]
    stream = [added(0, other[0]), done(0, R1), added(1, other[1]), done(1, C1), ended(other)]

    assert runs(after([began(), *stream])) == tied((C1, [R1]))


def test_an_upstream_that_does_not_count_its_outputs_is_followed() -> None:
    """Items at one place with other ids come one after the other; one sent twice is one."""
    stream = [began(), done(0, R1), done(0, C1), done(0, R2), done(0, SAID), ended([])]
    twice = [began(), done(0, R1), done(1, C1 | {"arguments": ""}), done(1, C1), ended([])]

    assert runs(after(stream)) == tied((C1, [R1]), (SAID, [R2]))
    assert runs(after(twice)) == tied((C1, [R1]))


@pytest.mark.parametrize("index", [None, "0", 1.5, [0], "x" * 5000])
def test_an_item_without_a_place_is_passed_over(index: object) -> None:
    """The end of the stream may still bring it."""
    assert runs(after([began(), done(index, R1), done(index, C1), ended([R1, C1])])) == tied(
        (C1, [R1])
    )


def test_what_is_no_event_of_the_api_is_passed_over() -> None:
    """Pings, comments, errors, `[DONE]` and garbage between the events."""
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


def test_a_turn_remembers_what_its_request_was() -> None:
    """Its context, its lineage, and the names of the model: as asked for and as answered."""
    origin = Origin(Context(b"x" * 16), "openai/gpt-5.6", b"v" * 16, b"p" * 16)
    turn = kept(after([stream_of([SAID])], origin))

    assert (turn.id, turn.conversation, turn.parent) == (turn_id("resp_1"), b"v" * 16, b"p" * 16)
    assert turn.models == tuple(sorted(["gpt-5.6", family(MODEL)]))
    assert (turn.context, turn.created_ms) == (origin.context, 5)


def test_a_turn_without_a_past_starts_a_conversation() -> None:
    """It is named by its own id; an unknown model is no model."""
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
def test_upstream_says_whether_it_stores(*, asked: bool, answered: object, stored: bool) -> None:
    """What the request said counts where the answer says nothing."""
    capture = after([stream_of([SAID], store=answered)], Origin(Context(), "", stores=asked))

    assert kept(capture).is_stored is stored


def test_a_queued_response_is_kept_for_its_context() -> None:
    """Its output is fetched later, by another request that knows nothing of the first."""
    capture = read(answer([], "resp_1", status="queued"))

    assert capture.dirty
    assert (kept(capture).items, kept(capture).context) == ((), ORIGIN.context)
    assert not capture.dirty


def test_a_status_that_is_not_told_is_that_of_the_event() -> None:
    """The event's own name says it."""
    assert after([event("response.failed", response={"id": "r"})]).snapshot(5).status == "failed"
    assert read(b'{"id":"r"}').snapshot(5).status == "completed"


def test_there_is_something_to_save_whenever_an_item_can_be_recognised() -> None:
    """Before the client sees it, as it may come back in its very next request."""
    capture = ResponsesCapture(ORIGIN, 1 << 20)
    seen = []
    for chunk in [began(), added(0, R1), done(0, R1), added(1, C1), done(1, C1), ended([R1, C1])]:
        capture.feed(chunk)
        seen.append(capture.dirty)
        capture.snapshot(5)
        assert not capture.dirty

    assert seen == [False, False, False, False, True, True]


def test_an_event_too_long_to_follow_is_given_up() -> None:
    """What came before stays learnt, and nothing raises any more."""
    capture = ResponsesCapture(ORIGIN, 2000)
    for chunk in [began(), done(0, R1), done(1, C1), b"data: " + b"x" * 2000, ended([SAID])]:
        capture.feed(chunk)
    capture.close()

    assert capture.gave_up == "frame_too_long"
    assert runs(capture) == tied((C1, [R1]))


def test_a_response_without_an_id_is_not_kept() -> None:
    """It could be given no name."""
    assert after([done(0, R1), done(1, C1)]).snapshot(5) == CaptureSnapshot("", None)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"<html>", b'{"id":1}', b'{"id":"a","id":1}']
)
def test_answers_of_another_kind_teach_nothing(body: bytes) -> None:
    """They are passed on like any other."""
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
@settings(max_examples=50, deadline=None)
def test_no_stream_raises(chunks: list[bytes]) -> None:
    """Whatever upstream sends, the client gets it; learning may fail, and says nothing."""
    after(chunks).snapshot(5)
    read(b"".join(chunks)).snapshot(5)


@given(
    st.binary(max_size=30)
    | values.map(lambda written: b'{"id":"r","output":' + written.text + b"}")
)
@settings(max_examples=40, deadline=None)
def test_no_answer_raises(body: bytes) -> None:
    """The same for a body that comes at once."""
    read(body).snapshot(5)


@given(st.permutations([R1, R2, R3, C1, C2, WS, SAID, CUT]), st.data())
@settings(max_examples=50, deadline=None)
def test_any_cut_of_any_output_teaches_the_same(items: list[Item], data: st.DataObject) -> None:
    """As a whole answer, as a stream, and as a stream that was cut anywhere."""
    stream = stream_of(items)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=5).map(sorted))
    chunks = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]
    whole = read(answer(items, "resp_1", store=None)).snapshot(5)

    assert after(chunks).snapshot(5) == after([stream]).snapshot(5)
    assert runs(after(chunks)) == runs(whole)


@pytest.mark.parametrize("is_stream", [True, False])
def test_all_of_an_answer_is_bounded_not_each_event_alone(*, is_stream: bool) -> None:
    """Eighty items of a kilobyte are more than fifty kilobytes, however they come."""
    items = [reasoning(str(n)) | {"encrypted_content": "x" * 1024} for n in range(80)]
    capture = ResponsesCapture(ORIGIN, 50 << 10)
    if is_stream:
        for chunk in [began(), *[done(n, item) for n, item in enumerate(items)], ended(items)]:
            capture.feed(chunk)
        capture.close()
    else:
        capture.read(answer(items, "resp_1"))

    assert capture.gave_up == "too_large"
    assert sum(part.size_bytes for part in capture._parts.values()) <= 50 << 10
