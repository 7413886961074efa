"""
Sides: proxies that keep what they decided, and proxies that decide everything from nothing.

Both have two replicas on one SQLite file, and one strict API that answers both alike.
"""

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from reasoning_replay.strict_api import DIALECTS, Item, Script, StrictApi
from reasoning_replay.strict_api.dialect import Dialect
from reasoning_replay.strict_api.server import read_body
from typing_extensions import override

from tests.e2e.proxies import ProxyProcess
from tests.patience import SOON_S

__all__ = ["Deed", "Difference", "Plan", "Sides", "both_sides"]

# Header fields that name a connection or a body, not a decision.
OWN_HEADERS = {"host", "content-length"}


@dataclass
class Plan:
    """
    One request of a client, and what the upstream does with it.

    Attributes:
        dialect: The name of the API.
        path: The path after the base URL.
        body: The bytes of the request.
        scenario: What the model says.
        is_marked: Whether it says it in words of its own.
        replica: The number of the replica that gets it, 0 or 1.
        refusals: The bodies of the refusals of the first attempts.
        again: The exchange whose response is repeated, as a cache does.
        cut: The share of the response after which the client leaves; None: it reads all.
        answer: The answer that was made.
        pieces: The same in pieces; one piece is a JSON document, several are a stream.
    """

    dialect: str
    path: str
    body: bytes
    scenario: str = "RA"
    is_marked: bool = True
    replica: int = 0
    refusals: Sequence[bytes] = ()
    again: "Plan | None" = None
    cut: float | None = None
    answer: Item = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)

    @property
    def until(self) -> int | None:
        """After how many pieces the client leaves."""
        if self.cut is None or len(self.pieces) < 2:
            return None
        return 1 + int(self.cut * (len(self.pieces) - 1))


@dataclass(frozen=True)
class Deed:
    """What an operator does: `forget` a conversation, `forget_all`, `shadow`, `on`, `restart`."""

    what: str
    of: int = 0


@dataclass
class Received:
    """What the upstream received of one exchange from one side, and what the client got."""

    bodies: list[bytes] = field(default_factory=list)
    heads: list[list[tuple[str, str]]] = field(default_factory=list)
    status: int = 0
    mark: str = ""
    answer: bytes = b""
    log: dict[str, Any] = field(default_factory=dict)

    @property
    def lacks(self) -> str:
        """The mark, with one word for reasoning that was not found and for that of several."""
        return re.sub(r"\b(?:missed|ambiguous)=", "not found=", self.mark)

    def differs(self, other: "Received") -> str:
        """Return what the other side has otherwise: the strongest difference, or ""."""
        if len(self.bodies) != len(other.bodies):
            return "attempts"
        if list(map(json.loads, self.bodies)) != list(map(json.loads, other.bodies)):
            return "bodies"
        names = ("bodies", "heads", "status", "answer", "lacks", "mark")
        differ = next((one for one in names if getattr(self, one) != getattr(other, one)), "")
        return "reason" if differ == "mark" else differ


class Accepting(Dialect):
    """A dialect, as a mixin, that accepts whatever a client makes of its history."""

    @override
    def refusals(self, *_: object) -> Iterator[Any]:
        return iter(())


