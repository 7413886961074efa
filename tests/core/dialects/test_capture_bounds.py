"""Bounds of a capture: all that it holds is counted, and more than the limit is given up."""

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from reasoning_replay.core.dialects.captures import Capture, Origin
from reasoning_replay.core.dialects.responses.capture import BLOBS_MAX, ResponsesCapture
from reasoning_replay.core.history.turns import Context

from tests.core.dialects.anthropic import streams as messages
from tests.core.dialects.chat import streams as chat
from tests.core.dialects.gemini import contents as gemini
from tests.core.streams import added, began, done, ended
from tests.core.world import answer, call, reasoning

MIB = 1 << 20
# The part of the memory that is counted: the estimates are for streams of any form.
COUNTED_MIN, COUNTED_MAX = 0.85, 3.0


def responses(max_bytes: int) -> Capture:
    """Return the capture of a response that has begun."""
    capture = ResponsesCapture(Origin(Context(is_known=True), "gpt-5.6"), max_bytes)
    capture.feed(began())
    return capture


def named(n: int) -> bytes:
    """Return an item with a long name, one character of which needs four bytes in memory."""
    return done(n, call(f"{n}", tool="\U0001f600" + "x" * 10_000))


def fragment(**members: object) -> bytes:
    """Return a chunk with a fragment of a call."""
    return chat.chunk({"tool_calls": [members]})


# Event number n of an endless stream, by what it is made of.
HOSTILE: dict[str, tuple[Callable[[int], Capture], Callable[[int], bytes]]] = {
    "responses: long names": (responses, named),
    "responses: long ids": (responses, lambda n: done(n, call(f"{n}") | {"id": f"{n}" * 4_000})),
    "responses: long call ids": (responses, lambda n: done(n, call("x", call_id=f"{n}" * 4_000))),
    "responses: long types": (responses, lambda n: done(n, {"type": f"{n}" * 4_000})),
    "responses: large items": (responses, lambda n: done(n, call("x", arguments="x" * 40_000))),
    "responses: small items": (responses, lambda n: done(n, {"type": "x"})),
    "responses: reasoning alone": (responses, lambda n: done(n, reasoning(f"{n}"))),
    "responses: a gap": (responses, lambda n: done(n + 1, call(f"{n}"))),
    "responses: begun items": (responses, lambda n: added(n, reasoning(f"{n}"))),
    "gemini: calls": (
        gemini.capture,
        lambda n: gemini.stream(gemini.chunk(gemini.call(f"{n}", call_id=f"c{n}"))),
    ),
    "gemini: pieces": (
        gemini.capture,
        lambda n: gemini.stream(gemini.chunk(*[gemini.said("a")] * 3)),
    ),
    "gemini: bare signatures": (
        gemini.capture,
        lambda n: gemini.stream(gemini.chunk(gemini.said("", thoughtSignature=f"{n}" * 99))),
    ),
    "chat: calls": (chat.capture, lambda n: fragment(index=n, id=f"call_{n}")),
    "chat: calls without an index": (chat.capture, lambda n: fragment(id=f"call_{n}")),
    "chat: members": (chat.capture, lambda n: fragment(index=0, **{f"member_{n}": 1})),
    "chat: details": (
        chat.capture,
        lambda n: chat.chunk({"reasoning_details": [chat.details("text", n, text="x")]}),
    ),
    "chat: members of a detail": (
        chat.capture,
        lambda n: chat.chunk({"reasoning_details": [chat.details("text", 0, **{f"m{n}": 1})]}),
    ),
    "chat: text": (chat.capture, lambda _: chat.chunk({"content": "x" * 1_000})),
    "messages: blocks": (messages.capture, lambda n: messages.start(n, {"type": "text"})),
    "messages: calls": (messages.capture, lambda n: messages.start(n, messages.call(f"{n}"))),
    "messages: one index": (messages.capture, lambda _: messages.start(0, {"type": "text"})),
    "messages: text": (
        messages.capture,
        lambda n: messages.start(0, {}) if not n else messages.delta(0, text="x" * 1_000),
    ),
}


