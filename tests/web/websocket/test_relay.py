"""The end of a relay: a peer leaves, does not read, or does not answer a close frame."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import ClientWebSocketResponse
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.responses.socket_messages import CREATE
from reasoning_replay.web.websocket.relay import TURN

from tests.fast_lane import examples
from tests.patience import SOON_S
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
from tests.web.stalls import LARGE_BYTES, reads_again, stops_reading
from tests.web.websocket.creates import create, told
from tests.web.wire import ASK, CALL, LOST, RS
from tests.web.world import World, eventually, world

SHORT: Any = {"client_timeout_s": 0.5, "read_timeout_s": 0.5}


@pytest.fixture(autouse=True)
def _is_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the timeouts."""
    monkeypatch.setattr("reasoning_replay.web.websocket.relay.CLOSE_S", 0.2)
    monkeypatch.setattr("reasoning_replay.web.websocket.handler.LINGER_S", 0.3)
    monkeypatch.setattr("reasoning_replay.adapters.upstream.websocket.LEFT_OVER_S", 0.1)


async def rest_of(peer: Peer) -> int:
    """Return the number of bytes that arrive once the peer reads again; a reset is an end."""
    reads_again(peer.writer)
    size = 0
    with contextlib.suppress(ConnectionError):
        while data := await asyncio.wait_for(peer.reader.read(1 << 20), SOON_S):
            size += len(data)
    return size


async def over(w: World) -> None:
    """Wait for the end of the relay."""
    await eventually(lambda: w.app.handler.admission.count == 0)


async def test_an_upstream_that_does_not_read_is_cut_off_when_the_client_leaves() -> None:
    """When the client leaves, an upstream that does not read is cut off with data pending."""
    async with world() as w, tunnelled(w) as (client, upstream):
        stops_reading(upstream.writer)
        await client.send(frame(TEXT, b"x" * LARGE_BYTES, key=KEY))
        await asyncio.sleep(0.2)
        client.reset()
        await over(w)
        await asyncio.sleep(0.3)
        assert await rest_of(upstream) < LARGE_BYTES
        assert w.counted("exchanges_total", route="websocket", outcome="client_gone") == 1


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_side_that_reads_nothing_ends_the_relay(is_upstream: bool) -> None:
    """The other side is not read in the meantime, so its end would not be detected."""
    async with world(**SHORT) as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        stops_reading(other.writer)
        one.writer.write(frame(BINARY, b"x" * LARGE_BYTES, key=b"" if is_upstream else KEY))
        await over(w)
        outcome = "client_stalled" if is_upstream else "cut_off"
        assert w.counted("exchanges_total", route="websocket", outcome=outcome) == 1


async def test_pending_data_may_be_read_slowly() -> None:
    """After upstream has left, a client that reads slowly but steadily gets all pending data."""
    async with world(client_timeout_s=2) as w, tunnelled(w) as (client, upstream):
        stops_reading(client.writer)
        data = frame(TEXT, b"x" * LARGE_BYTES)
        await upstream.send(data + close(1000))
        upstream.leave()
        got = b""
        while len(got) < len(data):
            reads_again(client.writer)
            got += await asyncio.wait_for(client.reader.read(1 << 20), SOON_S)
            stops_reading(client.writer)
            await asyncio.sleep(0.02)
        assert got.startswith(data)


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_close_frame_ends_the_relay_without_an_answer(is_upstream: bool) -> None:
    """A close frame ends the relay, even if the peer neither answers it nor disconnects."""
    async with world() as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        data = close(1000, key=b"" if is_upstream else KEY)
        await one.send(data)
        await other.gets(data)
        await over(w)
        assert w.counted("exchanges_total", route="websocket", outcome="ok") == 1


async def test_a_client_that_still_sends_reads_why_upstream_left() -> None:
    """A close at once would reset the connection, and these messages would be lost."""
    async with world() as w, tunnelled(w) as (client, upstream):
        upstream.writer.write(said({"type": "error"}) + close(1008, b"no"))
        upstream.leave()
        client.writer.write(frame(TEXT, b"x" * LARGE_BYTES, key=KEY))
        await client.gets(said({"type": "error"}), close(1008, b"no"))


async def test_the_relay_yields_between_many_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The relay yields to other exchanges while it forwards many small messages."""
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
    """Return a message without the parts that the proxy may add."""
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
@examples(30)
def test_any_messages_arrive_in_their_order(steps: list[tuple[bool, Any, Any]]) -> None:
    """All messages arrive in order; only `input` and `include` of a request may be longer."""

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
