"""Laws of cost of captures: an item costs the same as the first and as the thousandth."""

from collections.abc import Callable
from typing import Any

import pytest
from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of_part
from reasoning_replay.core.history.turns import Context

from tests.core.costs import assert_linear
from tests.core.dialects.anthropic import streams as messages
from tests.core.dialects.chat import streams as chat
from tests.core.dialects.gemini import contents as gemini
from tests.core.streams import began, done, ended
from tests.core.world import Item, answer, call, drawn, reasoning


def saved(capture: Capture) -> None:
    """Take everything new from a capture, as a save does."""
    while capture.dirty:
        part = capture.snapshot(1, 64).part
        if part is not None:
            records_of_part(part)
            keys_of_turn(part.turn)


def responses_capture() -> Capture:
    """Return the capture of a response."""
    return ResponsesCapture(Origin(Context(is_known=True), "gpt-5.6"), 1 << 30)


def responses(size: int) -> list[Item]:
    """Return the output of a response: reasoning and calls in turn."""
    pairs = ((reasoning(f"{n}"), call(f"{n}")) for n in range(size // 2))
    return [item for pair in pairs for item in pair]


def blocks(size: int) -> list[dict[str, Any]]:
    """Return the content of a message: thoughts and calls in turn."""
    pairs = (
        (messages.thought("Hm", f"Eg{n}=="), messages.call(f"tool{n}", f"toolu_{drawn(n)}"))
        for n in range(size // 2)
    )
    return [block for pair in pairs for block in pair]


def pieces(size: int) -> list[bytes]:
    """Return the chunks of an answer: pieces of a text, bare signatures and calls in turn."""
    signed = {"thoughtSignature": "Eg=="}
    return [
        gemini.chunk(gemini.said("a"), gemini.said("", **signed), gemini.call(f"{n}", **signed))
        for n in range(size // 3)
    ]


def calls(size: int) -> list[dict[str, Any]]:
    """Return tool calls, each with reasoning of its own."""
    signed = {"extra_content": {"google": {"thought_signature": "Eg=="}}}
    return [chat.call("f", "{}", n, f"call_{drawn(n)}", **signed) for n in range(size)]


def each_alone(size: int) -> list[bytes]:
    """Return a stream with an event for each item."""
    return [began(), *(done(n, item) for n, item in enumerate(responses(size))), ended([])]


def repeated(size: int) -> list[bytes]:
    """Return a stream whose last event repeats all items, with other blobs."""
    again = [item | {"encrypted_content": "gAAAAlast"} for item in responses(size)]
    return [*each_alone(size)[:-1], ended(again)]


def unnumbered(size: int) -> list[bytes]:
    """Return a stream in which all items have the same index."""
    return [began(), *(done(0, item) for item in responses(size)), ended([])]


def gap(size: int) -> list[bytes]:
    """Return a stream whose first item comes last."""
    first, *others = (done(n, item) for n, item in enumerate(responses(size)))
    return [began(), *others, first, ended([])]


def endings(size: int) -> list[bytes]:
    """Return a stream with many last events."""
    return [*each_alone(size), *[ended([])] * size]


STREAMS: dict[str, tuple[Callable[[], Capture], Callable[[int], list[bytes]]]] = {
    "responses: each item alone": (responses_capture, each_alone),
    "responses: one chunk": (responses_capture, lambda size: [b"".join(each_alone(size))]),
    "responses: one event": (responses_capture, lambda size: [began(), ended(responses(size))]),
    "responses: JSON": (responses_capture, lambda size: [answer(responses(size), "resp_1")]),
    "responses: repeated": (responses_capture, repeated),
    "responses: unnumbered": (responses_capture, unnumbered),
    "responses: a gap": (responses_capture, gap),
    "responses: many ends": (responses_capture, endings),
    "chat: each item alone": (
        lambda: chat.capture(1 << 30),
        lambda size: [*(chat.chunk({"tool_calls": [one]}) for one in calls(size)), chat.ended()],
    ),
    "chat: one event": (
        lambda: chat.capture(1 << 30),
        lambda size: [chat.chunk({"tool_calls": calls(size)}, "tool_calls")],
    ),
    "chat: JSON": (
        lambda: chat.capture(1 << 30),
        lambda size: [chat.answer({"role": "assistant", "tool_calls": calls(size)})],
    ),
    "gemini: each item alone": (
        lambda: gemini.capture(1 << 30),
        lambda size: [*map(gemini.stream, pieces(size)), gemini.stream(gemini.answer())],
    ),
    "gemini: one chunk": (
        lambda: gemini.capture(1 << 30),
        lambda size: [gemini.stream(*pieces(size), gemini.answer())],
    ),
    "gemini: JSON": (
        lambda: gemini.capture(1 << 30),
        lambda size: [b"[" + b",".join([*pieces(size), gemini.answer()]) + b"]"],
    ),
    "messages: each item alone": (
        lambda: messages.capture(1 << 30),
        lambda size: [
            messages.started(),
            *(messages.pieces_of(n, block) for n, block in enumerate(blocks(size))),
            messages.ended(),
        ],
    ),
    "messages: one chunk": (
        lambda: messages.capture(1 << 30),
        lambda size: [messages.stream(*blocks(size))],
    ),
    "messages: JSON": (
        lambda: messages.capture(1 << 30),
        lambda size: [messages.answer(*blocks(size))],
    ),
}


@pytest.mark.parametrize(("new", "stream"), STREAMS.values(), ids=STREAMS)
def test_a_response_is_captured_in_linear_time(
    new: Callable[[], Capture], stream: Callable[[int], list[bytes]]
) -> None:
    """An item costs the same as the first and as the last, also if each is saved alone."""

    def run(chunks: list[bytes]) -> None:
        capture = new()
        for chunk in chunks:
            if chunk.startswith((b"{", b"[")):
                capture.read(chunk)
            else:
                capture.feed(chunk)
            saved(capture)
        capture.close()
        saved(capture)

    assert_linear(stream, run, 400)
