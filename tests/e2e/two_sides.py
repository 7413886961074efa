"""
Sides: proxies that keep what they decided, and proxies that decide everything from nothing.

Both have two replicas on one SQLite file, and one upstream that answers both alike.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import aiohttp
from aiohttp import web

from tests.e2e.proxies import ProxyProcess
from tests.patience import SOON_S

__all__ = ["Deed", "Exchange", "Received", "Side", "Sides", "Step", "both_sides"]

# Header fields that name a connection or a body, not a decision.
OWN_HEADERS = {"host", "content-length"}


@dataclass(frozen=True)
class Exchange:
    """
    One request of a client, and what the upstream does with it.

    Attributes:
        path: The path after the base URL.
        body: The bytes of the request.
        replica: The number of the replica that gets it, 0 or 1.
        refusals: The refusals of the first attempts, as bodies with a status.
        pieces: The response in pieces; one piece is a JSON document, several are a stream.
        cut: After how many pieces the client leaves; None: it reads the whole response.
    """

    path: str
    body: bytes
    replica: int
    refusals: tuple[tuple[int, bytes], ...]
    pieces: tuple[bytes, ...]
    cut: int | None = None


@dataclass(frozen=True)
class Deed:
    """What an operator does: `forget` a conversation, `forget_all`, `shadow`, `on`, `restart`."""

    what: str
    of: int = 0


Step = Sequence[Exchange] | Deed


@dataclass
class Received:
    """What the upstream received of one exchange from one side, and what the client got."""

    bodies: list[bytes] = field(default_factory=list)
    heads: list[list[tuple[str, str]]] = field(default_factory=list)
    status: int = 0
    mark: str = ""
    answer: bytes = b""
    log: dict[str, Any] = field(default_factory=dict)

    def differs(self, other: "Received") -> str:
        """Return what the other side has otherwise: the strongest difference, or ""."""
        if len(self.bodies) != len(other.bodies):
            return "attempts"
        if list(map(json.loads, self.bodies)) != list(map(json.loads, other.bodies)):
            return "bodies"
        if self.bodies != other.bodies:
            return "bytes"
        if self.heads != other.heads:
            return "headers"
        if (self.status, self.answer) != (other.status, other.answer):
            return "answer"
        return "" if self.mark == other.mark else "mark"


class Upstream:
    """An upstream that records each request, and answers as the exchange says."""

    def __init__(self) -> None:
        self.url = ""
        self.plans: dict[str, Exchange] = {}
        self.received: dict[str, Received] = defaultdict(Received)
        self.gates: dict[str, asyncio.Event] = {}
        self.arrived: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.goes: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.left: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Serve on a free port of loopback."""
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/{rest:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.headers["x-exchange"]
        plan, got = self.plans[name], self.received[name]
        got.bodies.append(await request.read())
        got.heads.append(
            sorted(
                (key.lower(), value.partition("/")[0] if key == "x-exchange" else value)
                for key, value in request.headers.items()
                if key.lower() not in OWN_HEADERS
            )
        )
        if len(got.bodies) <= len(plan.refusals):
            status, body = plan.refusals[len(got.bodies) - 1]
            return web.Response(status=status, body=body, content_type="application/json")
        self.arrived[name].set()
        await self.gates[name].wait()
        if len(plan.pieces) == 1:
            return web.Response(body=plan.pieces[0], content_type="application/json")
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for piece in plan.pieces[: plan.cut]:
            await answer.write(piece)
        if plan.cut is not None:
            await self.goes[name].wait()
            with contextlib.suppress(ConnectionError):
                while request.transport is not None and not request.transport.is_closing():
                    await answer.write(
                        b": still there\n\n"
                    )  # a proxy may take its leaving for half
                    await asyncio.sleep(0.005)
            self.left[name].set()
        return answer


class Logged(ProxyProcess):
    """A proxy process whose lines of exchanges are kept, by request id."""

    def __init__(self, upstream_url: str, store_url: str, **more: str) -> None:
        super().__init__(upstream_url, store_url, **more)
        self.exchanges: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []

    async def _read(self, stdout: asyncio.StreamReader) -> None:
        """Read the log continuously."""
        async for line in stdout:
            try:
                entry = json.loads(line)
            except ValueError:
                entry = {"level": "error", "event": line.decode(errors="replace")}
            if entry["event"] == "exchange":
                self.exchanges[entry["request_id"]] = entry
            else:
                self.events.append(entry)


class Side:
    """Two replicas on one store."""

    def __init__(self, name: str, upstream: Upstream, folder: Path, **more: str) -> None:
        self.name = name
        self._settings = folder / f"{name}.yaml"
        self._settings.write_text("mode: 'on'\n")
        more = {"config": str(self._settings), **more}
        url = f"sqlite://{folder}/{name}.db"
        self.replicas = [Logged(upstream.url, url, **more) for _ in range(2)]
        self._mode = "on"
        self._upstream = upstream

    async def send(
        self, session: aiohttp.ClientSession, name: str, plan: Exchange, key: str
    ) -> None:
        """Send one request, read the response, and wait until the exchange is logged."""
        proxy, got = self.replicas[plan.replica], self._upstream.received[name]
        headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "x-exchange": name,
        }
        url = proxy.base_url + plan.path
        async with session.post(url, data=plan.body, headers=headers) as answer:
            got.status = answer.status
            got.mark = answer.headers.get("x-reasoning-replay", "")
            request_id = answer.headers.get("x-reasoning-replay-request-id", "")
            if plan.cut is None or answer.status != 200:
                got.answer = await answer.read()
            else:
                want = sum(map(len, plan.pieces[: plan.cut]))
                got.answer = await answer.content.readexactly(want) if want else b""
                answer.close()
        if plan.cut is not None and answer.status == 200:
            self._upstream.goes[name].set()
            await asyncio.wait_for(self._upstream.left[name].wait(), SOON_S)
        async with asyncio.timeout(SOON_S):
            while request_id and request_id not in proxy.exchanges:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        got.log = proxy.exchanges.get(request_id, {})

    async def do(self, session: aiohttp.ClientSession, deed: Deed, named: str) -> str:
        """Do what an operator does; return what the admin port says."""
        if deed.what in ("shadow", "on"):
            if self._mode != deed.what:
                self._mode = deed.what
                self._settings.write_text(f"mode: '{deed.what}'\n")
                for proxy in self.replicas:
                    seen = len(proxy.events)
                    os.kill(proxy.pid, signal.SIGHUP)
                    async with asyncio.timeout(SOON_S):
                        while all(e["event"] != "reloaded" for e in proxy.events[seen:]):  # noqa: ASYNC110
                            await asyncio.sleep(0.005)
            return ""
        if deed.what == "restart":
            await self.replicas[deed.of % 2].restart()
            return ""
        log = self._upstream.received[named].log
        if "conversation" not in log:
            return "none"
        where = f"scopes/{log['scope']}"
        if deed.what == "forget":
            where = f"conversations/{log['scope']}:{log['conversation']}"
        async with session.delete(f"{self.replicas[deed.of % 2].admin_url}/{where}") as answer:
            body = await answer.json()
            body.get("error", {}).pop("message", "")
            return f"{answer.status} {body}"

    @property
    def complaints(self) -> list[str]:
        """Log lines that no run may have."""
        quiet = ("started", "reloaded", "stopped", "draining", "doubtful_setting")
        found = [
            json.dumps(event)
            for proxy in self.replicas
            for event in proxy.events
            if event["event"] not in quiet and event["level"] != "info"
        ]
        found += [
            json.dumps(entry)
            for proxy in self.replicas
            for entry in proxy.exchanges.values()
            if {entry.get("asked"), entry.get("captured")}
            & {"failed", "store_failed", "budget_exceeded"}
        ]
        return found


