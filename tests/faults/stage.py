"""
A proxy between an upstream and a client that both misbehave, and an account of what it holds.

Everything is on sockets of this process, so that its open files and tasks are all there are. The
proxy has room for one exchange and one request at a time: a place or a share that is not given
back shows in the exchange that comes next.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from proxy.settings import Settings
from proxy.web.app import running
from tests.web import scripted
from tests.web.line import Broken, Line, line_to, request
from tests.web.scripted import Script, Step, close, send
from tests.web.wire import (
    ASK,
    CALL,
    MESSAGE,
    RESULT,
    RS,
    RS_2,
    as_json,
    events,
    head,
    response,
    whole,
)
from tests.web.world import MODEL, World, eventually, post

__all__ = [
    "ALL",
    "HEAD",
    "JSON",
    "KEY",
    "LEARNT",
    "OTHER",
    "READ",
    "STREAM",
    "Kind",
    "Seen",
    "Stage",
    "Upstream",
    "half_close",
    "hang",
    "pause",
    "reads",
    "reset",
    "reset_now",
    "staged",
]

KEY = "Authorization: Bearer sk-a"
HISTORY = [ASK, CALL, RESULT]
RESTORED = [ASK, RS, CALL, RESULT]
LEARNT = whole(as_json(response(RS, CALL)))
# What the exchange afterwards is answered: odd enough to show whether it is the very bytes.
SAID = b'{ "output": [], "n": 1.0e5 }\n'
TOLD = "injected=1"
FILES = Path("/proc/self/fd")


class Kind(NamedTuple):
    """
    One kind of exchange.

    Attributes:
        name: For people.
        data: The request.
        content_type: Of its answer.
        pieces: The body of its answer; the first is half of something.
    """

    name: str
    data: bytes
    content_type: str
    pieces: Sequence[bytes]

    @property
    def body(self) -> bytes:
        """The body of its answer."""
        return b"".join(self.pieces)

    def head(self, *headers: str, status: str = "200 OK") -> bytes:
        """Spell the head of its answer."""
        return head(f"Content-Type: {self.content_type}", *headers, status=status)

    def sized(self, size: int | None = None, *headers: str, status: str = "200 OK") -> bytes:
        """Spell the head of its answer, with that length or the right one."""
        length = f"Content-Length: {len(self.body) if size is None else size}"
        return self.head(length, *headers, status=status)

    def chunked(self, *headers: str) -> bytes:
        """Spell the head of its answer in chunks."""
        return self.head("Transfer-Encoding: chunked", *headers)

    def whole(self, *headers: str, status: str = "200 OK") -> bytes:
        """Spell all of its answer, with its length."""
        return self.sized(None, *headers, status=status) + self.body


def _asked(*, stream: bool) -> bytes:
    return post({"model": MODEL, "input": HISTORY, "store": False, "stream": stream})


_ANSWER = as_json(response(RS_2, MESSAGE, rid="resp_fault_0000000001"))
STREAM = Kind(
    "stream",
    _asked(stream=True),
    "text/event-stream; charset=utf-8",
    events(RS_2, MESSAGE, rid="resp_fault_0000000001"),
)
JSON = Kind("json", _asked(stream=False), "application/json", [_ANSWER[:150], _ANSWER[150:]])
OTHER = Kind(
    "other",
    request("POST", "/v1/files", KEY, body=b"\x00\xff" * 100),
    "application/octet-stream",
    [b"\x00\x01\r\n", b"\xfe\xff" * 200],
)
HEAD = Kind(
    "head", request("HEAD", "/v1/files/f/content", KEY), "application/octet-stream", [b"x" * 99]
)
ALL = (STREAM, JSON, OTHER)
READ = (STREAM, JSON)
ROOM_BYTES = len(STREAM.data) * 3 // 2


class Seen(NamedTuple):
    """
    What a client sees.

    Attributes:
        status: 0 when there is no head.
        body: As much of it as comes; of an error of the proxy's own it is not looked at.
        is_whole: Whether the framing says that this is all.
        code: Of an error of the proxy's own.
    """

    status: int
    body: bytes = b""
    is_whole: bool = True
    code: str = ""


async def reads(line: Line) -> Seen:
    """Read what comes of one answer, behind interim ones."""
    try:
        head = await line.head()
        while head.status < 200:
            head = await line.head()
    except Broken:
        return Seen(0, is_whole=False)
    body, is_whole = await line.until_it_ends()
    for mark in head.values("x-reasoning-replay"):
        if mark.startswith("error="):
            return Seen(head.status, b"", is_whole, mark.removeprefix("error="))
    return Seen(head.status, body, is_whole)


def hang() -> Step:
    """Do nothing until the other side leaves."""

    async def step(script: Script, _: asyncio.StreamWriter) -> None:
        await script.left.wait()

    return step


def pause() -> Step:
    """Let what was sent be read; all is on one loop."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await writer.drain()
        await asyncio.sleep(0.02)

    return step


