"""A tunnel ends when it is over: whoever left, whoever does not read, whoever does not answer."""

import asyncio
import contextlib
from typing import Any

import pytest
from reasoning_replay.core.wire.ws_frames import Messages, Piece
from reasoning_replay.web.websocket.tunnel import SLICE_BYTES

from tests.web.sockets import BINARY, CLOSE, KEY, PING, TEXT, Peer, close, frame, tunnelled
from tests.web.world import World, eventually, world

LARGE = 24 << 20  # more than any kernel keeps on the way, and read as one message
BOUNDS: Any = {"inspect_max_bytes": 2 * LARGE, "capture_max_bytes": 2 * LARGE}


@pytest.fixture(autouse=True)
def _is_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for moments only."""
    monkeypatch.setattr("reasoning_replay.web.websocket.tunnel.LINGER_S", 0.2)
    monkeypatch.setattr("reasoning_replay.web.websocket.tunnel.CLOSING_S", 0.2)
    monkeypatch.setattr("reasoning_replay.web.websocket.tunnel.LEFT_OVER_S", 0.2)
    monkeypatch.setattr("reasoning_replay.adapters.upstream.upgraded_transport.LEFT_OVER_S", 0.2)


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
    """The tunnel has ended."""
    await eventually(lambda: w.app.forward.under_way.count == 0)


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_side_that_goes_ends_a_side_that_does_not_read(is_upstream: bool) -> None:
    """Not much later, and what that one has not taken is not kept for it."""
    async with world(**BOUNDS) as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        stops_reading(other)
        await one.send(frame(TEXT, b"x" * LARGE, key=b"" if is_upstream else KEY))
        await asyncio.sleep(0.2)
        one.reset()
        await over(w)
        await asyncio.sleep(0.5)
        assert await rest_of(other) < LARGE


async def test_a_side_that_takes_nothing_ends_the_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its neighbour is not read from meanwhile, so nobody would see it leave."""
    monkeypatch.setattr("reasoning_replay.adapters.upstream.upgraded_transport.STALLED_S", 0.3)
    async with world() as w, tunnelled(w) as (client, upstream):
        stops_reading(upstream)
        client.writer.write(frame(BINARY, b"x" * 2 * LARGE, key=KEY))
        await over(w)
        assert w.counted("exchanges_total", route="websocket", outcome="cut_off") == 1


async def test_what_is_left_behind_may_be_taken_slowly() -> None:
    """For as long as any of it is."""
    async with world(**BOUNDS) as w, tunnelled(w) as (client, upstream):
        stops_reading(client)
        data = frame(TEXT, b"x" * LARGE)
        await upstream.send(data)
        upstream.leave()
        got = b""
        while len(got) < len(data):
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            got += await asyncio.wait_for(client.reader.read(1 << 20), 5)
            stops_reading(client)
            await asyncio.sleep(0.02)
        assert got == data


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


@pytest.mark.parametrize("is_upstream", [True, False])
async def test_a_process_does_not_wait_for_the_answer_to_a_close(
    is_upstream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who has not been told that it is over is told that we go away."""
    monkeypatch.setattr("reasoning_replay.web.websocket.tunnel.CLOSING_S", 60)
    async with world() as w, tunnelled(w) as (client, upstream):
        one, other = (upstream, client) if is_upstream else (client, upstream)
        data = close(1000, key=b"" if is_upstream else KEY)
        await one.send(data)
        await other.gets(data)
        w.app.forward.drain()
        assert await one.message() == (CLOSE, b"\x03\xe9")
        await over(w)
        assert await other.ended()


async def test_others_have_their_turn_while_much_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many small frames may come at once."""
    turns, fed = 0, []
    feed = Messages.feed

    def noted(messages: Messages, chunk: bytes) -> list[Piece]:
        fed.append((turns, len(chunk)))
        return feed(messages, chunk)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(Messages, "feed", noted)
    data = frame(PING, key=KEY) * 30_000
    async with world() as w, tunnelled(w) as (client, upstream):
        counting = asyncio.ensure_future(count())
        await client.send(data)
        await upstream.gets(data)
        counting.cancel()
    assert len({turn for turn, _ in fed}) > len(fed) // 2
    assert max(size for _, size in fed) <= SLICE_BYTES
