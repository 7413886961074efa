"""SSE reader: returns the same events, however the network splits a stream."""

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.wire.sse import Events

from tests.fast_lane import examples

BOUND = 1 << 20
DONE = b'{"type":"response.output_item.done","item":{}}'
COMPLETED = b'{"type":"response.completed"}'
DELTA = b'{"type":"response.output_text.delta","delta":"\\n\\n"}'


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Return a stream in pieces, split at these offsets."""
    edges = pairwise([0, *sorted(cuts), len(stream)])
    return [stream[start:end] for start, end in edges]


def read(stream: bytes, cuts: list[int] | None = None) -> list[bytes]:
    """Return all events of a stream that arrives in pieces."""
    events = Events(BOUND, is_worth_reading)
    found: list[bytes] = []
    for piece in pieces(stream, cuts or []):
        found += events.feed(piece)
    return found + events.close()


def bytewise(stream: bytes) -> list[int]:
    """Return the offsets that split a stream into single bytes."""
    return list(range(1, len(stream)))


# (lines of a stream, its events)
STREAMS = [
    pytest.param([b"event: x", b"data: " + DONE, b""], [DONE], id="event-and-data"),
    pytest.param([b"data: " + DONE, b"event: x", b""], [DONE], id="data-before-event"),
    pytest.param([b"data: " + DONE, b""], [DONE], id="no-event-line"),
    pytest.param([b"data:" + DONE, b""], [DONE], id="no-space"),
    pytest.param([b"data:  " + DONE, b""], [b" " + DONE], id="one-space-is-dropped"),
    pytest.param([b"data: " + DONE, b"", b"data: " + COMPLETED, b""], [DONE, COMPLETED], id="two"),
    pytest.param([b": OPENROUTER PROCESSING", b"", b"data: " + DONE, b""], [DONE], id="comment"),
    pytest.param([b"data: " + DONE, b": x", b"id: 1", b"retry: 5", b""], [DONE], id="other-fields"),
    pytest.param(
        [b'data: {"type":', b'data: "response.completed"}', b""],
        [b'{"type":\n"response.completed"}'],
        id="data-in-two-lines",
    ),
    pytest.param([b"data", b"data: " + DONE, b"data:", b""], [DONE + b"\n"], id="empty-data-lines"),
    pytest.param([b"", b"", b"data: " + DONE, b"", b"", b""], [DONE], id="more-blank-lines"),
    pytest.param([b"data: " + DELTA, b"", b"data: " + DONE, b""], [DONE], id="delta-first"),
    pytest.param([b"data: " + DONE, b"", b"data: [DONE]", b""], [DONE], id="done-marker"),
    pytest.param([b"event: ping", b'data: {"type":"ping"}', b""], [], id="ping"),
    pytest.param([b"event: response.completed", b""], [], id="event-without-data"),
    pytest.param([b": response.completed", b""], [], id="comment-that-looks-like-an-event"),
    pytest.param([b"data: " + DONE], [DONE], id="no-blank-line-at-the-end"),
    pytest.param([b"data: " + DONE, b"", b"data: " + DELTA], [DONE], id="ends-within-a-delta"),
    pytest.param([b'data: {"error":{"code":5}}', b""], [b'{"error":{"code":5}}'], id="error"),
    pytest.param([], [], id="nothing"),
]
ENDS = [
    pytest.param([b"\n"], id="lf"),
    pytest.param([b"\r\n"], id="crlf"),
    pytest.param([b"\r"], id="cr"),
    pytest.param([b"\n", b"\r\n"], id="lf-then-crlf"),
    pytest.param([b"\r\n", b"\n"], id="crlf-then-lf"),
    pytest.param([b"\r", b"\r\n"], id="cr-then-crlf"),
    pytest.param([b"\n", b"\r"], id="lf-then-cr"),
    pytest.param([b"\r\n", b"\r", b"\n"], id="all-three"),
]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(("lines", "want"), STREAMS)
def test_reads_every_framing(lines: list[bytes], want: list[bytes], ends: list[bytes]) -> None:
    """The events are the same in one piece and byte by byte, for all line ends and mixtures."""
    stream = b"".join(line + ends[n % len(ends)] for n, line in enumerate(lines))

    assert read(stream) == want
    assert read(stream, bytewise(stream)) == want


@pytest.mark.parametrize(
    "kind",
    [
        *(f"response.{end}" for end in ("completed", "incomplete", "failed")),
        *(f"response.{start}" for start in ("created", "queued", "in_progress")),
        *(f"response.output_item.{step}" for step in ("added", "done")),
    ],
)
def test_reads_whole_items_and_whole_responses(kind: str) -> None:
    """Events with whole items or whole responses are decoded."""
    data = f'{{"type":"{kind}"}}'.encode()

    assert read(b"data: " + data + b"\n\n") == [data]


@pytest.mark.parametrize(
    "kind",
    ["response.output_text.delta", "response.reasoning_summary_text.done", "keepalive", "ping"],
)
def test_ignores_all_other_events(kind: str) -> None:
    """Deltas and keep-alive events cost one search each."""
    stream = f'event: {kind}\ndata: {{"type":"{kind}"}}\n\n'.encode()

    assert read(stream * 3) == []
    assert read(stream * 3, bytewise(stream * 3)) == []


FRAMES = [
    [b"event: response.output_item.done", b"data: " + DONE],
    [b"data: " + COMPLETED, b"event: response.completed"],
    [b"data: " + DELTA],
    [b'data: {"type":', b'data: "response.failed"}'],
    [b": OPENROUTER PROCESSING"],
    [b"data: [DONE]"],
    [b'event: ping\r\ndata: {"type":"ping"}'],
    [],
]
LINE_END = re.compile(rb"\r\n|\n|\r")


def as_the_standard_says(stream: bytes) -> list[bytes]:
    """Return the events worth decoding, read line by line as the standard defines."""
    found: list[bytes] = []
    data: list[bytes] = []
    for line in [*LINE_END.split(stream), b""]:
        if line.startswith(b"data:"):
            data.append(line.removeprefix(b"data:").removeprefix(b" "))
        elif not line:
            joined = b"\n".join(data)
            found += [joined] if re.search(rb"response\.(output_item|comp|fail)", joined) else []
            data = []
    return found


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draw a stream in which each event has its own line ends."""
    stream = b""
    for frame in draw(st.lists(st.sampled_from(FRAMES), max_size=8)):
        ends = draw(st.sampled_from([[b"\n"], [b"\r"], [b"\n", b"\r\n"], [b"\r\n"]]))
        stream += b"".join(line + draw(st.sampled_from(ends)) for line in [*frame, b""])
    return stream + draw(st.sampled_from([b"", b"data: " + DONE, b"data: " + DONE + b"\n"]))


