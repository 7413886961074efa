"""Soak run: starts all processes, applies load and store failures, and measures."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random

import aiohttp

from tests.e2e.proxies import ProxyProcess
from tests.faults.faulty_line import FaultyLine, Point
from tests.redis_server import RedisServer, redis_server
from tests.slow_line import listening
from tests.soak.gauges import Gauges, Lag
from tests.soak.hostile import Hostile
from tests.soak.load import Load
from tests.soak.relay import dice, upstream

SETTINGS = {
    "store_budget_ms": "500",
    "connect_timeout_s": "2",
    "first_byte_timeout_s": "3",
    "read_timeout_s": "3",
    "local_max_bytes": "4194304",  # soon full, so that memory soon reaches its final size
    "ttl_s": "600",
}
SETTLES_S = 10.0  # broken requests have ended by then
# Written data survives a kill; a save does not wait for the disk of a busy machine.
KEEPS = ("appendonly yes", "appendfsync everysec")
WELL_S = 300.0
# The pause between the proxy's probes grows to this value while the store fails.
TRIES_S = 10.0
OUTAGE_S = (0.3, 4.0)
# Faults of the link to Redis, each at some point of the conversation with it.
POINTS: tuple[Point, ...] = ("connect", "idle", "between", "inside")
EFFECTS = ("reset", "FIN", "silence", "delay", "garbage")
# Requests at the end that show whether the store is used.
LAST_S = 3.0
IN_FLIGHT = ("reasoning_replay_in_flight ",)
STORE_USES = ('operation="recall",outcome="ok"', 'operation="save",outcome="ok"')


@dataclass(frozen=True, slots=True)
class Options:
    """
    Options of a soak.

    Attributes:
        minutes: Duration.
        seed: Seed of all random choices; timing remains random.
        rate: Largest number of requests per second.
        clients: Number of parallel clients.
        share: Share of responses with a fault.
        hostile: Number of parallel clients of the hostile tenant.
        outages_every_s: Mean time between store failures, in seconds.
        replicas: Number of processes on one Redis.
    """

    minutes: float = 30.0
    seed: str = ""
    rate: float = 20.0
    clients: int = 24
    share: float = 0.04
    hostile: int = 2
    outages_every_s: float = 40.0
    replicas: int = 2


@dataclass(frozen=True, slots=True)
class Result:
    """
    Results of a soak.

    Attributes:
        counts: The judge's counters, and those of the run.
        wrong: The faults.
        gauges: One for each replica.
        lags: The same.
        uses: Successful operations of each replica on its store, after all faults.
        idle_files: Open files of each replica, at the start and at the end.
        in_flight: Exchanges in flight at the end, as the replicas report them.
        took_s: Duration of the load, in seconds.
    """

    counts: Counter[str]
    wrong: list[str]
    gauges: Sequence[Gauges]
    lags: Sequence[Lag]
    uses: Sequence[float]
    idle_files: Sequence[tuple[int, int]]
    in_flight: float
    took_s: float


async def soak(options: Options) -> Result:
    """Run one soak; it ends some seconds after its time."""
    async with contextlib.AsyncExitStack() as stack:
        above = upstream(options.seed, options.share)
        judge, upstream_url = await stack.enter_async_context(above)
        redis = stack.enter_context(redis_server(*KEEPS))
        link = await stack.enter_async_context(listening(FaultyLine(redis.port)))
        replicas = [
            ProxyProcess(upstream_url, link.url, **SETTINGS) for _ in range(options.replicas)
        ]
        for proxy in replicas:
            stack.push_async_exit(proxy)
        await asyncio.gather(*(proxy.start() for proxy in replicas))
        gauges = [Gauges(proxy.pid) for proxy in replicas]
        session = await stack.enter_async_context(_session())
        urls = [proxy.base_url for proxy in replicas]
        hostile = Hostile(urls, session, dice(options.seed, "hostile"))
        if options.hostile:
            await hostile.warm_up()
        ends_at = time.monotonic() + options.minutes * 60
        load = Load(
            urls,
            judge,
            session,
            options.seed,
            options.rate,
            ends_at,
            lambda: sum(len(proxy.complaints) for proxy in replicas),
        )
        lags = [Lag(proxy.admin_url) for proxy in replicas]
        for lag in lags:
            stack.callback(lag.end)
            lag.start()
        for one in gauges:
            one.sample()
        began = time.monotonic()
        beside = [
            asyncio.create_task(_measure(gauges, options.minutes)),
            asyncio.create_task(_fail(redis, link, replicas, load, options)),
        ]
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(options.clients))
            group.create_task(hostile.run(options.hostile, load.quits))
        took_s = time.monotonic() - began
        for task in beside:
            task.cancel()
        ended = await asyncio.gather(*beside, return_exceptions=True)
        uses = await _uses_at_last(replicas, load)
        await session.close()
        in_flight = await _settled(replicas)
        before = [one.samples[0].files for one in gauges]
        for one in gauges:
            one.sample()
        wrong = judge.wrong + _unsaved(replicas, judge.wrong)
        wrong += [f"{type(error).__name__}: {error}" for error in ended if _is_fault(error)]
        counted = judge.counts + hostile.counts
        counted["conversations"] = load.conversations
        counted["outages of the store"] = load.outages // 2
        counted.update(f"logged: {name}" for proxy in replicas for name in proxy.complaints)
        files = [
            (then, gauge.samples[-1].files) for then, gauge in zip(before, gauges, strict=True)
        ]
        return Result(counted, wrong, gauges, lags, uses, files, in_flight, took_s)


def _unsaved(replicas: Sequence[ProxyProcess], wrong: Sequence[str]) -> list[str]:
    """Return what became of the responses that faults name, as far as one was not saved in time."""
    said = " ".join(wrong)
    lines = (line for proxy in replicas for line in proxy.unsaved)
    return [
        f"{line['upstream_request_id']}: captured={line['captured']}"
        for line in lines
        if line["upstream_request_id"] in said
    ]


def _is_fault(error: BaseException | None) -> bool:
    return isinstance(error, Exception)


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session without a connection limit, cookies or timeouts."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session


async def _measure(gauges: Sequence[Gauges], minutes: float) -> None:
    """Sample each process, about fifty times or more in all."""
    while True:
        await asyncio.sleep(min(2.0, minutes * 60 / 50))
        for one in gauges:
            one.sample()


async def _fail(
    redis: RedisServer,
    link: FaultyLine,
    replicas: Sequence[ProxyProcess],
    load: Load,
    options: Options,
) -> None:
    """Make the store, or the link to it, fail now and then, in different ways."""
    chance = dice(options.seed, "store")
    while True:
        await asyncio.sleep(chance.uniform(0.5, 1.5) * options.outages_every_s)
        load.outages += 1
        await _fail_once(redis, link, chance)
        await _are_well(replicas)
        await asyncio.sleep(TRIES_S)
        load.outages += 1


async def _are_well(replicas: Sequence[ProxyProcess]) -> None:
    async with asyncio.timeout(WELL_S):
        while {(await one.readiness())["store"] for one in replicas} != {"ok"}:  # noqa: ASYNC110
            await asyncio.sleep(0.2)


async def _fail_once(redis: RedisServer, link: FaultyLine, chance: Random) -> None:
    lasts_s = chance.uniform(*OUTAGE_S)
    match chance.choice(["killed", "killed", "hangs", "loses all", "link", "link", "link"]):
        case "killed":
            redis.kill()
            try:
                await asyncio.sleep(lasts_s)
            finally:
                await asyncio.to_thread(redis.start)
        case "hangs":
            redis.pause()
            try:
                await asyncio.sleep(lasts_s)
            finally:
                redis.resume()
        case "link":
            link.begins(chance.choice(POINTS), chance.choice(EFFECTS))
            try:
                await asyncio.sleep(lasts_s)
            finally:
                link.ends()
        case _:
            await asyncio.to_thread(redis.do, "FLUSHALL")


async def _uses_at_last(replicas: Sequence[ProxyProcess], load: Load) -> list[float]:
    """Play on after the last fault, and count what each replica does with its store."""
    load.outages += load.outages % 2
    await _are_well(replicas)
    before = [await _measured(one.admin_url, STORE_USES) for one in replicas]
    load.ends_at = time.monotonic() + LAST_S
    await load.run(2 * len(replicas))
    after = [await _measured(one.admin_url, STORE_USES) for one in replicas]
    return [now - then for now, then in zip(after, before, strict=True)]


async def _settled(replicas: Sequence[ProxyProcess]) -> float:
    """Wait for a while until no exchange is in flight; return the number that still are."""
    deadline = time.monotonic() + SETTLES_S
    while True:
        await asyncio.sleep(0.3)
        in_flight = sum([await _measured(one.admin_url, IN_FLIGHT) for one in replicas])
        if not in_flight or time.monotonic() > deadline:
            return in_flight


async def _measured(admin_url: str, names: Sequence[str]) -> float:
    """Return the sum of a process's metrics whose lines contain one of these names."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{admin_url}/metrics") as response,
    ):
        text = await response.text()
    return sum(
        float(line.split()[1])
        for line in text.splitlines()
        if line[:1] != "#" and any(name in line for name in names)
    )
