"""Checks of any bytes of upstream: events, messages, codings, responses, refusals."""

import gzip
import json
import zlib

import brotli
import pytest
import zstandard
from reasoning_replay.core.dialects.captures import CaptureSnapshot, Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.events import is_worth_reading
from reasoning_replay.core.dialects.responses.heal.diagnosis import (
    diagnose,
    is_failing_event,
    is_refusing_event,
)
from reasoning_replay.core.history.lookup_keys import certain_keys_of_turn, keys_of_turn
from reasoning_replay.core.history.turns import Context, Turn, records_of, turns_of
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.content_coding import TooLarge, Undecodable, decode, decoder_for
from reasoning_replay.core.wire.sse import Events

from tests.fuzz.inputs import cut, read
from tests.fuzz.naive import Unclear, data_of, less, meaning
from tests.fuzz.seeds import CODINGS
from tests.fuzz.trees import Object, is_deep

__all__ = [
    "capture_json",
    "capture_messages",
    "capture_stream",
    "coding",
    "judge_turn",
    "refusal",
    "sse",
]

ORIGIN = Origin(Context(is_known=True), "gpt-5.4")
BOUND = 1 << 20
OUTPUT_ONLY = ("status", "created_by")
MARK = b"\xef\xbb\xbf"
# Statuses of real responses, and a few that do not exist.
STATUSES = (400, 404, 422, 429, 500, 200, 0, -1)


def _events(chunks: list[bytes], bound: int) -> tuple[list[bytes], bool]:
    events = Events(bound, is_worth_reading)
    found = [data for chunk in chunks for data in events.feed(chunk)]
    return found + ([] if events.is_overrun else events.close()), events.is_overrun


def sse(data: bytes) -> None:
    """Check that events are those of the standard, for any cuts of the stream."""
    dice, stream = read(data)
    whole, _ = _events([stream], BOUND)
    assert _events(cut(dice, stream), BOUND)[0] == whole
    if len(stream) < 400:
        assert _events([stream[n : n + 1] for n in range(len(stream))], BOUND)[0] == whole
    # A byte order mark after the start belongs to its line. The proxy's parser skips one before any
    # event, and so reads an event that clients do not.
    if stream.rfind(MARK) <= 0:
        expected = [one for one in data_of(stream) if is_worth_reading(one)]
        # An event counts as worth reading by any of its lines, also by the one that names it.
        assert [one for one in whole if is_worth_reading(one)] == expected
    small = dice.choice((0, 1, 50, 300))
    short, is_overrun = _events([stream], small)
    assert _events(cut(dice, stream), small) == (short, is_overrun)
    assert short == whole[: len(short)]
    assert is_overrun or short == whole


def _captured(chunks: list[bytes], bound: int = BOUND) -> tuple[CaptureSnapshot, ResponsesCapture]:
    capture = ResponsesCapture(ORIGIN, bound)
    for chunk in chunks:
        capture.feed(chunk)
    capture.close()
    return capture.snapshot(1), capture


def capture_stream(data: bytes) -> None:
    """Check that any cuts of a stream capture the same turn, with emitted items only."""
    dice, stream = read(data)
    snapshot, capture = _captured([stream])
    assert not capture.gave_up or len(stream) > BOUND
    again, other = _captured(cut(dice, stream))
    assert again == snapshot
    assert (other.removed, other.reasoning_context) == (capture.removed, capture.reasoning_context)
    judge_turn(snapshot.turn, data_of(stream))
    small, _ = _captured(cut(dice, stream), dice.choice((0, 60, 600)))
    judge_turn(small.turn, data_of(stream))


def capture_json(data: bytes) -> None:
    """Check that only emitted items are captured from a whole response."""
    _, answer = read(data)
    capture = ResponsesCapture(ORIGIN, BOUND)
    capture.read(answer)
    snapshot = capture.snapshot(1)
    capture.read(answer)
    assert capture.snapshot(1) == CaptureSnapshot(snapshot.status, None)
    judge_turn(snapshot.turn, [answer])
    if snapshot.turn is not None:
        origin = capture.successor()
        assert origin.parent == snapshot.turn.id


def judge_turn(turn: Turn | None, said: list[bytes]) -> None:
    """Check that every captured item was emitted, and that the turn survives storing."""
    if turn is None:
        return
    assert turns_of(turn.conversation, records_of(turn)) == [turn]
    assert set(certain_keys_of_turn(turn)) <= set(keys_of_turn(turn))
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


def capture_messages(data: bytes) -> None:
    """Check that WebSocket messages capture the same turn as the events of a stream."""
    said = [text for text in read(data).documents if is_worth_reading(text)]
    capture = ResponsesCapture(ORIGIN, BOUND)
    for text in said:
        capture.hear(text)
    capture.close()
    heard = capture.snapshot(1)
    judge_turn(heard.turn, said)
    lines = [text for text in said if text and not set(b"\r\n") & set(text)]
    if lines == said:
        streamed, _ = _captured([b"data: " + text + b"\n\n" for text in said])
        assert streamed.turn == heard.turn


def coding(data: bytes) -> None:
    """Check that damaged bytes only raise Undecodable, limits hold, and cuts change nothing."""
    dice, payload = read(data)
    name = CODINGS[data[0] % len(CODINGS) if data else 0]
    bound = dice.choice((1 << 22, 1 << 22, 1000, 0))
    whole = _decoded([payload], name, bound)
    again = _decoded(cut(dice, payload), name, bound)
    # Of two faults, the first one is reported.
    assert again == whole or {again, whole} == {"too large", "undecodable"}
    if isinstance(whole, bytes) and name != "identity":
        assert len(whole) <= bound
    plain = payload[:50_000]
    for coded, named in (
        (gzip.compress(plain, 1, mtime=0), "gzip"),
        (zlib.compress(plain, 1), "deflate"),
        (zstandard.compress(plain, 1), "zstd"),
        (brotli.compress(plain, quality=1), "br"),
    ):
        if named == name:
            assert decode(coded, named, len(plain)) == plain
            if plain:
                with pytest.raises(TooLarge):
                    decode(coded, named, len(plain) - 1)


def _decoded(chunks: list[bytes], name: str, bound: int) -> bytes | str:
    """Return the decoded chunks, or the reason why they cannot be decoded."""
    try:
        decoder = decoder_for(name, bound)
        return b"".join(decoder.feed(chunk) for chunk in chunks)
    except TooLarge:
        return "too large"
    except Undecodable:
        return "undecodable"


def refusal(data: bytes) -> None:
    """Check that any response gets a repeatable diagnosis, which names only names from its body."""
    dice, body = read(data)
    status = dice.choice(STATUSES)
    diagnosis = diagnose(status, body)
    assert diagnose(status, body) == diagnosis
    assert status in STATUSES[:3] or diagnosis.kind == "other"
    said = _texts(body)
    for name in (diagnosis.subject, diagnosis.wanted, *(diagnosis.ends or ())):
        # Names are matched word by word, because a name may span two texts of the body.
        assert all(word in said for word in name.split())
    assert diagnosis.index is None or diagnosis.index >= 0
    assert is_failing_event(body) or not is_refusing_event(body)


def _texts(body: bytes) -> str:
    """Return all texts of a response, with escapes decoded."""
    found = [body.decode("utf-8", "replace")]
    try:
        trees = [meaning(body)]
    except Unclear:
        trees = []
    for tree in trees:
        match tree:
            case str():
                found.append(tree)
            case Object():
                trees += [value for _, value in tree]
            case list():
                trees += tree
    return "\n".join(found)
