"""WebSockets by hand: a handshake, frames, and both ends of a relay."""

import asyncio
import contextlib
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha1
from typing import Any
from urllib.parse import urlsplit

from tests.patience import SOON_S
from tests.web.line import request
from tests.web.scripted import Script, Step
from tests.web.wire import as_json
from tests.web.world import World

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
KEY = b"\x37\xfa\x21\x3d"
HELD_S = 0.05
HANDSHAKE = [
    "Connection: keep-alive, Upgrade",
    "Upgrade: WebSocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits",
]
UPGRADE = ["Authorization: Bearer sk-a", *HANDSHAKE]
# Response to the key of HANDSHAKE.
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def frame(opcode: int, payload: bytes = b"", *, final: bool = True, key: bytes = b"") -> bytes:
    """Return one frame."""
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
    """Return an event as a text message; a client's message has a key."""
    return frame(TEXT, event if isinstance(event, bytes) else as_json(event), key=key)


def close(code: int, reason: bytes = b"", *, key: bytes = b"") -> bytes:
    """Return a close frame."""
    return frame(CLOSE, code.to_bytes(2) + reason, key=key)


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """Parse frames: return the opcode and the unmasked, joined payload of each message."""
    found: list[tuple[int, bytes]] = []
    parts: list[bytes] = []
    begun = 0
    while data:
        first, size, at = data[0], data[1] & 0x7F, 2
        if size > 125:
            at += 2 if size == 126 else 8
            size = int.from_bytes(data[2:at])
        key = data[at : at + 4] if data[1] & 0x80 else b""
        at += len(key)
        payload = _unmasked(data[at : at + size], key)
        data = data[at + size :]
        if first & 0x0F >= CLOSE:
            found.append((first & 0x0F, payload))
            continue
        begun = first & 0x0F or begun
        parts.append(payload)
        if first & 0x80:
            found.append((begun, b"".join(parts)))
            parts.clear()
    return found


def _unmasked(payload: bytes, key: bytes) -> bytes:
    if not key:
        return payload
    size = len(payload)
    keys = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(payload) ^ int.from_bytes(keys)).to_bytes(size)


class Peer:
    """
    One end of a relay, controlled by a test.

    Attributes:
        head: Head of the response to the handshake; b"" at upstream's end.
    """

    head = b""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Write these bytes, and wait until they are flushed."""
        self.writer.write(data)
        await self.writer.drain()

    async def exactly(self, size: int) -> bytes:
        """Read this many bytes; fewer at the end."""
        try:
            return await asyncio.wait_for(self.reader.readexactly(size), SOON_S)
        except asyncio.IncompleteReadError as error:
            return error.partial

    async def gets(self, *expected: bytes) -> None:
        """Check that the next messages equal these frames, whatever their masks and cuts."""
        for one in messages(b"".join(expected)):
            assert await self.message() == one

    async def message(self) -> tuple[int, bytes]:
        """Read one frame; return its opcode and its unmasked payload."""
        first, payload = await self.frame()
        return first & 0x0F, payload

    async def frame(self) -> tuple[int, bytes]:
        """Read one frame; return its first byte and its unmasked payload."""
        first, second = await self.exactly(2)
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(await self.exactly(2 if size == 126 else 8))
        key = await self.exactly(4) if second & 0x80 else b""
        return first, _unmasked(await self.exactly(size), key)

    async def event(self) -> dict[str, Any]:
        """Read one text message as JSON."""
        opcode, payload = await self.message()
        assert opcode == TEXT
        event: dict[str, Any] = json.loads(payload)
        return event

    async def ended(self) -> bool:
        """Return whether the other side ends without another byte; a reset is an end."""
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(1), SOON_S) == b""
        return True

    async def is_silent(self) -> bool:
        """Return whether no byte arrives for a while."""
        try:
            await asyncio.wait_for(self.reader.read(1), HELD_S)
        except TimeoutError:
            return True
        return False

    def leave(self) -> None:
        """Close."""
        self.writer.close()

    def reset(self) -> None:
        """Reset the connection, as a crash does."""
        self.writer.transport.abort()


def agree(w: World, *headers: str, after: bytes = b"") -> Step:
    """Accept the last handshake; `after` is sent directly after the head."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        (key,) = w.upstream.received[-1].values("Sec-WebSocket-Key")
        accept = b64encode(sha1(key.encode() + _GUID).digest()).decode()  # noqa: S324 (RFC 6455)
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "upgrade: websocket",
            "Connection: upgrade",
            f"Sec-WebSocket-Accept: {accept}",
            "x-request-id: req_1",
            *headers,
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + after)
        await writer.drain()

    return step


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
    agreed: Sequence[str] = (),
    greeting: bytes = b"",
    early: bytes = b"",
) -> AsyncIterator[tuple[Peer, Peer]]:
    """
    Open a WebSocket through the proxy, and give the client's and upstream's ends of it.

    Args:
        w: The proxy and its upstream.
        headers: Headers of the client; default: the usual ones.
        target: Request target.
        url: URL of another proxy in front of the same upstream.
        agreed: Further headers of upstream's response.
        greeting: Bytes that upstream sends directly after its head.
        early: Bytes that the client sends directly after its head.
    """
    given: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hand_over(script: Script, writer: asyncio.StreamWriter) -> None:
        assert script.reader is not None
        given.set_result(Peer(script.reader, writer))
        await done.wait()

    w.upstream.plays(Script([agree(w, *agreed, after=greeting), hand_over]))
    data = request("GET", target, *(headers or UPGRADE)) + early
    async with opened(url or w.app.url, data) as client:
        try:
            upstream = await asyncio.wait_for(given, SOON_S)
            client.head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), SOON_S)
            assert client.head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
            yield client, upstream
        finally:
            done.set()
