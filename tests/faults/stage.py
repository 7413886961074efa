"""
Stage: a proxy between an upstream and a client that both misbehave, and a count of what it holds.

All sockets belong to this process, so its open files and tasks are all that exist. The proxy has
room for one exchange and one request at a time: an exchange slot or buffer share that is not
released makes the next exchange fail.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.faults.kinds import JSON, RESTORED, STREAM
from tests.patience import SOON_S
from tests.web import scripted
from tests.web.line import Line, line_to
from tests.web.scripted import Script, close, send
from tests.web.wire import ASK, CALL, RS, as_json, response, whole
from tests.web.world import World, eventually

__all__ = ["LEARNT", "ROOM_BYTES", "Stage", "Upstream", "staged"]

LEARNT = whole(as_json(response(RS, CALL)))
# Response of the exchange afterwards: its odd spelling shows whether the bytes are unchanged.
SAID = b'{ "output": [], "n": 1.0e5 }\n'
TOLD = "injected=1"
STILL = 4  # equal counts in a row
FILES = Path("/dev/fd")  # on Linux and macOS
# Room for one request, as it was received and as it is sent, but not for two.
ROOM_BYTES = 3 * len(STREAM.data)


class Holdings(NamedTuple):
    """Open files and tasks of this process."""

    files: int
    tasks: int


def holdings() -> Holdings:
    """Count the open files and tasks."""
    return Holdings(len(list(FILES.iterdir())), len(asyncio.all_tasks()))


async def settled() -> Holdings:
    """Count the open files and tasks once the counts are stable."""
    seen: list[Holdings] = []
    async with asyncio.timeout(SOON_S):
        while len(seen) < STILL or len({*seen[-STILL:]}) > 1:
            await asyncio.sleep(0.003)
            seen.append(holdings())
    return seen[-1]


class Upstream(scripted.Upstream):
    """Scripted upstream that can also refuse connections."""

    def __init__(self) -> None:
        super().__init__()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listen, on the same port as before if there was one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.protocol, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def shut(self) -> None:
        """Stop listening."""
        assert self._server is not None
        self._server.close()

    @contextlib.asynccontextmanager
    async def shut_for_now(self) -> AsyncIterator[None]:
        """Refuse connections inside this context."""
        self.shut()
        yield
        await self.open()


class Stage:
    """
    Running proxy that has captured something, in front of an upstream with one idle connection.

    Attributes:
        w: The proxy and its upstream.
        door: The upstream.
    """

    def __init__(self, w: World, door: Upstream) -> None:
        self.w = w
        self.door = door
        self._before: dict[int, Holdings] = {}  # by number of connected clients
        self._connections = 0

    async def learns(self) -> None:
        """Make the first exchanges, then record what the proxy holds."""
        self.door.answers(LEARNT)
        assert (await self.w.turn(ASK)).status == 200
        async with line_to(self.w.app.url) as line:
            await self.works(line)
            await self._is_idle()
            self._before[1] = await settled()
        self._before[0] = await settled()
        assert self._before[0].files == self._before[1].files - 2
        self._connections = self.door.connections

    async def hangs_up(self) -> None:
        """Let the upstream close its idle connection."""
        self.door.plays(Script([send(whole(b"{}")), close()]))
        assert (await self.w.get("/v1/models")).status == 200
        await self.holds(lines=0)

    async def works(self, line: Line | None = None, rounds: int = 1) -> None:
        """Check that exchanges pass byte for byte and that captured reasoning is injected."""
        for _ in range(rounds):
            await self._is_idle()
            self.door.forget_scripts()
            self.door.answers(whole(SAID))
            got = await (line.ask(JSON.data) if line is not None else self.w.ask(JSON.data))
            assert (got.status, got.body, got.mark) == (200, SAID, TOLD)
            assert self.w.sent()["input"] == RESTORED

    async def is_as_before(self) -> None:
        """Check that no client is left, that nothing more is held, and that exchanges work."""
        await self.works(rounds=2)
        await self.holds(lines=1)

    async def holds(self, *, lines: int, clients: int = 0) -> None:
        """
        Wait until this many connections are open and nothing else is held.

        Args:
            lines: Connections to upstream, 0 or 1.
            clients: Connections of clients, 0 or 1.
        """
        await self._is_idle()
        before, gone = self._before[clients], 1 - lines
        # Both ends of a connection are in this process, and upstream has one task for it.
        want = Holdings(before.files - 2 * gone, before.tasks - gone)
        with contextlib.suppress(AssertionError):
            await eventually(lambda: holdings() == want)
        got = holdings()
        assert got == want, (got, want)

    def is_fresh(self) -> bool:
        """Return whether a new connection to upstream was opened since the last call."""
        before, self._connections = self._connections, self.door.connections
        return self._connections > before

    async def _is_idle(self) -> None:
        await eventually(lambda: self.w.counted("in_flight") == 0)


@contextlib.asynccontextmanager
async def staged(*, learns: bool = True, **settings: Any) -> AsyncIterator[Stage]:
    """
    Run a proxy and its upstream.

    Args:
        learns: Whether it makes its first exchanges; if not, holdings are not compared.
        settings: Settings of the proxy.
    """
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
            if learns:
                await stage.learns()
            yield stage
    finally:
        door.shut()
        await door.close()
