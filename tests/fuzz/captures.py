"""Captures of responses, of each dialect: any bytes of upstream, in any pieces."""

import json
from collections.abc import Callable, Iterable

from reasoning_replay.core.dialects.captures import Capture, CaptureSnapshot, Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.history.lookup_keys import id_keys_of_turn, keys_of_turn
from reasoning_replay.core.history.records import records_of, turns_of
from reasoning_replay.core.history.turns import Context, Turn
from reasoning_replay.core.wire import json_spans

from tests.fuzz.inputs import cut, read
from tests.fuzz.naive import data_of, is_deep, less, meaning

BOUND = 1 << 20
OUTPUT_ONLY = ("status", "created_by")
_ORIGIN = Origin(Context(is_known=True), "gpt-5.4")

New = Callable[[int], Capture]


def capture_responses(max_bytes: int = BOUND) -> ResponsesCapture:
    """Return the capture for a response to a request without history."""
    return ResponsesCapture(_ORIGIN, max_bytes)


def is_captured_in_any_pieces(new: New, data: bytes) -> None:
    """Check that any cuts of a stream capture the same turn, which survives storing."""
    dice, stream = read(data)
    whole, capture = _captured(new(BOUND), [stream])
    assert not capture.gave_up or len(stream) > BOUND
    again, other = _captured(new(BOUND), cut(dice, stream))
    assert again == whole
    assert (other.removed, other.reasoning_context) == (capture.removed, capture.reasoning_context)
    small, _ = _captured(new(dice.choice((0, 60, 600))), cut(dice, stream))
    for snapshot in (whole, small):
        _judge(snapshot.turn, capture, data_of(stream))


def is_captured_from_json(data: bytes) -> None:
    """Check that only emitted items are captured from a whole response, and only once."""
    _, answer = read(data)
    capture = capture_responses()
    capture.read(answer)
    snapshot = capture.snapshot(1)
    capture.read(answer)
    assert capture.snapshot(1) == CaptureSnapshot(snapshot.status, None)
    _judge(snapshot.turn, capture, [answer])
    if snapshot.turn is not None:
        assert capture.successor().parent == snapshot.turn.id


def is_captured_from_events(data: bytes) -> None:
    """Check that WebSocket messages capture the same turn as the events of a stream."""
    said = [text for text in read(data).documents if is_worth_reading(text)]
    capture = capture_responses()
    for text in said:
        capture.hear(text)
    capture.close()
    heard = capture.snapshot(1)
    _judge(heard.turn, capture, said)
    if not any(set(b"\r\n") & set(text) for text in said):
        events = [b"data: " + text + b"\n\n" for text in said]
        assert _captured(capture_responses(), events)[0].turn == heard.turn


def _captured(capture: Capture, pieces: Iterable[bytes]) -> tuple[CaptureSnapshot, Capture]:
    for piece in pieces:
        capture.feed(piece)
    capture.close()
    return capture.snapshot(1), capture


def _judge(turn: Turn | None, capture: Capture, said: list[bytes]) -> None:
    """Check that a turn survives storing, and that its items were emitted."""
    if turn is None:
        return
    assert turns_of(turn.conversation, records_of(turn)) == [turn]
    assert set(id_keys_of_turn(turn)) <= set(keys_of_turn(turn))
    if isinstance(capture, ResponsesCapture):
        _judge_items(turn, said)


def _judge_items(turn: Turn, said: list[bytes]) -> None:
    if any(map(is_deep, said)):
        return  # too deep for the model
    try:
        emitted = [item for document in said for item in _items(document)]
    except json_spans.Unspliceable:
        return  # a repeated key around the items, which this model does not support
    for item in turn.items:
        for part in item.run:
            assert not item.withheld
            _judge_raw(part.raw, emitted, OUTPUT_ONLY)
            assert json_spans.without(part.raw, OUTPUT_ONLY) is part.raw
            if part.has_blob:
                assert b"encrypted_content" in part.raw or b"\\u" in part.raw
                assert part.blobs
        if item.raw:
            _judge_raw(item.raw, emitted, ("created_by",))


def _judge_raw(raw: bytes, emitted: list[bytes], left_out: tuple[str, ...]) -> None:
    if raw in emitted:
        return
    kept = meaning(raw)
    assert any(less(meaning(one), left_out) == kept for one in emitted if one[:1] == b"{")


def _items(document: bytes) -> list[bytes]:
    """Return the raw items of an event, or of a whole response."""
    try:
        found = json_spans.members(document)
    except json_spans.Unspliceable:
        if _is_json(document):
            raise
        return []
    items = [document[at.start : at.end] for key, at in found.items() if key == "item"]
    for key, at in found.items():
        value = document[at.start : at.end]
        if key == "response":
            items += _items(value)
        if key == "output" and value[:1] == b"[":
            items += [document[a:b] for a, b in json_spans.elements(document, at.start, at.end)]
    return items


def _is_json(document: bytes) -> bool:
    try:
        # Python refuses to read a very long number; upstreams may not.
        json.loads(document.decode("utf-8", "surrogateescape"), parse_int=str)
    except (ValueError, RecursionError):
        return False
    return True
