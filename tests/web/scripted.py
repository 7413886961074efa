"""
Scripted upstream on bare sockets: it plays scripts, and records the received bytes.

A script reads as a playbook: `Script([send(b"..."), wait(), cut()])`. Scripts are played in the
order of the requests. A request without a script gets `otherwise`, whose default is a 599, so that
a test cannot mistake it for an expected response.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

Step = Callable[["Script", asyncio.StreamWriter], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Received:
    """
    One request, byte for byte.

    Attributes:
        line: Request line, without its line end.
        headers: Names and values, as received and in order.
        body: Body without chunk framing.
    """

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def target(self) -> str:
        """Request target, as in the request line."""
        return self.line.split(" ")[1]

    def values(self, name: str) -> list[str]:
        """Return every value of a header, whatever its case."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


def send(data: bytes) -> Step:
    """Write these bytes, and wait until they are flushed."""

    async def step(_: "Script", writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return step


def wait() -> Step:
    """Do nothing until the test calls `go`, or the other side leaves."""

    async def step(script: "Script", _: asyncio.StreamWriter) -> None:
        await script.told.acquire()

    return step


def swallow(size: int) -> Step:
    """Read this many bytes of an unread body, and keep only their digest."""

    async def step(script: "Script", _: asyncio.StreamWriter) -> None:
        assert script.reader is not None
        digest = sha256()
        while size > script.swallowed:
            piece = await script.reader.read(min(1 << 16, size - script.swallowed))
            if not piece:
                return
            digest.update(piece)
            script.swallowed += len(piece)
        script.digest = digest.hexdigest()

    return step


def cut() -> Step:
    """Reset the connection after all bytes are flushed, as a crash does."""

    async def step(_: "Script", writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)
        await writer.drain()
        await asyncio.sleep(0.02)  # a reset discards what the other side has not read
        writer.transport.abort()

    return step


def close() -> Step:
    """Close the connection properly."""

    async def step(_: "Script", writer: asyncio.StreamWriter) -> None:
        writer.close()

    return step


class Script:
    """
    Steps for one request, and their progress.

    Attributes:
        arrived: Set once the request is received, with its body unless `reads_body` is false.
        left: Set when the other side has closed the connection during the script.
        ended: Set after the last step.
        swallowed, digest: Number of bytes that `swallow` read, and their SHA-256 at the end.
    """

    def __init__(self, steps: Sequence[Step], *, reads_body: bool = True) -> None:
        self.steps = steps
        self.reads_body = reads_body
        self.told = asyncio.Semaphore(0)
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.ended = asyncio.Event()
        self.reader: asyncio.StreamReader | None = None
        self.swallowed = 0
        self.digest = ""

    def go(self) -> None:
        """Let one `wait` pass."""
        self.told.release()


class _Protocol(asyncio.StreamReaderProtocol):
    """Reports to a script at once when the other side leaves, whether it reads or not."""

    script: Script | None = None

    def eof_received(self) -> bool | None:
        self._leave()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        super().connection_lost(exc)

    def _leave(self) -> None:
        if self.script is not None:
            self.script.left.set()


class Upstream:
    """
    Upstream of the proxy.

    Attributes:
        url: Its origin, without `/v1`.
        received: Every request, in order.
        connections: Number of connections that were opened.
        otherwise: Response to a request without a script.
        decides: Returns that response instead, from the request; None: `otherwise`.
    """

    def __init__(self) -> None:
        self.url = ""
        self.received: list[Received] = []
        self.connections = 0
        self.otherwise = b"HTTP/1.1 599 unscripted\r\nContent-Length: 0\r\n\r\n"
        self.decides: Callable[[Received], bytes] | None = None
        self._scripts: deque[Script] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def plays(self, *scripts: Script) -> None:
        """Play these scripts next, one for each request."""
        self._scripts.extend(scripts)

    def answers(self, *answers: bytes) -> None:
        """Answer the next requests with these bytes, each in one piece."""
        self.plays(*(Script([send(answer)]) for answer in answers))

    def forget_scripts(self) -> None:
        """Drop all scripts that were not played."""
        self._scripts.clear()

    def protocol(self) -> asyncio.Protocol:
        """Return the protocol of one connection."""
        reader = asyncio.StreamReader(limit=1 << 20)

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(protocol, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: writer.close())  # also if the task never began

        protocol = _Protocol(reader, connected)
        return protocol

    async def _serve(
        self, protocol: _Protocol, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.connections += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                is_scripted = bool(self._scripts)
                script = self._scripts.popleft() if is_scripted else Script([send(self.otherwise)])
                protocol.script = script
                script.reader = reader
                received = _received(head)
                if script.reads_body:
                    received = Received(
                        received.line, received.headers, await _body(received, reader)
                    )
                self.received.append(received)
                script.arrived.set()
                steps = script.steps
                if self.decides is not None and not is_scripted:
                    steps = [send(self.decides(received))]
                for step in steps:
                    await step(script, writer)
                script.ended.set()
                protocol.script = None
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the other side has left, as `left` shows

    async def close(self) -> None:
        """End the running scripts."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _received(head: bytes) -> Received:
    first, *rest = head[:-4].decode("latin-1").split("\r\n")
    pairs = [line.split(":", 1) for line in rest]
    return Received(first, [(name, value.strip(" \t")) for name, value in pairs], b"")


async def _body(received: Received, reader: asyncio.StreamReader) -> bytes:
    if received.values("transfer-encoding"):
        pieces = []
        while size := int(await reader.readuntil(b"\r\n"), 16):
            pieces.append(await reader.readexactly(size))
            await reader.readexactly(2)
        await reader.readexactly(2)
        return b"".join(pieces)
    return await reader.readexactly(int((received.values("content-length") or ["0"])[0]))


@contextlib.asynccontextmanager
async def scripted() -> AsyncIterator[Upstream]:
    """Listen on a free port of this machine."""
    upstream = Upstream()
    server = await asyncio.get_running_loop().create_server(upstream.protocol, "127.0.0.1", 0)
    upstream.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield upstream
    finally:
        server.close()
        await upstream.close()
