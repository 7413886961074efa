"""Capture: a completion becomes a turn, the same from a stream in any pieces and from JSON."""

import json
from typing import Any

import pytest
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.turns import Context, Turn

from tests.core.dialects.chat.streams import (
    DONE,
    answer,
    call,
    capture,
    chunk,
    details,
    ended,
    stream,
    turn_of,
)
from tests.core.streams import heard

SIGNED = {"google": {"thought_signature": "Eg=="}}


def shape(turn: Turn | None) -> list[tuple[str, list[str], bool]]:
    """Return the type of each item, the reasoning before it, and whether it is withheld."""
    assert turn is not None
    return [
        (item.type, [part.raw.decode() for part in item.run], item.withheld) for item in turn.items
    ]


def whole_of(pieces: bytes) -> Turn:
    """Return the turn of a response that has one."""
    turn = turn_of(pieces)
    assert turn is not None
    return turn


def test_reasoning_belongs_to_the_first_item() -> None:
    """Members of the message come before its first item, those of a call before the call."""
    calls = [call("a", extra_content=SIGNED), call("b", thought_signature="Eh==")]
    message: dict[str, Any] = {
        "role": "assistant",
        "reasoning": None,
        "reasoning_content": "Hm",
        "content": "Both.",
        "tool_calls": calls,
        "extra_content": {},
    }
    turn = turn_of(answer(message))

    assert shape(turn) == [
        ("message", ['"reasoning_content":"Hm"'], False),
        ("function_call", ['"extra_content":{"google": {"thought_signature": "Eg=="}}'], False),
        ("function_call", ['"thought_signature":"Eh=="'], False),
    ]
    assert turn is not None
    assert [part.has_blob for item in turn.items for part in item.run] == [False, True, True]
    assert (turn.models, turn.is_stored, turn.created_ms) == (("glm-5",), False, 1)
    assert turn.conversation == turn.id


def test_both_forms_of_a_response_have_the_same_items() -> None:
    """A stream has one member in many deltas."""
    entry = details("text", text="Hm so", signature="Eg==")
    message = {
        "role": "assistant",
        "content": "Sunny – fine",  # noqa: RUF001
        "reasoning_details": [entry],
        "tool_calls": [call("a", '{"x":1}')],
    }
    streamed = whole_of(
        stream(
            {"reasoning_details": [details("text", text="Hm", signature="")]},
            {"reasoning_details": [details("text", text=" so", signature="Eg==")]},
            {"content": "Sunny –"},  # noqa: RUF001
            {"content": " fine"},
            {"tool_calls": [call("a", "")]},
            {"tool_calls": [call("", '{"x":1}', call_id=None)]},
        )
    )
    whole = whole_of(answer(message))

    assert [i.content for i in streamed.items] == [i.content for i in whole.items]
    (one,), (other,) = streamed.items[0].run, whole.items[0].run
    assert json.loads("{" + one.raw.decode() + "}") == json.loads("{" + other.raw.decode() + "}")
    assert one.blobs == other.blobs


def test_a_turn_without_reasoning_is_known() -> None:
    """It is a turn with nothing to inject, and not a miss."""
    assert shape(turn_of(stream({"content": "Hi"}))) == [("message", [], False)]


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "tool_call", "function_call"])
def test_a_turn_is_complete_at_the_first_reason_to_finish(finish: str) -> None:
    """It is to be saved before the client gets that chunk; a later delta changes nothing."""
    captured = capture()
    captured.feed(chunk({"reasoning": "Hm"}))
    captured.feed(chunk({"content": "Hi"}))
    before = captured.dirty, captured.snapshot(1).turn
    captured.feed(chunk({"content": "!"}, finish))
    assert (before, captured.dirty) == ((False, None), True)

    snapshot = captured.snapshot(5)
    captured.feed(chunk({"content": "more"}, "stop", usage={"prompt_tokens": 3}) + DONE)
    captured.close()

    assert snapshot.status == finish
    assert not captured.dirty
    assert captured.snapshot(9).part is None
    assert (captured.reasoning_items, captured.reasoning_bytes) == (1, len('"reasoning":"Hm"'))
    assert captured.usage == Usage(input_tokens=3)
    assert (captured.response_id, captured.model, captured.has_failed) == (
        "chatcmpl-1",
        "glm-5",
        False,
    )