class Twin(StrictApi):
    """A strict API that gives both sides the answer that it made for the first one."""

    def __init__(self) -> None:
        super().__init__(body_max_bytes=1 << 24)
        kinds = {name: type(name, (Accepting, one), {}) for name, one in DIALECTS.items()}
        self.dialects: dict[str, Dialect] = {name: kind(Script()) for name, kind in kinds.items()}
        self.plans: dict[str, Plan] = {}
        self.got: dict[str, Received] = defaultdict(Received)
        self.gates: dict[str, asyncio.Event] = {}
        self.arrived: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.goes: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.left: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @override
    async def respond(self, request: web.Request) -> web.StreamResponse:
        name = request.headers["x-exchange"]
        plan, got, raw = self.plans[name], self.got[name], await request.read()
        got.bodies.append(raw)
        head = [(key.lower(), value) for key, value in request.headers.items()]
        got.heads.append(sorted(one for one in head if one[0] not in {*OWN_HEADERS, "x-exchange"}))
        if len(got.bodies) <= len(plan.refusals):
            body = plan.refusals[len(got.bodies) - 1]
            return web.Response(status=400, body=body, content_type="application/json")
        self.arrived[name].set()
        await self.gates[name].wait()
        if not plan.pieces:
            self._make(plan, raw, request)
        if len(plan.pieces) == 1:
            return web.Response(body=plan.pieces[0], content_type="application/json")
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for piece in plan.pieces[: plan.until]:
            await answer.write(piece)
        if plan.until is not None:
            await self.goes[name].wait()
            with contextlib.suppress(ConnectionError):
                while request.transport is not None and not request.transport.is_closing():
                    await answer.write(b": still there\n\n")  # its leaving may be taken for half
                    await asyncio.sleep(0.005)
            self.left[name].set()
        return answer

    def _make(self, plan: Plan, raw: bytes, request: web.Request) -> None:
        """Make the answer of a plan."""
        if plan.again is not None and plan.again.pieces:
            plan.answer, plan.pieces = plan.again.answer, plan.again.pieces
            return
        dialect = self.dialects[plan.dialect]
        body = read_body(raw, dialect.history) | (dialect.members_of(request.rel_url) or {})
        dialect.script = Script((plan.scenario,), plan.is_marked)
        exchange, plan.answer = dialect.serve(body, "")
        assert exchange.refused is None
        plan.pieces = [json.dumps(plan.answer).encode()]
        if body.get("stream"):
            plan.pieces = list(dialect.events(plan.answer))


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

    def __init__(self, name: str, upstream: Twin, folder: Path, **more: str) -> None:
        self.name = name
        self._settings = folder / f"{name}.yaml"
        self._settings.write_text("mode: 'on'\n")
        more = {"config": str(self._settings), **more}
        url = f"sqlite://{folder}/{name}.db"
        self.replicas = [Logged(upstream.base_url, url, **more) for _ in range(2)]
        self._mode = "on"
        self._upstream = upstream

    async def send(self, session: aiohttp.ClientSession, name: str, plan: Plan, key: str) -> None:
        """Send one request, read the response, and wait until the exchange is logged."""
        proxy, got = self.replicas[plan.replica], self._upstream.got[name]
        headers = {
            "authorization": f"Bearer {key}",
            "content-type": "application/json",
            "x-exchange": name,
        }
        url = proxy.base_url + plan.path
        leaves = False
        async with session.post(url, data=plan.body, headers=headers) as answer:
            got.status = answer.status
            got.mark = answer.headers.get("x-reasoning-replay", "")
            request_id = answer.headers.get("x-reasoning-replay-request-id", "")
            leaves = answer.status == 200 and plan.until is not None
            if leaves:
                want = sum(map(len, plan.pieces[: plan.until]))
                got.answer = await answer.content.readexactly(want)
                answer.close()
            else:
                got.answer = await answer.read()
        if leaves:
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
        log = self._upstream.got[named].log
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
        bad = {"failed", "store_failed", "budget_exceeded"}
        events = (one for proxy in self.replicas for one in proxy.events)
        exchanges = (one for proxy in self.replicas for one in proxy.exchanges.values())
        found = [one for one in events if one["event"] not in quiet and one["level"] != "info"]
        found += [one for one in exchanges if {one.get("asked"), one.get("captured")} & bad]
        return [json.dumps(one) for one in found]


@dataclass
class Difference:
    """One difference between the sides."""

    what: str
    kept: Received
    other: Received


class Sides:
    """Both sides, and the upstream."""

    def __init__(self, upstream: Twin, sides: tuple[Side, Side]) -> None:
        self.upstream, self.sides = upstream, sides
        self._names = itertools.count()
        self.ways: Counter[str] = Counter()
        self.errors = 0

    async def play(
        self, session: aiohttp.ClientSession, key: str, step: Sequence[Plan] | Deed, last: str
    ) -> tuple[str, Difference | None]:
        """
        Play a step on both sides.

        Args:
            session: HTTP connections.
            key: The key of the client.
            step: What happens.
            last: The name of the exchange that a deed is about.

        Returns:
            The name of its first exchange, and the first difference.
        """
        if isinstance(step, Deed):
            says = [await one.do(session, step, f"{last}/{one.name}") for one in self.sides]
            kept, other = (Received(mark=say) for say in says)
            return last, Difference("deed", kept, other) if says[0] != says[1] else None
        names = [f"{next(self._names)}" for _ in step]
        await asyncio.gather(*(self._at_once(session, one, names, step, key) for one in self.sides))
        for name in names:
            kept, other = (self.upstream.got[f"{name}/{one.name}"] for one in self.sides)
            self.errors += any("error=" in one.mark for one in (kept, other))
            self.ways[f"{kept.log.get('way')} | {other.log.get('way')}"] += 1
            if what := kept.differs(other):
                return names[0], Difference(what, kept, other)
        return names[0], None

    async def _at_once(
        self,
        session: aiohttp.ClientSession,
        side: Side,
        names: Sequence[str],
        plans: Sequence[Plan],
        key: str,
    ) -> None:
        """Let requests be in flight at once: they arrive in this order, and are answered in it."""
        up, running = self.upstream, []
        for name, plan in zip(names, plans, strict=True):
            full = f"{name}/{side.name}"
            up.plans[full], up.gates[full] = plan, asyncio.Event()
            running.append(asyncio.create_task(side.send(session, full, plan, key)))
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
        upstream = await stack.enter_async_context(Twin())
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
