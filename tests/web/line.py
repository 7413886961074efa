"""Client that hides nothing: it sends raw bytes and reads the response's framing by hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.patience import SOON_S

REQUEST_ID = "x-reasoning-replay-request-id"


class Broken(Exception):
    """The response ended before its framing says that it is complete."""


@dataclass(frozen=True, slots=True)
class Head:
    """
    Status line and headers, as received and in order.

    Attributes:
        request_id: Value of the header with the proxy's id of the exchange, which is random and
            therefore not in `headers`. None if there is none.
    """

    status: int
    reason: str
    headers: list[tuple[str, str]]
    request_id: str | None = None

    def values(self, name: str) -> list[str]:
        """Return every value of a header, whatever its case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response."""

    head: Head
    body: bytes

    @property
    def status(self) -> int:
        """Status code."""
        return self.head.status

    @property
    def mark(self) -> str | None:
        """Value of `x-reasoning-replay`; None: the header is missing."""
        values = self.head.values("x-reasoning-replay")
        return values[0] if values else None


class Line:
    """One connection, used for one exchange after another."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._left: int | None = None
        self._is_chunked = False
        self._is_head = False

    async def send(self, data: bytes) -> None:
        """Write these bytes, and wait until they are flushed."""
        self._is_head = data.startswith(b"HEAD ") or (self._is_head and b" HTTP/1." not in data)
        self._writer.write(data)
        await self._writer.drain()

    async def head(self) -> Head:
        """Read the head of the next response, after interim ones; raise Broken if there is none."""
        raw = b"HTTP/1.1 103"
        while raw.startswith(b"HTTP/1.1 10") and raw[11:12] > b"1":
            try:
                raw = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), SOON_S)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise Broken("no head") from error
        first, *rest = raw[:-4].decode("latin-1").split("\r\n")
        _, status, reason = [*first.split(" ", 2), ""][:3]
        pairs = [line.split(":", 1) for line in rest]
        headers = [(name, value.strip(" \t")) for name, value in pairs]
        ids = [value for name, value in headers if name == REQUEST_ID]
        assert len(ids) <= 1
        headers = [(name, value) for name, value in headers if name != REQUEST_ID]
        head = Head(int(status), reason, headers, ids[0] if ids else None)
        lengths = head.values("content-length")
        self._is_chunked = bool(head.values("transfer-encoding"))
        self._left = int(lengths[0]) if lengths else None
        if self._is_head or head.status in (204, 304):
            self._is_chunked, self._left = False, 0
        return head

    async def some(self) -> bytes:
        """Read available bytes of the body, at most one chunk; b"" at its end."""
        return await asyncio.wait_for(self._some(), SOON_S)

    async def _some(self) -> bytes:
        try:
            if self._is_chunked:
                size = int(await self._reader.readuntil(b"\r\n"), 16)
                data = await self._reader.readexactly(size)
                await self._reader.readexactly(2)
                return data
            data = b"" if self._left == 0 else await self._reader.read(self._left or 1 << 16)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Broken("the connection ended inside the body") from error
        if self._left:
            if not data:
                raise Broken(f"{self._left} bytes are missing")
            self._left -= len(data)
        return data

    async def exactly(self, size: int) -> bytes:
        """Read this many bytes of the body, in any number of pieces."""
        read = b""
        while len(read) < size:
            piece = await self.some()
            if not piece:
                raise Broken("the body is shorter")
            read += piece
        return read

    async def rest(self) -> bytes:
        """Read the body to its end; raise Broken if it is cut off."""
        read, is_whole = await self.until_it_ends()
        if not is_whole:
            raise Broken("the answer was cut off")
        return read

    async def until_it_ends(self) -> tuple[bytes, bool]:
        """Read the rest of the body, and return it with whether it is complete."""
        pieces: list[bytes] = []
        while True:
            try:
                piece = await self.some()
            except Broken:
                return b"".join(pieces), False
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)

    async def ask(self, data: bytes) -> Answer:
        """Send a request and read the complete response."""
        await self.send(data)
        return Answer(await self.head(), await self.rest())

    async def leave(self) -> None:
        """Close, without waiting for pending bytes."""
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    async def is_closed(self) -> bool:
        """Return whether the other side closes without another byte."""
        return await asyncio.wait_for(self._reader.read(1), SOON_S) == b""


@contextlib.asynccontextmanager
async def line_to(url: str) -> AsyncIterator[Line]:
    """Open a connection to the host and port of a URL."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 20)
    line = Line(reader, writer)
    try:
        yield line
    finally:
        await line.leave()


def request(method: str, target: str, *headers: str, body: bytes | None = None) -> bytes:
    """Return a request: line, `Host`, these headers, and a length if it has a body."""
    lines = [f"{method} {target} HTTP/1.1", "Host: proxy.test", *headers]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")