@pytest.mark.parametrize(
    "finish",
    [
        *("length", "max_tokens", "MAX_TOKENS", "model_length", "content_filter"),
        *("insufficient_system_resource", "sensitive", "network_error", "abort"),
    ],
)
def test_the_last_item_of_a_cut_response_is_unfinished(finish: str) -> None:
    """Its reasoning is withheld; items before it are whole."""
    call_of = {"tool_calls": [call("a", '{"x', extra_content=SIGNED)]}
    text = {"reasoning": "Hm", "content": "I look"}

    assert shape(turn_of(stream(text, reason=finish))) == [("message", [], True)]
    assert shape(turn_of(stream(text, call_of, reason=finish))) == [
        ("message", ['"reasoning":"Hm"'], False),
        ("function_call", [], True),
    ]
    assert shape(turn_of(stream({"content": "Hi"}, reason=finish))) == [("message", [], False)]
    assert turn_of(stream({"reasoning": "Hm"}, reason=finish)) is None


@pytest.mark.parametrize(
    "failed",
    [
        chunk({"content": "Hi"}) + chunk(finish="error") + DONE,
        chunk({"content": "Hi"}) + chunk(error={"code": 502}) + ended(),
        chunk({"content": "Hi"}) + b'event: error\ndata: {"error":{"message":"x"}}\n\n' + DONE,
        b'{"error":{"message":"x"},"choices":[{"message":{"content":"Hi"}}]}',
        b'{"choices":[{"message":{"role":"assistant","content":"Hi"},"finish_reason":"error"}]}',
    ],
)
def test_a_failed_response_is_no_turn(failed: bytes) -> None:
    """An error may come within a 200."""
    captured = heard(capture(), failed)

    assert captured.snapshot(1).turn is None
    assert captured.has_failed
    assert captured.error.code == ("502" if b"502" in failed else "")
    assert not captured.dirty


def test_a_failed_response_is_not_held() -> None:
    """What it emitted can lead to nothing, while the stream may go on."""
    captured = capture()

    captured.feed(chunk({"content": "Hi"}) + chunk(finish="error") + DONE)

    assert captured.has_failed
    assert captured.held_bytes == 0


@pytest.mark.parametrize(
    "unfinished",
    [
        chunk({"content": "Hi"}),
        DONE,
        b": comment\n\n\n\n",
        b"data: nonsense\n\n" + DONE,
        chunk({"content": "Hi"}, index=1) + chunk(finish="stop", index=1),
        chunk({"content": "Hi"}, index=1) + chunk(finish="stop"),
        b"[]",
        b'{"choices":[]}',
        b'{"choices":[{"index":0}]}',
        b'[{"error":{"code":400}}]',
    ],
)
def test_nothing_is_kept_of_what_is_not_a_whole_message(unfinished: bytes) -> None:
    """A stream that breaks off, other choices, and other documents are no turn."""
    captured = heard(capture(), unfinished)

    assert captured.snapshot(1).turn is None
    assert not captured.has_failed


@pytest.mark.parametrize(
    "noisy",
    [
        b": OPENROUTER PROCESSING\n\n" + stream({"content": "Hi"}),
        b"\n\n\r\n" + stream({"content": "Hi"}),
        stream({"content": "Hi"}).replace(b"\n", b"\r\n"),
        stream({"content": "Hi"}).replace(b'": ', b'":'),
        chunk({"content": "Hi"}, "") + chunk(finish="") + DONE,
        chunk({"content": "Hi"}) + chunk(choices=[]) + chunk(finish="stop"),
        chunk({"content": "Hi"}) + chunk(finish="stop").rstrip(),
        chunk({"content": "no"}, "stop", 1) + stream({"content": "Hi"}),
    ],
)
def test_noise_in_a_stream_changes_nothing(noisy: bytes) -> None:
    """Comments, blank lines, other line ends, empty choices, and a missing reason or `[DONE]`."""
    (item,) = whole_of(noisy).items
    assert item.content == whole_of(stream({"content": "Hi"})).items[0].content


