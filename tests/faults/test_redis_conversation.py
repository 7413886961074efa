"""
Every point of the conversation with Redis, and every fault of the network or of the server at it.

Two replicas on uvloop, six clients each. No request fails and no reasoning is invented during the
fault; after it the store is used again, the log says so, and the other replica sees the new turns.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import uvloop
from reasoning_replay.adapters.resilience.store_guard import AT_ONCE

from tests.fast_lane import first, slow
from tests.faults.faulty_line import EFFECTS, ERRORS, STORE_TIMEOUT_S, FaultyLine, Point
from tests.faults.standalone import USER, standalone
from tests.faults.suffering import Suffering, anew, is_whole_at, question, suffering
from tests.patience import SOON_S
from tests.redis_server import RedisServer, redis_server, wait_until
from tests.slow_line import listening

CACHE_BYTES = 1 << 25
CROWD = 3  # pairs of clients, of each replica
# Most operations that fail after the end of a fault: those in flight, lookups and saves of two
# replicas, and a few probes.
LATE_MOST = 2 * 2 * AT_ONCE + 8
NETWORK = tuple(effect for effect in EFFECTS if effect not in ERRORS)
IN_PIPELINE = ("LOADING", "READONLY", "OOM", "NOAUTH")
# What is the same at two points is tried at one of them. Inside a value, a reply is a part of it.
TABLE: dict[Point, Sequence[str]] = {
    "connect": ["reset", "silence", "garbage", "LOADING", "maxclients"],
    "login": ["FIN", "delay", "a reply too many", "LOADING", "NOAUTH", "WRONGPASS"],
    "between": [*NETWORK, *IN_PIPELINE],
    "inside": [effect for effect in NETWORK if effect != "a reply too many"],
    "idle": [*NETWORK, *IN_PIPELINE],
}
# One replica alone: (point, effects).
ALONE: dict[Point, Sequence[str]] = {"inside": ["reset", "silence"], "idle": ["reset", "FIN"]}


@contextlib.asynccontextmanager
async def replicas(url: str, count: int) -> AsyncIterator[Sequence[Suffering]]:
    """Run proxies on a store, with local copies."""
    async with contextlib.AsyncExitStack() as stack:
        ones: list[Suffering] = []
        for _ in range(count):
            next_to = ones[0] if ones else None
            one = suffering(
                url, STORE_TIMEOUT_S, next_to=next_to, crowd=CROWD, local_max_bytes=CACHE_BYTES
            )
            ones.append(await stack.enter_async_context(one))
        yield ones


def failed(ones: Sequence[Suffering]) -> int:
    """Count the store operations that failed, of all replicas."""
    counts = [one.operations(name) for one in ones for name in ("recall", "save", "check")]
    return sum(count["error"] + count["timeout"] for count in counts)


async def passes(ones: Sequence[Suffering], line: FaultyLine, point: Point, effect: str) -> None:
    """Check one row of the table."""
    for one in ones:
        await anew(one.old).converse([question()])
    line.begins(point, effect)
    async with asyncio.timeout(SOON_S):
        while not line.hits:
            await converse(ones)
    line.ends()
    await is_used_again(ones)


async def converse(ones: Sequence[Suffering], during: Callable[[], None] | None = None) -> None:
    """Let six clients of each replica talk; every request succeeds."""
    first, *others = ones
    await asyncio.gather(
        first.converse(fresh=5, during=during), *(one.converse(fresh=5) for one in others)
    )


async def is_used_again(ones: Sequence[Suffering], *, keeps: bool = True) -> None:
    """
    Wait until each replica says so, and sees the turns of another one; few probes fail.

    Args:
        ones: The replicas.
        keeps: Whether the store has what it had; if not, only new conversations are seen.
    """
    before = failed(ones)
    await asyncio.gather(*(one.recovers() for one in ones))
    for one, other in zip(ones, [*ones[1:], ones[0]], strict=True):
        if not keeps:
            await anew(one.old).converse([question()])
        async with asyncio.timeout(SOON_S):
            while not await is_whole_at(one.old, other.app.url):
                pass
        one.assert_told(has_failed=None)
    assert failed(ones) - before <= LATE_MOST


@slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("count", "point"), [*((2, point) for point in TABLE), *((1, point) for point in ALONE)]
)
def test_a_fault_is_not_noticed_and_passes(count: int, point: Point) -> None:
    """Each effect at this point, one after another, on the same replicas."""

    async def run() -> None:
        async with (
            standalone(line_kind=FaultyLine) as store,
            replicas(store.url, count) as ones,
        ):
            assert isinstance(store.line, FaultyLine)
            for effect in (TABLE if count > 1 else ALONE)[point]:
                try:
                    await passes(ones, store.line, point, effect)
                except BaseException as error:
                    error.add_note(f"{effect} at {point}")
                    raise

    uvloop.run(run())


@pytest.mark.timeout(400)
def test_killed_and_started_again() -> None:
    """After each `kill -9` under load, the store is used again, and turns are shared."""

    async def run() -> None:
        async with standalone(keeps=True) as store, replicas(store.url, 2) as ones:
            for _ in range(3):
                for one in ones:
                    await anew(one.old).converse([question()])
                await converse(ones, store.server.kill)
                store.server.start()
                await is_used_again(ones)

    uvloop.run(run())


OLD: dict[str, Callable[[RedisServer, int], None]] = {
    "lives on as a replica": lambda old, port: old.do("REPLICAOF", "127.0.0.1", port),
    "lives on without replicas": lambda old, _: old.do("CONFIG", "SET", "min-replicas-to-write", 1),
    "is killed": lambda old, _: old.kill(),
    "hangs": lambda old, _: old.pause(),
}


@pytest.mark.parametrize("becomes_old", first(1, list(OLD.values())), ids=first(1, list(OLD)))
def test_the_address_leads_to_another_server(
    becomes_old: Callable[[RedisServer, int], None],
) -> None:
    """A name, a Service or a balancer leads new connections to a new master; all follow."""

    async def run() -> None:
        with redis_server(USER) as heir:
            async with standalone() as store, replicas(store.url, 2) as ones:
                for one in ones:
                    await anew(one.old).converse([question()])

                def fails_over() -> None:
                    store.line.to_port = heir.port
                    becomes_old(store.server, heir.port)

                await converse(ones, fails_over)
                await is_used_again(ones, keeps=False)
                assert int(heir.told("keyspace")["db0"].split(",")[0].removeprefix("keys="))

    uvloop.run(run())


@contextlib.asynccontextmanager
async def announced(kind: str) -> AsyncIterator[tuple[FaultyLine, str]]:
    """Run a Redis whose Sentinel, or whose Cluster, announces a line to it; yield its address."""
    own = ["cluster-enabled yes"] if kind == "cluster" else []
    with redis_server(*own) as server:
        async with listening(FaultyLine(server.port)) as line:
            if kind == "cluster":
                server.do("CONFIG", "SET", "cluster-announce-port", line.port)
                server.do("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
                wait_until(lambda: server.told("CLUSTER INFO")["cluster_state"] == "ok")
                yield line, f"redis+cluster://127.0.0.1:{line.port}"
                return
            watched = f"sentinel monitor main 127.0.0.1 {line.port} 1"
            calm = "sentinel down-after-milliseconds main 600000"
            with redis_server(watched, calm, words=["--sentinel"]) as sentinel:
                yield line, f"redis+sentinel://127.0.0.1:{sentinel.port}/main"


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["sentinel", "cluster"])
def test_idle_flows_of_sentinels_and_clusters(kind: str) -> None:
    """A flow that a balancer has forgotten is replaced, also where Redis names the address."""

    async def run() -> None:
        async with announced(kind) as (line, url), replicas(url, 2) as ones:
            for effect in first(1, ["reset", "silence", "FIN"]):
                await passes(ones, line, "idle", effect)

    uvloop.run(run())