@dataclass
class Difference:
    """One difference between the sides."""

    step: int
    number: int
    what: str
    kept: Received
    other: Received


class Sides:
    """Both sides, and the upstream."""

    def __init__(self, upstream: Upstream, sides: tuple[Side, Side]) -> None:
        self.upstream, self.sides = upstream, sides
        self._runs = itertools.count()
        self.ways: dict[str, int] = defaultdict(int)
        self.exchanges = self.errors = 0
        self.marks: dict[str, int] = defaultdict(int)

    async def play(self, script: Sequence[Step]) -> list[Difference]:
        """Play a script on both sides, with a key of its own; return the differences."""
        run = f"{next(self._runs)}-{time.monotonic_ns()}"
        found: list[Difference] = []
        number = 0
        timeout = aiohttp.ClientTimeout(total=SOON_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            await asyncio.gather(*(one.do(session, Deed("on"), "") for one in self.sides))
            for at, step in enumerate(script):
                if isinstance(step, Deed):
                    of = f"{run}-{at - 1 - step.of}-0"
                    says = await asyncio.gather(
                        *(one.do(session, step, f"{of}/{one.name}") for one in self.sides)
                    )
                    if says[0] != says[1]:
                        kept, other = (Received(mark=say) for say in says)
                        found.append(Difference(at, number, "deed", kept, other))
                    continue
                names = [f"{run}-{at}-{n}" for n in range(len(step))]
                await asyncio.gather(
                    *(self._at_once(session, one, names, step, run) for one in self.sides)
                )
                for name in names:
                    kept, other = (self.upstream.received[f"{name}/{s.name}"] for s in self.sides)
                    self.exchanges += 1
                    self.errors += any("error=" in one.mark for one in (kept, other))
                    self.ways[f"{kept.log.get('way')} | {other.log.get('way')}"] += 1
                    for word in kept.mark.split(", "):
                        self.marks[word.partition("=")[0]] += int(
                            n if (n := word.partition("=")[2]).isdigit() else 1
                        )
                    if what := kept.differs(other):
                        found.append(Difference(at, number, what, kept, other))
                    number += 1
        return found

    async def _at_once(
        self,
        session: aiohttp.ClientSession,
        side: Side,
        names: Sequence[str],
        plans: Sequence[Exchange],
        run: str,
    ) -> None:
        """Let requests be in flight at once: they arrive in this order, and are answered in it."""
        up, running = self.upstream, []
        for name, plan in zip(names, plans, strict=True):
            full = f"{name}/{side.name}"
            up.plans[full], up.gates[full] = plan, asyncio.Event()
            running.append(asyncio.create_task(side.send(session, full, plan, f"sk-{run}")))
            arrived = asyncio.create_task(up.arrived[full].wait())
            await asyncio.wait({arrived, running[-1]}, return_when="FIRST_COMPLETED")
            arrived.cancel()
        for name, task in zip(names, running, strict=True):
            up.gates[f"{name}/{side.name}"].set()
            await task


@contextlib.asynccontextmanager
async def both_sides(folder: Path, profile: str = "auto") -> AsyncIterator[Sides]:
    """Run both sides."""
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(Upstream().serving())
        sides = (
            Side("kept", upstream, folder, upstream_profile=profile),
            Side("not", upstream, folder, upstream_profile=profile, local_max_bytes="0"),
        )
        every = [proxy for side in sides for proxy in side.replicas]
        for proxy in every:
            stack.push_async_callback(proxy.kill)
        for one, other in (every[::2], every[1::2]):  # one of each side creates its file
            await asyncio.gather(one.start(), other.start())
        yield Sides(upstream, sides)
