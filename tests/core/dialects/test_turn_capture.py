"""Turn capture: the laws of a response that is one turn, in every dialect that has them."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects import turn_capture
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Lesson, Turn

from tests.core.dialects.anthropic import streams as messages
from tests.core.dialects.chat import streams as chat
from tests.core.dialects.gemini import contents as gemini
from tests.fast_lane import examples

WORDS = st.text(max_size=8) | st.sampled_from(["message_stop", '"error"', "\n\n", "data: "])
SIGNED = {"thoughtSignature": gemini.SIG}


class Api(NamedTuple):
    """
    One API.

    Attributes:
        capture: Makes a capture.
        streams: Whole streams, without the event that ends the turn, and that event.
        said: Returns a whole stream with a text of this length.
        answer: Returns a JSON response with so many items.
    """

    capture: Callable[..., Capture]
    streams: st.SearchStrategy[tuple[bytes, bytes]]
    said: Callable[[int], bytes]
    answer: Callable[[int], bytes]


CHAT = st.lists(
    st.sampled_from(
        [
            {"reasoning_content": "Hm 😀"},
            {"reasoning_details": [chat.details("text", text="so", signature="Eg==")]},
            {"content": "It is\n\nsunny"},
            {"content": [{"type": "text", "text": "!"}]},
            {"tool_calls": [chat.call("a", "{", thought_signature="Eg==")]},
            {"tool_calls": [chat.call("", "}", call_id=None)]},
            {"tool_calls": [chat.call("b", index=None)]},
            None,
        ]
    ),
    max_size=8,
).map(lambda deltas: b"".join(map(chat.chunk, deltas)))
MESSAGES = st.lists(
    st.one_of(
        st.builds(messages.thought, WORDS, st.sampled_from(["Eg==", "", None])),
        st.just(messages.REDACTED),
        st.builds(messages.text, WORDS),
        st.builds(messages.call, st.sampled_from("ab"), x=WORDS),
    ),
    max_size=5,
).map(lambda blocks: messages.stream(*blocks).partition(b"event: message_delta")[0])
GEMINI = st.lists(
    st.sampled_from(
        [
            [gemini.said("Hm", thought=True)],
            [gemini.call(**SIGNED), gemini.call("Rome")],
            [gemini.said("Sunny "), gemini.said("day 😀")],
            [gemini.said("", **SIGNED)],
        ]
    ),
    max_size=5,
).map(lambda parts: gemini.stream(*(gemini.chunk(*one) for one in parts)))

APIS = {
    "chat": Api(
        chat.capture,
        st.tuples(CHAT, st.sampled_from(["stop", "length"]).map(partial(chat.chunk, None))),
        lambda size: chat.stream(*[{"content": "x" * 50}] * (size // 50)),
        lambda count: chat.answer({"role": "assistant", "tool_calls": [chat.call("f")] * count}),
    ),
    "messages": Api(
        messages.capture,
        st.tuples(MESSAGES, st.just(messages.ended(stops=False))),
        lambda size: messages.stream(messages.text("x" * size)),
        lambda count: messages.answer(*[messages.call("f")] * count),
    ),
    "gemini": Api(
        gemini.capture,
        st.tuples(GEMINI, st.just(gemini.stream(gemini.chunk(gemini.said("!"), reason="STOP")))),
        lambda size: gemini.stream(
            *[gemini.chunk(gemini.said("x" * 50))] * (size // 50), gemini.chunk(reason="STOP")
        ),
        lambda count: gemini.answer(*[gemini.call()] * count),
    ),
}
EVERY = pytest.mark.parametrize("api", APIS.values(), ids=APIS)


def fed(capture: Capture, pieces: Iterable[bytes]) -> Turn | None:
    """Return the turn of a stream in these pieces."""
    for piece in pieces:
        capture.feed(piece)
    capture.close()
    return capture.snapshot(1).turn


@EVERY
@given(data=st.data())
@examples(60)
def test_cutting_a_stream_anywhere_changes_nothing(api: Api, data: st.DataObject) -> None:
    """Nor do other line ends. The turn is ready before its last piece goes to the client."""
    begun, last = data.draw(api.streams)
    line_end = data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    whole = (begun + last).replace(b"\r", b"").replace(b"\n", line_end)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=20)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    one, other, bytewise = api.capture(), api.capture(), api.capture()
    turn = fed(one, pieces)

    assert turn == fed(other, [begun + last])
    assert turn == fed(bytewise, [whole[n : n + 1] for n in range(len(whole))])
    assert one.is_complete


@EVERY
@given(noise=st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
@examples(60)
def test_any_bytes_are_survived(api: Api, noise: bytes) -> None:
    """Whatever upstream sends raises nothing, in a stream, as an event or as a response."""
    capture = api.capture(200)
    fed(capture, [b"data: " + noise, b"\n\n" + noise])
    capture.read(noise)
    capture.hear(noise)
    assert capture.snapshot(1).turn is None


@EVERY
def test_a_turn_is_saved_before_the_client_gets_its_end(api: Api) -> None:
    """It is complete once upstream says how the response ended, also before the stream ends."""
    whole = api.said(100)
    capture = api.capture()
    at = next(n for n in range(len(whole)) if (capture.feed(whole[n : n + 1]), capture.dirty)[1])
    assert capture.is_complete
    assert whole[:at].count(b"x") >= 100
    assert capture.snapshot(1).turn is not None
    assert fed(capture, [whole[at + 1 :]]) is None


@EVERY
def test_a_cure_drops_the_recorded_decisions(api: Api) -> None:
    """Upstream did not see them, before and after the end of the response."""
    early, late, plain = (api.capture(seen=Seen(b"", 0, ()), binding=b"p" * 16) for _ in range(3))
    lessons = (Lesson("blob"),)
    early.note_cure(b"", lessons)
    for capture in (early, late, plain):
        capture.feed(api.said(50))
    late.note_cure(b"", lessons)
    turns = [capture.snapshot(1).turn for capture in (early, late, plain)]
    assert [turn is not None and turn.seen is None for turn in turns] == [True, True, False]
    assert [turn is not None and not turn.binding for turn in turns] == [True, True, False]
    assert [turn is not None and turn.lessons for turn in turns] == [lessons, lessons, ()]


@EVERY
def test_an_unrequested_response_has_no_history(api: Api) -> None:
    """These APIs have none; the interface asks for one."""
    successor = api.capture().successor()
    assert (successor.context.is_known, successor.conversation) == (False, b"")


@EVERY
def test_the_size_of_a_batch_changes_nothing(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most pieces are not parsed at once, but when a batch is full, and at the end."""
    whole = api.said(3000)
    capture = api.capture()
    capture.feed(whole[:200])
    assert capture.held_bytes > 200
    want = fed(api.capture(), [whole])
    monkeypatch.setattr(turn_capture, "BATCH_BYTES", 500)
    assert fed(api.capture(), [whole[n : n + 40] for n in range(0, len(whole), 40)]) == want


@EVERY
def test_a_response_over_the_limit_is_not_followed(api: Api) -> None:
    """One event is too long, or all of a stream or a JSON response; then nothing is kept."""
    long_event, long_total, plain, many, small = (
        api.capture(size) for size in (100, 2000, 2000, 30_000, 30_000)
    )
    fed(long_event, [api.said(1000)])
    fed(long_total, [api.said(4000)])
    plain.read(api.answer(40))
    many.read(api.answer(60))
    small.read(api.answer(9))
    for capture in (plain, many, small):
        capture.catch_up()

    reasons = [one.gave_up for one in (long_event, long_total, plain, many, small)]
    assert reasons == ["frame_too_long", "too_large", "too_large", "too_large", ""]
    for capture in (long_event, long_total, plain, many):
        assert fed(capture, [api.said(50)]) is None