@given(streams(), st.data())
@examples(150)
def test_splitting_a_stream_anywhere_changes_no_event(stream: bytes, data: st.DataObject) -> None:
    """The events equal those of a reader that reads the whole stream as the standard defines it."""
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8))
    want = as_the_standard_says(stream)

    assert read(stream) == want
    assert read(stream, cuts) == want
    assert read(stream, bytewise(stream)) == want


TOKENS = [b"\r", b"\n", b"\r\n", b"data:", b"data: x", b" ", b'"error"', b": response.completed"]


@example(b"\r\r:response.completed\rdata:x", None)
@given(st.binary(max_size=40) | st.lists(st.sampled_from(TOKENS)).map(b"".join), st.data())
@examples(150)
def test_any_bytes_are_read_the_same_in_any_split(
    stream: bytes, data: st.DataObject | None
) -> None:
    """The reader never raises, and its result does not depend on the split."""
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=8)) if data else []

    assert read(stream) == read(stream, cuts) == read(stream, bytewise(stream))


def test_an_event_is_returned_as_soon_as_it_ends() -> None:
    """An event is complete with the last byte of its blank line."""
    events = Events(BOUND, is_worth_reading)

    assert events.feed(b"data: " + DELTA + b"\n\n") == []
    assert events.feed(b"data: " + DONE + b"\n") == []
    assert events.feed(b"\n") == [DONE]
    assert events.feed(b"data: " + COMPLETED + b"\r\n\r\n") == [COMPLETED]
    assert events.close() == []


