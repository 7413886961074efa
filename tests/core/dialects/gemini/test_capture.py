"""Capture: an answer becomes a turn, the same from a stream in any pieces and from JSON."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.gemini.capture import GeminiCapture
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.wire.digest import digest

from tests.core import streams
from tests.core.dialects.gemini.contents import SIG, answer, call, capture, chunk, said, stream

SIGNED = f'"thoughtSignature":"{SIG}"'.encode()
Shape = list[tuple[str, list[tuple[str, bytes]], bool]]


def heard(data: bytes) -> GeminiCapture:
    """Return the capture of a response."""
    return streams.heard(capture(), data)


def compact(data: bytes) -> bytes:
    """Return JSON in one line, as the events of a stream hold it."""
    return json.dumps(json.loads(data)).encode()


def shape(data: bytes) -> Shape:
    """Return the type of each item of a turn, its signatures, and whether they are withheld."""
    turn = heard(data).snapshot(1).turn
    assert turn is not None
    return [
        (item.type, [(part.id, part.raw) for part in item.run], item.withheld)
        for item in turn.items
    ]


def test_a_signature_belongs_to_its_part() -> None:
    """Of parallel calls, only the first has one; it is kept under the name that was emitted."""
    two = answer(call("Paris", thought_signature=SIG), call("Rome"))
    assert shape(two) == [
        ("functionCall", [("thought_signature 1/1", SIGNED.replace(b"tS", b"t_s"))], False),
        ("functionCall", [], False),
    ]


def test_a_part_that_is_no_item_belongs_to_the_one_before_it() -> None:
    """Or to the first item, if there is none before it. Its JSON is kept as it was emitted."""
    thought, bare = said("Hm", thought=True, thoughtSignature=SIG), {"thoughtSignature": "Eh=="}
    got = shape(stream(chunk(thought), chunk(said("Sunny")), chunk(bare, reason="STOP")))

    ((kind, run, withheld),) = got
    assert (kind, withheld) == ("message", False)
    assert [(name, json.loads(raw)) for name, raw in run] == [
        ("part 0/1", thought),
        ("part 1/1", bare),
    ]


def test_a_text_in_pieces_is_one_item() -> None:
    """The place of a signature among the pieces is kept; white space alone is no piece."""
    pieces = [said("Sun"), said("ny", thoughtSignature=SIG), said(" \n"), said("day")]
    last = said("", thoughtSignature="Eh==")
    chunks = [*(chunk(piece) for piece in pieces), chunk(last, reason="STOP")]
    ((kind, run, _),) = shape(stream(*chunks))

    assert kind == "message"
    assert [name for name, _ in run] == ["thoughtSignature 2/3", "part 3/3"]
    assert shape(b"[" + b",\r\n".join(map(compact, chunks)) + b"]") == [(kind, run, False)]


def test_spellings_of_a_signature_have_one_digest() -> None:
    """Some clients write the same bytes in the alphabet for URLs, or without padding."""
    turns = [
        heard(answer(call(thoughtSignature=spelled))).snapshot(1).turn
        for spelled in ("Ep+/w==", "Ep-_w")
    ]
    runs = [turn.items[0].run for turn in turns if turn is not None]
    assert runs[0][0].blobs == runs[1][0].blobs == (digest(b"blob", b"Ep+/w"),)


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"])
def test_a_response_that_is_cut_short_withholds_its_last_item(reason: str) -> None:
    """What led to an unfinished part must not go back."""
    got = shape(answer(call(thoughtSignature=SIG), said("Su", thoughtSignature=SIG), reason=reason))
    assert [withheld for *_, withheld in got] == [False, True]
    assert got[1][1] == []
    assert [withheld for *_, withheld in shape(answer(said("Su"), reason=reason))] == [False]


def test_the_names_and_counts_of_a_response_are_noted() -> None:
    """Thoughts count as output."""
    capture = heard(answer(said("Hi", thoughtSignature=SIG)))

    assert capture.usage == Usage(input_tokens=7, output_tokens=7, reasoning_tokens=5)
    assert (capture.response_id, capture.model) == ("r1", "gemini-3-pro-preview")
    assert (capture.is_complete, capture.reasoning_items) == (True, 1)
    assert capture.held_bytes > 0
    turn = capture.snapshot(1).turn
    assert turn is not None
    assert turn.models == ("gemini-3-pro-preview",)


@pytest.mark.parametrize(
    ("usage", "want"),
    [
        ({"promptTokenCount": 5}, Usage(input_tokens=5, output_tokens=0)),
        (
            {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 1},
            Usage(input_tokens=9, cached_tokens=4, output_tokens=1),
        ),
        ({"candidatesTokenCount": 1}, Usage(output_tokens=1)),
        ({"totalTokenCount": 1}, None),
        (5, None),
    ],
)
def test_the_counts_of_tokens(usage: Any, want: Usage | None) -> None:
    """What is missing is not made up."""
    assert heard(json.dumps({"usageMetadata": usage}).encode()).usage == want


def test_a_gateway_may_give_no_reason_to_finish() -> None:
    """A whole response is complete; a stream without a reason is not."""
    unspecified = chunk(call(thoughtSignature=SIG), reason="FINISH_REASON_UNSPECIFIED")
    for data in (answer(call(thoughtSignature=SIG), reason=""), unspecified):
        assert shape(data) == [("functionCall", [("thoughtSignature 1/1", SIGNED)], False)]
        assert heard(stream(data)).snapshot(1).turn is None
        assert heard(b"[" + data + b"," + data + b"]").snapshot(1).turn is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"5",
        b"[]",
        b"[5]",
        b'{"candidates":[]}',
        b'{"candidates":[{"index":1,"content":{"parts":[{"text":"other"}]}}]}',
        b'{"candidates":[{"finishReason":"STOP"}]}',
        b'{"promptFeedback":{"blockReason":"SAFETY"}}',
        answer(),
        answer(said("Hm", thought=True)),
        answer({"thoughtSignature": SIG}),
    ],
)
def test_a_response_without_items_has_no_turn(data: bytes) -> None:
    """Also one of an unknown shape."""
    assert heard(data).snapshot(1).turn is None


def test_only_the_first_candidate_is_followed() -> None:
    """Parts after its end do not belong to the turn; the counts of tokens do."""
    late = b'{"usageMetadata":{"promptTokenCount":1},"candidates":[{"content":{"parts":[{}]}}]}'
    capture = heard(stream(answer(said("Hi")), late))

    assert capture.usage == Usage(input_tokens=1, output_tokens=0)
    turn = capture.snapshot(1).turn
    assert turn is not None
    assert len(turn.items) == 1


def test_an_error_ends_the_capture() -> None:
    """Also in the middle of a stream."""
    error = b'{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}'
    capture = heard(stream(chunk(said("Hi")), error, answer(said("late"))))

    assert (capture.has_failed, capture.error.code) == (True, "503")
    assert capture.snapshot(1).turn is None


def test_a_character_that_is_cut_by_the_stream_is_one() -> None:
    """A thought that is not valid Unicode is not kept."""
    first, last = chunk(said("cut1")), chunk(said("cut2"), reason="STOP")
    halves = stream(first, last).replace(b"cut1", rb"\ud83d").replace(b"cut2", rb"\ude00")
    turn, whole = heard(halves).snapshot(1).turn, heard(answer(said("\U0001f600"))).snapshot(1).turn
    assert turn is not None
    assert whole is not None
    assert turn.items[0].content == whole.items[0].content

    lone = said("lone", thought=True, thoughtSignature=SIG)
    damaged = answer(said("Hi"), lone).replace(b"lone", rb"\ud83d")
    assert shape(damaged) == [("message", [], False)]
