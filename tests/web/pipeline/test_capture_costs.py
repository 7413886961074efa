"""Costs of capture through the app: linear in the items, and never long on the event loop."""

import copy
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import VersionChange
from reasoning_replay.core.dialects.anthropic.capture import MessagesCapture
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture

from tests.core.costs import GROWTH_MAX
from tests.core.dialects.anthropic import streams as blocks
from tests.core.dialects.chat import streams as completions
from tests.core.world import call, drawn, reasoning
from tests.web.chat.completions import chat
from tests.web.line import line_to
from tests.web.messages.exchanges import ASK as SAID
from tests.web.messages.exchanges import send
from tests.web.scripted import Script, Step, wait
from tests.web.scripted import send as send_bytes
from tests.web.wire import ASK, END, Item, as_json, chunk, events, response, stream_head
from tests.web.wire import whole as json_of
from tests.web.world import MODEL, World, post, world

ITEMS = 300
MANY = 1_000
ROUNDS = 2
ATTEMPTS = 3


def output(count: int) -> list[Item]:
    """Return reasoning and calls in turn."""
    pairs = ((reasoning(f"{n}"), call(f"{n}")) for n in range(count // 2))
    return [item for pair in pairs for item in pair]


async def cpu_s(w: World, count: int) -> float:
    """Return the CPU time of a streamed response, on the event loop of all three sides."""
    told = events(*output(count))
    steps: list[Step] = [step for event in told for step in (wait(), send_bytes(chunk(event)))]
    script = Script([send_bytes(stream_head()), *steps, send_bytes(END)])
    w.upstream.plays(script)
    async with line_to(w.app.url) as line:
        began_s = time.thread_time()
        await line.send(post({"model": MODEL, "input": [ASK]}))
        for number, event in enumerate(told):  # one by one, so that no two events share a chunk
            script.go()
            if not number:
                await line.head()
            assert await line.exactly(len(event)) == event
        await line.rest()
        return time.thread_time() - began_s


async def test_an_item_costs_the_same_as_the_first_and_as_the_last() -> None:
    """Each item is a chunk of its own, and is saved before the client gets it."""
    ratios = []
    async with world() as w:
        await cpu_s(w, ITEMS)
        for _ in range(ATTEMPTS):
            times = [(await cpu_s(w, ITEMS), await cpu_s(w, 2 * ITEMS)) for _ in range(ROUNDS)]
            ratios.append(min(of[1] for of in times) / min(of[0] for of in times))
            if ratios[-1] <= GROWTH_MAX:
                break
        assert min(ratios) <= GROWTH_MAX, ratios
        assert w.counted("captures_total", result="saved") >= 1 + 2 * ROUNDS


async def to_responses(w: World) -> None:
    """Request a response."""
    await w.turn(ASK)


async def to_chat(w: World) -> None:
    """Request a completion."""
    await chat(w, {"role": "user", "content": "Hi"})


async def to_messages(w: World) -> None:
    """Request a message."""
    await send(w, SAID)


def streamed(*chunks: bytes) -> bytes:
    """Return a stream of these chunks."""
    return stream_head() + b"".join(map(chunk, chunks)) + END


_CALLS = [completions.call("f", "{}", n, f"call_{drawn(n)}") for n in range(MANY)]
_BLOCKS = [blocks.call("f", f"toolu_{drawn(n)}") for n in range(MANY)]
_ALL = events(*output(MANY))
_ENDED = as_json({"type": "response.completed", "response": response(*output(MANY))})
LONG = {
    "one event": (to_responses, ResponsesCapture, streamed(b"data: " + _ENDED + b"\n\n")),
    "one chunk": (to_responses, ResponsesCapture, streamed(b"".join(_ALL))),
    "JSON": (to_responses, ResponsesCapture, json_of(as_json(response(*output(MANY))))),
    "chat, one event": (
        to_chat,
        ChatCapture,
        streamed(completions.chunk({"tool_calls": _CALLS}, "tool_calls")),
    ),
    "chat, many events": (
        to_chat,
        ChatCapture,
        streamed(completions.stream(*({"tool_calls": [one]} for one in _CALLS))),
    ),
    "chat, JSON": (
        to_chat,
        ChatCapture,
        json_of(completions.answer({"role": "assistant", "tool_calls": _CALLS})),
    ),
    "messages, many events": (to_messages, MessagesCapture, streamed(blocks.stream(*_BLOCKS))),
    "messages, JSON": (to_messages, MessagesCapture, json_of(blocks.answer(*_BLOCKS))),
}


@pytest.mark.parametrize(("ask", "kind", "answer"), LONG.values(), ids=LONG)
async def test_long_work_is_not_done_on_the_event_loop(
    ask: Callable[[World], Awaitable[None]],
    kind: type[Capture],
    answer: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread reads what is long, and saves are of a bounded size."""
    threads: set[threading.Thread] = set()
    sizes: list[int] = []
    catch_up = kind.catch_up

    def watched(capture: Capture) -> None:
        if capture.is_behind:
            threads.add(threading.current_thread())
        catch_up(capture)

    async def save(
        name: tuple[bytes, bytes], records: Mapping[bytes, bytes], *more: Any, **given: Any
    ) -> VersionChange:
        sizes.append(len(records))
        return await inner.save(name, records, *more, **given)

    monkeypatch.setattr(kind, "catch_up", watched)
    async with world(has_store=True) as w:
        inner = copy.copy(w.store)
        monkeypatch.setattr(w.store, "save", save)
        w.upstream.answers(answer)
        await ask(w)
        assert w.counted("captures_total", result="saved") == 1
    assert threads
    assert threading.main_thread() not in threads
    assert sum(sizes) > MANY // 2
    assert max(sizes) < 256
