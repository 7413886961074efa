"""Memory of what is refused: freed when it is refused, without the cyclic collector."""

import asyncio
import contextlib
import sys
import zlib
from collections.abc import AsyncIterator
from typing import cast

import pytest
from reasoning_replay.web.app import App

from tests.bombs import CODINGS, MIB, asked_at_once, bomb, uncollected
from tests.web.sockets import CONTINUED, KEY, TEXT, Peer, frame, said, tunnelled
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

    async with talking(8) as tunnels:
        await asyncio.gather(*(talk(*ends) for ends in tunnels))


@contextlib.asynccontextmanager
async def talking(count: int, *agreed: str) -> AsyncIterator[list[tuple[Peer, Peer]]]:
    """Open WebSockets through a proxy without a cyclic collector."""
    async with uncollected(BUDGET_BYTES) as (proxy, upstream):
        world = World(cast("App", None), upstream)
        async with contextlib.AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(tunnelled(world, url=proxy.url, agreed=agreed))
                for _ in range(count)
            ]


async def test_many_long_messages_at_once() -> None:
    """Messages of clients that send more at once than fits wait, and each arrives unchanged."""
    text = create(ASK | {"content": "x" * 5_000_000})

    async def talk(client: Peer, api: Peer) -> None:
        await asyncio.gather(client.send(text), api.gets(text))

    async with talking(60) as tunnels:
        await asyncio.gather(*(talk(*ends) for ends in tunnels))


async def test_many_long_messages_of_an_upstream_at_once() -> None:
    """The same for the messages of an upstream."""
    text = said({"type": "response.output_item.done", "item": "x" * 5_000_000})

    async def talk(client: Peer, api: Peer) -> None:
        await asyncio.gather(api.send(text), client.gets(text))

    async with talking(60) as tunnels:
        await asyncio.gather(*(talk(*ends) for ends in tunnels))


async def test_many_long_messages_in_fragments_at_once() -> None:
    """The same if each begins with less than it is, so that all have some of the room."""
    part = b"x" * 200_000
    whole_text = frame(TEXT, 25 * part)
    begun = asyncio.Barrier(60)

    async def send(client: Peer) -> None:
        await client.send(frame(TEXT, part, final=False, key=KEY))
        await begun.wait()
        for n in range(24):
            await client.send(frame(CONTINUED, part, final=n == 23, key=KEY))

    async def talk(client: Peer, api: Peer) -> None:
        await asyncio.gather(send(client), api.gets(whole_text))

    async with talking(60) as tunnels:
        await asyncio.gather(*(talk(*ends) for ends in tunnels))


async def test_many_compressed_messages_at_once() -> None:
    """Small messages that decompress to large ones, in both directions."""
    pack = zlib.compressobj(wbits=-15)
    text = b"x" * 8 * MIB
    packed = (pack.compress(text) + pack.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\0\0\xff\xff")

    def sent(key: bytes) -> bytes:
        data = bytearray(frame(TEXT, packed, key=key))
        data[0] |= 0x40
        return bytes(data)

    async def talk(client: Peer, api: Peer) -> None:
        for source, sink, key in ((client, api, KEY), (api, client, b"")):
            await source.send(sent(key))
            _, payload = await sink.frame()
            assert zlib.decompressobj(-15).decompress(payload + b"\0\0\xff\xff") == text

    async with talking(24, "Sec-WebSocket-Extensions: permessage-deflate") as tunnels:
        await asyncio.gather(*(talk(*ends) for ends in tunnels))