def test_the_fast_path_keeps_earlier_bytes() -> None:
    """A chunk of whole deltas may end an event that an earlier chunk began."""
    events = Events(BOUND, is_worth_reading)

    assert events.feed(b"data: " + DONE) == []
    assert events.feed(b"\ndata: x\n\n") == [DONE + b"\nx"]
    assert events.feed(b'data: {"type":"response.comp') == []
    assert events.feed(b'leted"}\n\ndata: ' + DELTA + b"\n\n") == [COMPLETED]


@pytest.mark.parametrize("rest", [b"", b"\n", b"\n\n"])
def test_a_final_cr_ends_a_blank_line(rest: bytes) -> None:
    """It may be the first half of CRLF; the LF is then a part of the same blank line."""
    events = Events(BOUND, is_worth_reading)

    assert events.feed(b"data: " + DONE + b"\r\r") == [DONE]
    assert events.feed(rest + b"data: " + COMPLETED + b"\r\r") == [COMPLETED]
    assert events.close() == []


def test_a_closed_stream_is_empty() -> None:
    """A second `close` returns no events."""
    events = Events(BOUND, is_worth_reading)
    events.feed(b"data: " + DONE)

    assert events.close() == [DONE]
    assert events.close() == []


@pytest.mark.parametrize("ends", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_an_event_as_long_as_the_bound_is_read(ends: bytes) -> None:
    """The blank line after the event does not count."""
    events = Events(len(b"data: " + DONE), is_worth_reading)

    assert events.feed(b"data: " + DONE + ends) + events.close() == [DONE]
    assert not events.is_overrun


@pytest.mark.parametrize("long", [b"x" * 99, b"x" + DONE + b"\n\n" + b"data: " + DONE + b"\n\n"])
def test_an_event_longer_than_the_bound_stops_the_reader(long: bytes) -> None:
    """The buffer is bounded: earlier events are returned, and later ones, even whole, are not."""
    events = Events(len(DONE) + 6, is_worth_reading)
    short = b"data: " + DONE + b"\n\n"

    assert events.feed(short + b"data: " + long) == [DONE]
    assert events.is_overrun
    assert events.feed(b"\n\n" + short) == []
    assert events.close() == []


def test_a_comment_before_an_event_does_not_count() -> None:
    """The limit applies to the event alone, also within a chunk."""
    events = Events(len(DONE) + 6, is_worth_reading)
    short = b"data: " + DONE + b"\n\n"

    assert events.feed(short + b": " + b"x" * 99 + b"\n" + short) == [DONE, DONE]
    assert not events.is_overrun


def bounded(stream: bytes, cuts: list[int], bound: int) -> tuple[list[bytes], bool]:
    """Return the events of a stream, and whether one was too long."""
    events = Events(bound, is_worth_reading)
    found = [data for piece in pieces(stream, cuts) for data in events.feed(piece)]
    return found + events.close(), events.is_overrun


SIZED = st.tuples(st.sampled_from([b"error", b"delta"]), st.integers(0, 5) | st.integers(12, 20))


@given(st.lists(SIZED, max_size=5), st.data())
@examples(100)
def test_the_reader_stops_at_the_same_event_in_any_split(
    sized: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    """The limit applies to events, decoded or not, and not to chunks."""
    stream = b"".join(b'data: "%b"%b\n\n' % (kind, b"x" * more) for kind, more in sized)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    want = bounded(stream, [], 18)

    assert want == bounded(stream, cuts, 18) == bounded(stream, bytewise(stream), 18)
    assert want[1] is any(more > 5 for _, more in sized)


@pytest.mark.parametrize("stream", [b"\n\n\n]\n\n\n]\n\n", b": " + b"x" * 50 + b"\ndata: 1\n\n"])
@pytest.mark.parametrize("bound", [0, 1, 7, 50])
def test_what_is_between_events_is_not_measured(stream: bytes, bound: int) -> None:
    """Blank lines and comments count for nothing, in one piece or byte by byte."""
    assert bounded(stream, [], bound) == bounded(stream, bytewise(stream), bound)
    assert bounded(stream, [], 7)[1] is False