def held(capture: Capture, event: Callable[[int], bytes], count: int) -> int:
    """Feed a capture, and return the memory that it holds more than before, in bytes."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for n in range(count):
            capture.feed(event(n))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("new", "event"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_stream_is_given_up(
    new: Callable[[int], Capture], event: Callable[[int], bytes]
) -> None:
    """No part of a stream can be repeated for ever, whatever it is."""
    capture = new(MIB)
    for n in range(20_000):
        capture.feed(event(n))
        if capture.gave_up:
            break
    assert capture.gave_up == "too_large"


@pytest.mark.parametrize(("new", "event"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_held_is_counted(
    new: Callable[[int], Capture], event: Callable[[int], bytes]
) -> None:
    """The estimate is near the memory that is really held, so it may be charged to a budget."""
    before = new(MIB)
    for n in range(10):  # caches, and what the count of lines remembers
        before.feed(event(n))
    capture = new(64 * MIB)
    begun = capture.held_bytes
    measured = held(capture, event, 400)
    assert COUNTED_MIN < (capture.held_bytes - begun) / measured < COUNTED_MAX


def test_endless_blobs_of_one_item_are_given_up() -> None:
    """An upstream sends up to three for an item; each is part of a record."""
    capture = responses(MIB)
    gave_up = []
    for n in range(BLOBS_MAX + 1):
        capture.feed(added(0, reasoning("1") | {"encrypted_content": f"gAAAA{n}"}))
        gave_up.append(capture.gave_up)
    assert gave_up == [""] * BLOBS_MAX + ["too_large"]


def test_nothing_is_kept_once_it_gave_up() -> None:
    """Later events cost nothing."""
    capture = responses(1_000)
    for n in range(4):
        capture.hear(done(n, call(f"{n}")).partition(b"data: ")[2])
    before = capture.held_bytes
    capture.hear(done(4, call("4")).partition(b"data: ")[2])
    assert (capture.gave_up, capture.held_bytes) == ("too_large", before)


_OUTPUT = [call(f"{n}") for n in range(200)]
_CALLS = [chat.call("f", "{}", n, f"call_{n}") for n in range(2_000)]
_BLOCKS = [messages.call("f", f"toolu_{n}") for n in range(1_000)]
LONG: dict[str, tuple[Callable[[int], Capture], bytes]] = {
    "responses: events": (responses, b"".join(done(n, item) for n, item in enumerate(_OUTPUT))),
    "responses: one event": (responses, ended(_OUTPUT)),
    "responses: JSON": (responses, answer(_OUTPUT, "resp_1")),
    "chat: one event": (chat.capture, chat.chunk({"tool_calls": _CALLS}, "tool_calls")),
    "chat: JSON": (chat.capture, chat.answer({"role": "assistant", "tool_calls": _CALLS})),
    "messages: events": (messages.capture, messages.stream(*_BLOCKS)),
    "messages: JSON": (messages.capture, messages.answer(*_BLOCKS)),
}


@pytest.mark.parametrize(("new", "told"), LONG.values(), ids=LONG)
def test_long_work_is_left_for_a_thread(new: Callable[[int], Capture], told: bytes) -> None:
    """The result is the same, and what is left counts as held."""
    capture, other = new(64 * MIB), new(64 * MIB)
    for one in (capture, other):
        if told.startswith(b"{"):
            one.read(told)
        else:
            one.feed(told)
        assert (one.is_behind, one.dirty) == (True, True)
        assert one.held_bytes > len(told) // 2
    capture.catch_up()
    assert (capture.is_behind, capture.dirty) == (False, True)
    assert capture.snapshot(1) == other.snapshot(1)
    capture.close()
    capture.catch_up()
    assert not capture.is_behind


@pytest.mark.parametrize("is_late", [False, True], ids=["at-once", "left-for-a-thread"])
@pytest.mark.parametrize(("new", "told"), LONG.values(), ids=LONG)
def test_a_capture_that_is_freed_holds_nothing(
    new: Callable[[int], Capture], told: bytes, is_late: bool
) -> None:
    """It has nothing to save and nothing to do, and keeps nothing that comes later."""
    capture = new(64 * MIB)
    if told.startswith(b"{"):
        capture.read(told)
    else:
        capture.feed(told)
    capture.feed(b"data: {" + b" " * 1000)
    if not is_late:
        capture.catch_up()
        capture.snapshot(1)
    assert capture.held_bytes > len(told) // 2
    usage = capture.usage
    capture.free()
    assert (capture.held_bytes, capture.is_behind, capture.dirty) == (0, False, False)
    assert capture.usage == usage
    capture.feed(told)
    capture.close()
    assert (capture.held_bytes, capture.dirty) == (0, False)
    assert capture.snapshot(1).part is None
    assert capture.gave_up == "freed"