def half_close() -> Step:
    """Say that nothing more comes."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()

    return step


def reset() -> Step:
    """Reset the connection."""

    async def step(_: Script, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.02)  # a reset overtakes what the other side has not read
        reset_now(writer.transport)

    return step


def reset_now(transport: asyncio.BaseTransport) -> None:
    """Let the kernel send a reset, and no end."""
    given = transport.get_extra_info("socket")
    given.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert isinstance(transport, asyncio.Transport)
    transport.abort()


class Holdings(NamedTuple):
    """What this process has open."""

    files: int
    tasks: int


def holdings() -> Holdings:
    """Count what is open."""
    return Holdings(len(list(FILES.iterdir())), len(asyncio.all_tasks()))


class Upstream(scripted.Upstream):
    """An upstream that may treat connections otherwise than by reading from them."""

    def __init__(self) -> None:
        super().__init__()
        self.rude: Callable[[asyncio.BaseTransport], None] | None = None
        self.port = 0
        self._server: asyncio.Server | None = None

    def protocol(self) -> asyncio.Protocol:
        """As upstream's, unless it is rude."""
        return _Rude(self.rude) if self.rude is not None else super().protocol()

    async def open(self) -> None:
        """Listen; on the port that it had, if it had one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.protocol, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def shut(self) -> None:
        """Listen no longer."""
        assert self._server is not None
        self._server.close()

    @contextlib.asynccontextmanager
    async def shut_for_now(self) -> AsyncIterator[None]:
        """Refuse connections."""
        self.shut()
        yield
        await self.open()

    @contextlib.asynccontextmanager
    async def rude_for_now(
        self, act: Callable[[asyncio.BaseTransport], None]
    ) -> AsyncIterator[None]:
        """Do this with each connection, and read nothing."""
        self.rude = act
        yield
        self.rude = None


class _Rude(asyncio.Protocol):
    def __init__(self, act: Callable[[asyncio.BaseTransport], None]) -> None:
        self._act = act

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._act(transport)


class Stage:
    """
    A running proxy that has learnt something, before an upstream with one idle connection to it.

    Attributes:
        w: Both.
        door: That upstream.
    """

    def __init__(self, w: World, door: Upstream) -> None:
        self.w = w
        self.door = door
        self._before: dict[int, Holdings] = {}  # by how many clients are connected
        self._connections = 0

    async def learns(self) -> None:
        """Let the proxy have its first exchanges, and note what it holds from then on."""
        self.door.answers(LEARNT)
        assert (await self.w.turn(ASK)).status == 200
        async with line_to(self.w.app.url) as line:
            await self.works(line)
            await self._is_idle()
            self._before[1] = holdings()
        await eventually(lambda: holdings().files == self._before[1].files - 2)
        self._before[0] = holdings()
        self._connections = self.door.connections

    async def hangs_up(self) -> None:
        """Let upstream close its idle connection."""
        self.door.plays(Script([send(whole(b"{}")), close()]))
        assert (await self.w.get("/v1/models")).status == 200
        await self.holds(lines=0)

    async def works(self, line: Line | None = None, rounds: int = 1) -> None:
        """Check that exchanges are answered verbatim, and are given back what was learnt."""
        for _ in range(rounds):
            await self._is_idle()
            self.door.forget_scripts()
            self.door.answers(whole(SAID))
            got = await (line.ask(JSON.data) if line is not None else self.w.ask(JSON.data))
            assert (got.status, got.body, got.mark) == (200, SAID, TOLD)
            assert self.w.sent()["input"] == RESTORED

    async def is_as_before(self) -> None:
        """Check that nothing is held of what happened, all clients being gone, and all works."""
        await self.works(rounds=2)
        await self.holds(lines=1)

    async def holds(self, *, lines: int, clients: int = 0) -> None:
        """
        Wait until so many connections are open, and nothing is held besides.

        Args:
            lines: To upstream, 0 or 1.
            clients: Of clients, 0 or 1.
        """
        await self._is_idle()
        before, gone = self._before[clients], 1 - lines
        # Of a connection, both ends are here, and upstream has a task for it.
        want = Holdings(before.files - 2 * gone, before.tasks - gone)
        with contextlib.suppress(AssertionError):
            await eventually(lambda: holdings() == want)
        got = holdings()
        assert got == want, (got, want)

    def is_fresh(self) -> bool:
        """Tell whether upstream was connected to anew since this was asked last."""
        before, self._connections = self._connections, self.door.connections
        return self._connections > before

    async def _is_idle(self) -> None:
        await eventually(lambda: self.w.counted("in_flight") == 0)


@contextlib.asynccontextmanager
async def staged(**settings: Any) -> AsyncIterator[Stage]:
    """Run a proxy and its upstream; any setting may be given."""
    door = Upstream()
    await door.open()
    given: dict[str, Any] = {
        "upstream_url": door.url + "/v1",
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "log_format": "json",
        "log_level": "error",
        "max_exchanges": 1,
        "inspect_total_max_bytes": ROOM_BYTES,
    }
    try:
        async with running(Settings(**(given | settings))) as app:
            stage = Stage(World(app, door), door)
            await stage.learns()
            yield stage
    finally:
        door.shut()
        await door.close()
