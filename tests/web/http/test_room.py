"""Room for long bodies: reserved before they are read, after a bounded wait, in fair turns."""

import asyncio
import contextlib
import gc
from collections import Counter
from unittest.mock import Mock

import pytest
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.web import memory_budget
from reasoning_replay.web.pipeline import request_body

from tests.patience import SOON_S
from tests.web.line import Answer, line_to, request
from tests.web.scripted import Script, close, send, wait
from tests.web.sockets import tunnelled
from tests.web.websocket.creates import create, told
from tests.web.wire import (
    ASK,
    CALL,
    END,
    RESULT,
    RS,
    as_json,
    chunk,
    events,
    response,
    stream_head,
    whole,
)
from tests.web.world import MODEL, World, eventually, post, world

LONG_BYTES = 300_000
ROOM_BYTES = 4_000_000
# A sixteenth is for short bodies only.
FIT = ROOM_BYTES * 15 // 16 // (LONG_BYTES + 100)
OK = whole(b"{}")
DECIDED, BUSY = "injected=0", "injected=0, asked=busy"


def question(size: int = LONG_BYTES) -> bytes:
    """Return a request of about this size."""
    return as_json({"model": MODEL, "input": [ASK | {"content": "x" * size}]})


def key(name: str) -> str:
    """Return the header of a tenant."""
    return f"Authorization: Bearer sk-{name}"


def used(w: World) -> float:
    """Return the bytes that are held."""
    return w.counted("memory_budget_used_bytes")


async def marks(w: World, count: int, name: str = "a") -> "list[asyncio.Task[Answer]]":
    """Begin long requests of one tenant."""
    return [asyncio.ensure_future(w.ask(post(question(), key(name)))) for _ in range(count)]


async def test_as_many_as_fit_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no request ends, exactly as many as fit are decided; the rest passes after the wait."""
    monkeypatch.setattr(memory_budget, "WAIT_S", 0.5)
    count = 2 * FIT
    scripts = [Script([wait(), send(OK)]) for _ in range(count)]
    async with world(inspect_total_max_bytes=ROOM_BYTES, include="never") as w:
        w.upstream.plays(*scripts)
        running = await marks(w, count)
        await eventually(lambda: all(script.arrived.is_set() for script in scripts))
        assert 0 <= ROOM_BYTES - used(w) < ROOM_BYTES // 16 + LONG_BYTES + 100
        for script in scripts:
            script.go()
        got = Counter(answer.mark for answer in await asyncio.gather(*running))
        assert got == {DECIDED: FIT, BUSY: count - FIT}
        assert w.counted("requests_total", result="busy") == count - FIT
        assert used(w) == 0
        assert {len(received.body) for received in w.upstream.received} == {len(question())}


async def test_all_are_decided_if_room_becomes_free() -> None:
    """If upstream answers, many times the room is decided, one after the other."""
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w:
        w.upstream.otherwise = OK
        got = await asyncio.gather(*await marks(w, 4 * FIT))
        assert Counter(answer.mark for answer in got) == {DECIDED: 4 * FIT}
        assert used(w) == 0


async def test_an_edited_body_is_held_once() -> None:
    """A body to which something is added holds its own bytes and the added ones, not two copies."""
    script = Script([wait(), send(OK)])
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w:
        w.upstream.plays(script)
        body = question(2_000_000)[:-1] + b',"store":false}'
        running = asyncio.ensure_future(w.post(body))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        assert w.upstream.received[0].body != body  # `include` was added
        assert len(body) < used(w) < len(body) + 200
        script.go()
        assert (await running).mark == DECIDED
        assert used(w) == 0


async def test_short_bodies_do_not_wait_for_long_ones() -> None:
    """While long bodies fill the room and others wait for it, a short one is decided at once."""
    scripts = [Script([wait(), send(OK)]) for _ in range(FIT)]
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w:
        w.upstream.plays(*scripts)
        running = await marks(w, FIT + 2)
        await eventually(lambda: all(script.arrived.is_set() for script in scripts))
        w.upstream.otherwise = OK
        assert (await w.turn(ASK)).mark == DECIDED
        assert not any(task.done() for task in running)
        for script in scripts:
            script.go()
        got = await asyncio.gather(*running)
        assert {answer.mark for answer in got} == {DECIDED}


@pytest.mark.usefixtures("leaves_at_once")
async def test_turns_go_round_between_tenants() -> None:
    """A tenant that comes last is next after one request of the tenant that fills the room."""
    scripts = [Script([wait(), send(OK)]) for _ in range(FIT + 3)]
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w:
        w.upstream.plays(*scripts)
        first = await marks(w, FIT + 6)
        await eventually(scripts[FIT - 1].arrived.is_set)
        (other,) = await marks(w, 1, "b")
        await eventually(lambda: w.app.handler.admission.count == FIT + 7)
        for n in range(3):
            scripts[n].go()
            await asyncio.wait_for(scripts[FIT + n].arrived.wait(), SOON_S)
        keys = [received.values("authorization")[0] for received in w.upstream.received]
        assert "Bearer sk-b" in keys[FIT:]
        for task in (*first, other):
            task.cancel()
        await asyncio.gather(*first, other, return_exceptions=True)
        await eventually(lambda: used(w) == 0)


async def test_an_announced_body_that_does_not_come_gives_its_room_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Clients that announce long bodies and send nothing do not block other tenants."""
    monkeypatch.setattr(request_body, "QUIET_S", 0.1)
    head = request("POST", "/v1/responses", key("x"), "Content-Length: 3000000")
    async with contextlib.AsyncExitStack() as stack:
        w = await stack.enter_async_context(world(inspect_total_max_bytes=ROOM_BYTES))
        w.upstream.otherwise = OK
        for _ in range(3):
            line = await stack.enter_async_context(line_to(w.app.url))
            await line.send(head + b"{")
        await eventually(lambda: w.app.handler.admission.count == 3)
        assert used(w) == 3_000_000
        got = await w.ask(post(question(1_000_000), key("b")))
        assert got.mark == DECIDED


