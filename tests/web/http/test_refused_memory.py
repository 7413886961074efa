"""Memory of what is refused: freed when it is refused, without the cyclic collector."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
from reasoning_replay.web.app import App

from tests.bombs import CODINGS, MIB, asked_at_once, bomb, uncollected
from tests.web.sockets import KEY, Peer, said, tunnelled
from tests.web.websocket.creates import create
from tests.web.wire import ASK, as_json, whole
from tests.web.world import MODEL, World, post

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
BUDGET_BYTES = 32 * MIB
COUNT = 40
CLIENT = "Authorization: Bearer sk-a"
OK = whole(b"{}")


async def test_encoded_requests_that_are_too_large() -> None:
    """Refused bombs of every coding take little at their peak, and nothing afterwards."""
    async with uncollected(BUDGET_BYTES) as (proxy, upstream):
        upstream.otherwise = OK
        for coding in CODINGS:
            data = post(bomb(coding, 9 * MIB), CLIENT, f"Content-Encoding: {coding}")
            got = await asked_at_once(proxy.url, [data] * COUNT)
            assert got == {"injected=0, asked=too_large": COUNT}


async def test_long_requests_that_are_unreadable() -> None:
    """Long bodies that cannot be read are held no longer than those that can."""
    body = b'{"model":"m","input":"%b","input":""}' % (b"x" * 5_000_000)
    async with uncollected(BUDGET_BYTES) as (proxy, upstream):
        upstream.otherwise = OK
        got = await asked_at_once(proxy.url, [post(body, CLIENT)] * 20)
        assert got == {"injected=0, asked=unreadable": 20}


async def test_encoded_responses_that_are_too_large() -> None:
    """The same for the bombs of an upstream, in JSON and in streams."""
    data = post({"model": MODEL, "input": [ASK]}, CLIENT)
    async with uncollected(BUDGET_BYTES, inspect_max_bytes=8 * MIB) as (proxy, upstream):
        for coding in CODINGS:
            for form in ("application/json", "text/event-stream"):
                headers = f"Content-Type: {form}", f"Content-Encoding: {coding}"
                upstream.otherwise = whole(bomb(coding, 16 * MIB), *headers)
                got = await asked_at_once(proxy.url, [data] * (COUNT // 2))
                assert got.total() == COUNT // 2


async def test_messages_that_cannot_be_read() -> None:
    """The same for long messages of a WebSocket, in both directions."""
    text = b'{"type":"response.create","input":"%b"' % (b"x" * 4_000_000)
    event = as_json({"type": "response.output_item.done", "item": "x" * 4_000_000})[:-1]

    async def talk(client: Peer, api: Peer) -> None:
        for _ in range(3):
            await client.send(said(text, key=KEY))
            await api.message()
            await api.send(said(event))
            await client.message()

    await _all_talk(talk, 8)


async def test_many_long_messages_at_once() -> None:
    """Messages of clients that send more at once than fits wait, and each arrives unchanged."""
    text = create(ASK | {"content": "x" * 5_000_000})

    async def talk(client: Peer, api: Peer) -> None:
        await asyncio.gather(client.send(text), api.gets(text))

    await _all_talk(talk, 60)


async def _all_talk(talk: Callable[[Peer, Peer], Awaitable[object]], count: int) -> None:
    """Open so many WebSockets through one process, and let both ends of each talk at once."""
    async with uncollected(BUDGET_BYTES) as (proxy, upstream):
        world = World(cast("App", None), upstream)
        async with contextlib.AsyncExitStack() as stack:
            tunnels = [
                await stack.enter_async_context(tunnelled(world, url=proxy.url))
                for _ in range(count)
            ]
            await asyncio.gather(*(talk(*ends) for ends in tunnels))
