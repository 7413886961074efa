"""WebSockets spelled by hand: a handshake, frames, and both ends of a relay."""

import asyncio
import contextlib
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha1
from typing import Any
from urllib.parse import urlsplit

from tests.web.line import request
from tests.web.scripted import Script, Step
from tests.web.wire import as_json
from tests.web.world import World

__all__ = [
    "ACCEPT",
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
    "agree",
    "close",
    "frame",
    "messages",
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
# The answer to the key of HANDSHAKE.
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


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


def messages(data: bytes) -> list[tuple[int, bytes]]:
    """Read frames: the opcode and the payload of each message, unmasked and in one piece."""
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
    One end of a relay, in the hands of a test.

    Attributes:
        head: The head that was answered with; b"" at the upstream's end.
    """

    head = b""

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
        """The next messages are those that these frames spell, whatever their masks and cuts."""
        for one in messages(b"".join(expected)):
            assert await self.message() == one

    async def message(self) -> tuple[int, bytes]:
        """Read one frame: its opcode and its payload, unmasked."""
        first, payload = await self.frame()
        return first & 0x0F, payload

    async def frame(self) -> tuple[int, bytes]:
        """Read one frame: its first byte and its payload, unmasked."""
        first, second = await self.exactly(2)
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(await self.exactly(2 if size == 126 else 8))
        key = await self.exactly(4) if second & 0x80 else b""
        return first, _unmasked(await self.exactly(size), key)

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


def agree(w: World, *headers: str, behind: bytes = b"") -> Step:
    """Agree to the handshake that came last; `behind` is sent right behind the head."""

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
        writer.write("\r\n".join([*lines, "", ""]).encode() + behind)
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
    ahead: bytes = b"",
    behind: bytes = b"",
) -> AsyncIterator[tuple[Peer, Peer]]:
    """
    Agree on a WebSocket through the proxy, and give the client's and upstream's ends of it.

    Args:
        w: The proxy and its upstream.
        headers: The client's; the usual ones when there are none.
        target: What is asked for.
        url: Of another proxy before the same upstream.
        agreed: Further headers of the upstream's agreement.
        ahead: What the upstream sends right behind it.
        behind: What the client sends right behind its own head.
    """
    given: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hand_over(script: Script, writer: asyncio.StreamWriter) -> None:
        assert script.reader is not None
        given.set_result(Peer(script.reader, writer))
        await done.wait()

    w.upstream.plays(Script([agree(w, *agreed, behind=ahead), hand_over]))
    data = request("GET", target, *(headers or UPGRADE)) + behind
    async with opened(url or w.app.url, data) as client:
        try:
            upstream = await asyncio.wait_for(given, SOON_S)
            client.head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), SOON_S)
            assert client.head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
            yield client, upstream
        finally:
            done.set()