async def test_a_body_that_trickles_gives_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that is not complete in time makes room for others, and passes whole."""
    monkeypatch.setattr(request_body, "COMPLETE_S", 0.2)
    body = question(3_000_000)
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w, line_to(w.app.url) as slow:
        w.upstream.otherwise = OK
        head = request("POST", "/v1/responses", key("x"), f"Content-Length: {len(body)}")
        await slow.send(head + body[:1000])
        await eventually(lambda: used(w) == len(body))
        (other,) = await marks(w, 1, "b")
        big = asyncio.ensure_future(w.ask(post(question(2_000_000), key("b"))))
        for n in range(1000, 30_000, 1000):
            await slow.send(body[n : n + 1000])
            await asyncio.sleep(0.02)
        await slow.send(body[30_000:])
        assert Answer(await slow.head(), await slow.rest()).mark == BUSY
        assert (await other).mark == DECIDED
        assert (await big).mark == DECIDED
        assert max(len(r.body) for r in w.upstream.received) == len(body)
        assert used(w) == 0


async def test_the_wait_is_no_silence_of_the_client() -> None:
    """A request may wait longer than `client_timeout_s`, and is then decided."""
    script = Script([wait(), send(OK)])
    async with world(inspect_total_max_bytes=ROOM_BYTES, client_timeout_s=0.5) as w:
        w.upstream.plays(script)
        first = asyncio.ensure_future(w.ask(post(question(3_000_000), key("a"))))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        w.upstream.otherwise = OK
        waiting = asyncio.ensure_future(w.ask(post(question(1_000_000), key("b"))))
        await asyncio.sleep(1)
        assert not waiting.done()
        script.go()
        assert (await first).mark == DECIDED
        assert (await waiting).mark == DECIDED


async def test_a_client_that_leaves_while_it_waits_holds_nothing() -> None:
    """A client that left gets no response when its turn has come, and its room is free."""
    script = Script([wait(), send(OK)])
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w:
        w.upstream.plays(script)
        first = asyncio.ensure_future(w.ask(post(question(3_000_000), key("a"))))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        async with line_to(w.app.url) as leaving:
            await leaving.send(post(question(100_000) * 10, key("b")))
            await eventually(lambda: w.app.handler.budget.is_contended)
        w.upstream.otherwise = OK
        script.go()
        assert (await first).mark == DECIDED
        await eventually(lambda: w.app.handler.admission.count == 0)
        assert used(w) == 0


@pytest.mark.parametrize("states_length", [True, False])
async def test_a_response_without_room_is_not_captured(states_length: bool) -> None:
    """A JSON response takes room while it is captured; without room it passes, and is counted."""
    body = as_json(response(RS, CALL) | {"instructions": "x" * 1_000_000})
    framed = whole(body)
    if not states_length:
        framed = (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body
        )
    script = Script([wait(), send(OK)])
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w:
        w.upstream.plays(script)
        first = asyncio.ensure_future(w.ask(post(question(3_400_000), key("a"))))
        await asyncio.wait_for(script.arrived.wait(), SOON_S)
        w.upstream.plays(Script([send(framed), close()]))
        assert (await w.turn(ASK)).body == body
        await eventually(lambda: w.counted("captures_total", result="busy") == 1)
        script.go()
        await first
        w.upstream.plays(Script([send(framed), close()]))
        assert (await w.turn(ASK)).body == body
        await eventually(lambda: w.counted("captures_total", result="saved") == 1)
        assert used(w) == 0
        w.upstream.otherwise = OK
        await w.turn(ASK, CALL, RESULT)
        assert w.sent()["input"] == [ASK, RS, CALL, RESULT]


async def test_a_capture_that_fails_is_freed_at_once() -> None:
    """While the rest of a stream passes, nothing of it is held, and nothing is counted."""
    large = events(RS | {"encrypted_content": "y" * 900_000}, CALL)
    script = Script([send(stream_head() + chunk(b"".join(large[:3]))), wait(), send(END)])
    async with world(inspect_max_bytes=500_000) as w, line_to(w.app.url) as line:
        w.upstream.plays(script)
        await line.send(post(question(10)))
        await line.head()
        await line.exactly(len(b"".join(large[:3])))
        assert used(w) == 0
        captures = [one for one in gc.get_objects() if isinstance(one, ResponsesCapture)]
        assert captures
        assert not any(one.held_bytes for one in captures)
        script.go()
        await line.rest()
        await eventually(lambda: w.counted("captures_total", result="too_large") == 1)


@pytest.mark.parametrize(("size", "result"), [(200_000, "saved"), (900_000, "busy")])
async def test_the_capture_of_a_websocket_takes_room(size: int, result: str) -> None:
    """It is counted while its response runs; without room, the messages pass uncaptured."""
    *first, last = told(RS | {"encrypted_content": "y" * size}, CALL)
    async with world(inspect_total_max_bytes=1_000_000) as w, tunnelled(w) as (client, upstream):
        await client.send(create(ASK))
        await upstream.event()
        for message in first:
            await upstream.send(message)
            await client.gets(message)
        await eventually(lambda: (used(w) > size) == (result == "saved"))
        await upstream.send(last)
        await client.gets(last)
        await eventually(lambda: w.counted("captures_total", result=result) == 1)
        assert used(w) == 0


async def test_a_slow_process_does_not_blame_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body whose bytes wait in the kernel keeps its room, however long it takes to read it."""
    monkeypatch.setattr(request_body, "COMPLETE_S", -1.0)
    monkeypatch.setattr(request_body, "unread_poll", lambda _: Mock(poll=lambda _: [1]))
    async with world(inspect_total_max_bytes=ROOM_BYTES) as w:
        w.upstream.otherwise = OK
        got = await asyncio.gather(*await marks(w, 3 * FIT))
        assert Counter(answer.mark for answer in got) == {DECIDED: 3 * FIT}
