"""A relay ends when it is over: whoever left, whoever does not read, whoever does not answer."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import ClientWebSocketResponse
from hypothesis import given, settings
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.socket_messages import CREATE
from reasoning_replay.web.websocket.relay import TURN

from tests.web.sockets import (
    BINARY,
    CLOSE,
    KEY,
    PING,
    PONG,
    TEXT,
    Peer,
    close,
    frame,
    messages,
    said,
    tunnelled,
)
from tests.web.websocket.creates import create, told
from tests.web.wire import ASK, CALL, LOST, RS
from tests.web.world import World, eventually, world

LARGE = 24 << 20  # more than any kernel keeps on the way, and read as one message
SHORT: Any = {"client_timeout_s": 0.3, "read_timeout_s": 0.3}


@pytest.fixture(autouse=True)
def _is_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for moments only."""
    monkeypatch.setattr("reasoning_replay.web.websocket.relay.CLOSE_S", 0.2)
    monkeypatch.setattr("reasoning_replay.web.websocket.relay.LINGER_S", 0.3)
    monkeypatch.setattr("reasoning_replay.adapters.upstream.websocket.LEFT_OVER_S", 0.1)


def stops_reading(peer: Peer) -> None:
    """It takes nothing more, but what its kernel does."""
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]


async def rest_of(peer: Peer) -> int:
    """Return how much arrives once it reads again; a reset is an end."""
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    size = 0
    with contextlib.suppress(ConnectionError):
        while data := await asyncio.wait_for(peer.reader.read(1 << 20), 5):
            size += len(data)
    return size


async def over(w: World) -> None:
    """The relay has ended."""
    await eventually(lambda: w.app.handler.admission.count == 0)


async def test_a_client_that_goes_ends_an_upstream_that_does_not_read() -> None:
    """Not much later, and what that one has not taken is not kept for it."""
    async with world() as w, tunnelled(w) as (client, upstream):
        stops_reading(upstream)
        await client.send(frame(TEXT, b"x" * LARGE, key=KEY))
        await asyncio.sleep(0.2)
        client.reset()
        await over(w)
        await asyncio.sleep(0.3)
        assert await rest_of(upstream) < LARGE
        assert w.counted("exchanges_total", route="websocket", outcome="client_gone") == 1


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_side_that_takes_nothing_ends_the_relay(is_upstream: bool) -> None:
    """Its neighbour is not read from meanwhile, so it would not be seen to leave."""
    async with world(**SHORT) as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        stops_reading(other)
        one.writer.write(frame(BINARY, b"x" * LARGE, key=b"" if is_upstream else KEY))
        await over(w)
        outcome = "client_stalled" if is_upstream else "cut_off"
        assert w.counted("exchanges_total", route="websocket", outcome=outcome) == 1


async def test_what_is_left_behind_may_be_taken_slowly() -> None:
    """For as long as any of it is."""
    async with world(client_timeout_s=2) as w, tunnelled(w) as (client, upstream):
        stops_reading(client)
        data = frame(TEXT, b"x" * LARGE)
        await upstream.send(data + close(1000))
        upstream.leave()
        got = b""
        while len(got) < len(data):
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            got += await asyncio.wait_for(client.reader.read(1 << 20), 5)
            stops_reading(client)
            await asyncio.sleep(0.02)
        assert got.startswith(data)


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_close_without_an_answer_is_one(is_upstream: bool) -> None:
    """It need not be waited for until the connection breaks."""
    async with world() as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        data = close(1000, key=b"" if is_upstream else KEY)
        await one.send(data)
        await other.gets(data)
        await over(w)
        assert w.counted("exchanges_total", route="websocket", outcome="ok") == 1


async def test_a_client_that_still_sends_reads_why_upstream_left() -> None:
    """A connection that is closed while its client sends is reset, and what it had is lost."""
    async with world() as w, tunnelled(w) as (client, upstream):
        upstream.writer.write(said({"type": "error"}) + close(1008, b"no"))
        upstream.leave()
        client.writer.write(frame(TEXT, b"x" * LARGE, key=KEY))
        await client.gets(said({"type": "error"}), close(1008, b"no"))


async def test_others_have_their_turn_while_much_is_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many small messages may come at once."""
    turns, seen = 0, []
    send = ClientWebSocketResponse.send_frame

    async def noted(socket: Any, *args: Any) -> None:
        seen.append(turns)
        await send(socket, *args)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(ClientWebSocketResponse, "send_frame", noted)
    data = frame(PING, key=KEY) * 5_000
    async with world() as w, tunnelled(w) as (client, upstream):
        counting = asyncio.ensure_future(count())
        await asyncio.gather(client.send(data), upstream.gets(data))
        counting.cancel()
    assert max(map(seen.count, set(seen))) <= 2 * TURN


# --- any messages, in any order ---

NAMES = ["", "a", "b"]


def _named(name: str) -> dict[str, Any]:
    return {"stream_id": name} if name else {}


def _begun(name: str) -> Callable[[int], bytes]:
    return lambda n: create(ASK | {"content": str(n)}, **_named(name))


def _lost(name: str) -> Callable[[int], bytes]:
    return lambda _: create(*LOST, **_named(name))


def _event(name: str, first: int, last: int) -> Callable[[int], bytes]:
    return lambda n: b"".join(told(RS, CALL, stream=name, rid=f"resp_{name}{n}")[first:last])


def _bare(message: tuple[int, bytes]) -> tuple[int, object]:
    """Return a message less what may be added to it."""
    opcode, payload = message
    if opcode != TEXT or CREATE.encode() not in payload:
        return message
    event = json.loads(payload)
    event.pop("include", None)
    event["input"] = [item for item in event["input"] if item.get("type") != "reasoning"]
    return opcode, event


UP = st.one_of(
    st.sampled_from([maker(name) for maker in (_begun, _lost) for name in NAMES]),
    st.sampled_from(
        [lambda n, kind=kind: frame(kind, b"%d" % n, key=KEY) for kind in (PING, PONG)]
    ),
    st.binary(max_size=300).map(lambda data: lambda _: frame(TEXT, data, key=KEY)),
    st.binary(max_size=300).map(lambda data: lambda _: frame(BINARY, data, key=KEY)),
)
DOWN = st.one_of(
    st.builds(_event, st.sampled_from(NAMES), st.integers(0, 3), st.integers(4, 9)),
    st.sampled_from([lambda n, kind=kind: frame(kind, b"%d" % n) for kind in (PING, PONG)]),
    st.binary(max_size=300).map(lambda data: lambda _: frame(TEXT, data)),
    st.binary(max_size=300).map(lambda data: lambda _: frame(BINARY, data)),
)


@given(st.lists(st.tuples(st.booleans(), UP, DOWN), max_size=30))
@settings(max_examples=30, deadline=None)
def test_any_messages_arrive_in_their_order(steps: list[tuple[bool, Any, Any]]) -> None:
    """On whichever stream: only `input` and `include` of a request may be longer."""

    async def play() -> None:
        async with world() as w, tunnelled(w) as (client, upstream):
            up = [maker(n) for n, (is_up, maker, _) in enumerate(steps) if is_up]
            down = [maker(n) for n, (is_up, _, maker) in enumerate(steps) if not is_up]
            for n, (is_up, above, below) in enumerate(steps):
                await (client.send(above(n)) if is_up else upstream.send(below(n)))
            await client.gets(*down)
            for one in messages(b"".join(up)):
                assert _bare(await upstream.message()) == _bare(one)
            await client.send(close(1000, key=KEY))
            assert await upstream.message() == (CLOSE, b"\x03\xe8")

    asyncio.run(play())
