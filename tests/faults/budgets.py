"""
Budgets: what a longer `store_budget_ms` costs while Redis fails, and what it finds when it is slow.

    python -m tests.faults.budgets

Agents continue their conversations at two replicas by turns, without local copies. For each fault
and each budget it prints one row: the share of lookups that the store answered in time, how long
exchanges waited for the store, and when the breaker opened. It needs redis-server. It takes some
minutes, and its times hold only for the machine on which it runs.
"""

import asyncio
import contextlib
import io
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from reasoning_replay.adapters.resilience.conversation_cache import ConversationCache
from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore
from reasoning_replay.adapters.resilience.store_guard import StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.redis.store import RedisStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.turns import records_of
from reasoning_replay.web.wiring import STORE_TIMEOUT_S

from tests.adapters.resilience.replicas import looked_up, said
from tests.adapters.stores.kinds import link_to
from tests.adapters.stores.turns import SCOPE
from tests.redis_server import RedisServer, redis_server
from tests.slow_line import SlowLine, slow_line

BUDGETS_MS = (50, 100, 250, 500, 1000)
BOUNDS = Bounds(ttl_s=86_400, max_turns=1024, max_bytes=8 << 20)
Fault = Callable[[], contextlib.AbstractContextManager[None]]
AGENTS = 8
EXCHANGES = 25  # of each agent
PAUSE_S = 0.05  # between the exchanges of an agent
ROW = "{:<16} {:>6} {:>9} {:>8} {:>8} {:>8} {:>10} {:>12}"


@dataclass
class Outcome:
    """
    What the exchanges of one run saw.

    Attributes:
        waits_s: Time that each exchange waited for the store.
        found: Number of lookups that the store answered in time.
        opened_s: Time until the lookups' breaker of either replica opened; None if it did not.
    """

    waits_s: list[float] = field(default_factory=list)
    found: int = 0
    opened_s: float | None = None

    def row(self, fault: str, budget_ms: int) -> str:
        """Return the row of the table."""
        waits = sorted(self.waits_s)
        p50, p99, longest = (1000 * waits[int(q * (len(waits) - 1))] for q in (0.5, 0.99, 1))
        opened = "-" if self.opened_s is None else f"{self.opened_s:.2f} s"
        share = f"{100 * self.found / len(waits):.1f} %"
        times = (f"{one:.0f} ms" for one in (p50, p99, longest))
        return ROW.format(fault, budget_ms, share, *times, opened, f"{sum(waits):.1f} s")


class Stage:
    """One Redis, the line to it, and the faults of both."""

    def __init__(self, redis: RedisServer, line: SlowLine) -> None:
        self._redis = redis
        self._line = line
        self.url = line.url

    @contextlib.contextmanager
    def works(self) -> Iterator[None]:
        """Do nothing."""
        yield

    @contextlib.contextmanager
    def refuses(self) -> Iterator[None]:
        """Kill the server; connections to it are refused."""
        self._redis.kill()
        self._line.cut()
        try:
            yield
        finally:
            self._redis.start()

    @contextlib.contextmanager
    def hangs(self) -> Iterator[None]:
        """Pause the server."""
        self._redis.pause()
        try:
            yield
        finally:
            self._redis.resume()

    def slow(self, delay_ms: int) -> Fault:
        """Return a fault: each round trip takes longer."""

        @contextlib.contextmanager
        def slowed() -> Iterator[None]:
            self._line.delay_s = delay_ms / 1000
            try:
                yield
            finally:
                self._line.delay_s = 0.0

        return slowed


@contextlib.contextmanager
def starving(programs: int) -> Iterator[None]:
    """Let this process share one core with programs that use all of it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    burn = [sys.executable, "-c", "while True: pass"]
    burners = [subprocess.Popen(burn) for _ in range(programs)]  # noqa: S603 - as written here
    try:
        yield
    finally:
        for one in burners:
            one.kill()
            one.wait()
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """Yield the address of a server that does not even accept connections."""
    with contextlib.ExitStack() as sockets:
        server = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):  # its queue is full from here on
            client = sockets.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


@contextlib.asynccontextmanager
async def replica(url: str, budget_ms: int) -> AsyncIterator[SafeStore]:
    """Run the store of one process without local copies."""
    timeout_s = max(STORE_TIMEOUT_S, budget_ms / 1000)
    guard = StoreGuard(timeout_s, Metrics(), Log("info", "json", io.StringIO()), time.monotonic)
    inner = RedisStore(link_to(url, timeout_s=timeout_s)(), BOUNDS)
    store = SafeStore(inner, guard, ConversationCache(0, Metrics()), Offloader())
    try:
        yield store
    finally:
        await store.close()


async def measure(url: str, fault: Fault, budget_ms: int) -> Outcome:
    """Run all agents while the fault lasts."""
    outcome = Outcome()
    async with replica(url, budget_ms) as one, replica(url, budget_ms) as other:
        first = said("warm")
        for store in (one, other):  # connections are open
            await store.look_up(SCOPE, looked_up(first), Budget(budget_ms / 1000))
        began_s = time.monotonic()

        async def speaks(agent: int) -> None:
            before = None
            for n in range(EXCHANGES):
                store = (one, other)[n % 2]
                this = said(f"{time.monotonic()} {agent} {n}", before, created_ms=n)
                budget, start_s = Budget(budget_ms / 1000), time.monotonic()
                found = await store.look_up(SCOPE, looked_up(before or first), budget)
                records, keys = records_of(this), keys_of_turn(this)
                await store.save(SCOPE, this.conversation, records, keys, budget)
                outcome.waits_s.append(time.monotonic() - start_s)
                outcome.found += found is not None
                if outcome.opened_s is None and not store._guard.breakers["recall"].is_closed:
                    outcome.opened_s = time.monotonic() - began_s
                before = this
                await asyncio.sleep(PAUSE_S)

        with fault():
            await asyncio.gather(*map(speaks, range(AGENTS)))
    return outcome


async def main() -> None:
    """Print the table."""
    heads = ("Redis", "budget", "answered", "p50", "p99", "longest", "opens", "all waits")
    print(ROW.format(*heads))  # noqa: T201 - its report
    with redis_server() as redis, black_hole() as nowhere:
        async with slow_line(redis.port) as line:
            stage = Stage(redis, line)
            direct = redis.url
            faults: dict[str, tuple[str, Fault]] = {
                "works": (direct, stage.works),
                "refuses": (direct, stage.refuses),
                "black hole": (nowhere, stage.works),
                "hangs": (direct, stage.hangs),
                **{f"+{ms} ms a trip": (stage.url, stage.slow(ms)) for ms in (20, 60, 150)},
                **{f"{n} on its core": (direct, partial(starving, n)) for n in (4, 12)},
            }
            for name, (url, fault) in faults.items():
                for budget_ms in BUDGETS_MS:
                    outcome = await measure(url, fault, budget_ms)
                    print(outcome.row(name, budget_ms), flush=True)  # noqa: T201 - its report


if __name__ == "__main__":
    asyncio.run(main())