@pytest.mark.parametrize("reason", [None, "", "stop"])
def test_a_json_response_needs_no_reason(reason: str | None) -> None:
    """Snowflake sends an empty one."""
    assert turn_of(b"\n   \n" + answer({"role": "assistant", "content": "Hi"}, reason)) is not None


@pytest.mark.parametrize("value", [b'"\\ud83d"', b'"\xff"'], ids=["lone surrogate", "not UTF-8"])
def test_reasoning_that_would_damage_a_request_is_withheld(value: bytes) -> None:
    """The turn is known, but its reasoning is never injected."""
    message = b'{"role":"assistant","content":"Hi","reasoning":%b}' % value
    whole = b'{"id":"c","choices":[{"message":%b}]}' % message
    streamed = b'data: {"id":"c","choices":[{"delta":%b}]}\n\n' % message + ended()

    for given_as in (whole, streamed):
        assert shape(turn_of(given_as)) == [("message", [], True)]


def test_reasoning_that_occurs_twice_is_withheld() -> None:
    """Readers disagree on which of two equal keys wins."""
    message = b'{"role":"assistant","content":"Hi","reasoning":"a","reasoning":"b"}'
    turn = turn_of(b'{"choices":[{"message":%b}]}' % message)
    assert shape(turn) == [("message", [], True)]


def test_a_broken_character_is_no_reason_to_lose_the_turn() -> None:
    """Text with a lone surrogate is compared as its readable form."""
    message = b'{"role":"assistant","content":"Hi \\ud83d","reasoning":"a"}'
    turn = turn_of(b'{"choices":[{"message":%b}]}' % message)
    assert shape(turn) == [("message", ['"reasoning":"a"'], False)]


def test_ids_that_repeat_do_not_join_turns() -> None:
    """Local servers may give every response one id and one second."""
    ids = [whole_of(stream({"content": text})).id for text in ("Hi", "Ho", "Hi")]
    later = whole_of(stream({"content": "Hi"}).replace(b"17", b"18")).id

    assert ids[0] == ids[2] != ids[1]
    assert later not in ids


@pytest.mark.parametrize(
    ("more", "is_unknown"),
    [
        ({"reasoning_details": [details("text", signature="Eg==")]}, False),
        ({"annotations": [{"url": 'https://a/?signature="x"'}], "signature": ""}, False),
        ({"encrypted_content": "gAAAA"}, True),
        ({"thoughts": {"new_signatures": ["Eg=="]}}, True),
    ],
)
def test_what_looks_signed_in_an_unknown_place_is_noted(
    more: dict[str, Any], is_unknown: bool
) -> None:
    """In both forms of a response."""
    for pieces in (
        answer({"role": "assistant", "content": "Hi", "tool_calls": [call("a")], **more}),
        stream({"content": "Hi"}, more, {"tool_calls": [call("a")]}),
    ):
        capture = ChatCapture(Origin(Context(), "glm-5"), 1 << 20)
        heard(capture, pieces)
        assert capture.has_unknown_carrier is is_unknown


def test_usage_is_read_as_this_api_names_it() -> None:
    """An empty usage in a chunk does not replace the counts."""
    captured = capture()
    used = {
        "prompt_tokens": 9,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    captured.feed(chunk(usage=None) + chunk(usage=used) + chunk(usage={"x": 1}) + ended())
    captured.close()
    assert captured.usage == Usage(9, 4, 5, 3)
