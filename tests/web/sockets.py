"""WebSockets spelled by hand: a handshake, frames, and both ends of a tunnel."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tests.web.line import request
from tests.web.scripted import Script, send
from tests.web.wire import as_json
from tests.web.world import World

__all__ = [
    "AGREED",
    "BINARY",
    "CLOSE",
    "CONTINUED",
    "HANDSHAKE",
    "KEY",
    "PING",
    "PONG",
    "TEXT",
    "UPGRADE",
    "Peer",
    "close",
    "frame",
    "said",
    "tunnelled",
]

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = b"\x37\xfa\x21\x3d"
SOON_S = 5.0
HELD_S = 0.05
HANDSHAKE = [
    "Connection: keep-alive, Upgrade",
    "Upgrade: WebSocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
]
UPGRADE = ["Authorization: Bearer sk-a", *HANDSHAKE]
AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nConnection: upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nx-request-id: req_1\r\n\r\n"
)


def frame(opcode: int, payload: bytes = b"", *, final: bool = True, key: bytes = b"") -> bytes:
    """Spell one frame."""
    size, mask = len(payload), 0x80 if key else 0
    if size < 126:
        length = bytes([mask | size])
    elif size < 65536:
        length = bytes([mask | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([mask | 127]) + size.to_bytes(8, "big")
    keys = (key * (size // 4 + 1))[:size]
    data = (int.from_bytes(payload) ^ int.from_bytes(keys)).to_bytes(size) if key else payload
    return bytes([0x80 * final | opcode]) + length + key + data


def said(event: Mapping[str, object] | bytes, *, key: bytes = b"") -> bytes:
    """Spell an event as a text message; a client's has a key."""
    return frame(TEXT, event if isinstance(event, bytes) else as_json(event), key=key)


def close(code: int, reason: bytes = b"", *, key: bytes = b"") -> bytes:
    """Spell a close frame."""
    return frame(CLOSE, code.to_bytes(2) + reason, key=key)


class Peer:
    """One end of a tunnel, in the hands of a test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Write, and see it off."""
        self.writer.write(data)
        await self.writer.drain()

    async def exactly(self, size: int) -> bytes:
        """Read so many bytes; fewer when that is the end."""
        try:
            return await asyncio.wait_for(self.reader.readexactly(size), SOON_S)
        except asyncio.IncompleteReadError as error:
            return error.partial

    async def gets(self, *expected: bytes) -> None:
        """These are the next bytes."""
        data = b"".join(expected)
        assert await self.exactly(len(data)) == data

    async def message(self) -> tuple[int, bytes]:
        """Read one frame: its opcode and its payload, unmasked."""
        first, second = await self.exactly(2)
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(await self.exactly(2 if size == 126 else 8))
        key = await self.exactly(4) if second & 0x80 else b""
        payload = await self.exactly(size)
        keys = (key * (size // 4 + 1))[:size]
        if key:
            payload = (int.from_bytes(payload) ^ int.from_bytes(keys)).to_bytes(size)
        return first & 0x0F, payload

    async def event(self) -> dict[str, Any]:
        """Read one text message that is JSON."""
        opcode, payload = await self.message()
        assert opcode == TEXT
        event: dict[str, Any] = json.loads(payload)
        return event

    async def ended(self) -> bool:
        """Tell whether the other side ends without another byte; a reset is an end."""
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(1), SOON_S) == b""
        return True

    async def is_silent(self) -> bool:
        """Tell whether nothing comes for a while."""
        try:
            await asyncio.wait_for(self.reader.read(1), HELD_S)
        except TimeoutError:
            return True
        return False

    def leave(self) -> None:
        """Close."""
        self.writer.close()

    def reset(self) -> None:
        """Break off, as a crash does."""
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def opened(url: str, data: bytes) -> AsyncIterator[Peer]:
    """Open a connection and send these bytes."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 26)
    peer = Peer(reader, writer)
    try:
        await peer.send(data)
        yield peer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def tunnelled(
    w: World,
    *headers: str,
    target: str = "/v1/responses",
    url: str = "",
    agreed: bytes = AGREED,
    behind: bytes = b"",
) -> AsyncIterator[tuple[Peer, Peer]]:
    """
    Agree on a WebSocket through the proxy, and give the client's and upstream's ends of it.

    Args:
        w: The proxy and its upstream.
        headers: The client's; the usual ones when there are none.
        target: What is asked for.
        url: Of another proxy before the same upstream.
        agreed: Upstream's head, and what it sends right behind it.
        behind: What the client sends right behind its own.
    """
    given: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hand_over(script: Script, writer: asyncio.StreamWriter) -> None:
        assert script.reader is not None
        given.set_result(Peer(script.reader, writer))
        await done.wait()

    w.upstream.plays(Script([send(agreed), hand_over]))
    data = request("GET", target, *(headers or UPGRADE)) + behind
    async with opened(url or w.app.url, data) as client:
        try:
            upstream = await asyncio.wait_for(given, SOON_S)
            await client.gets(AGREED)
            yield client, upstream
        finally:
            done.set()
