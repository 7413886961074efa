"""One soak: everything started, load on it, the store failing beneath it, all of it measured."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from random import Random

import aiohttp

from tests.e2e.proxies import ProxyProcess
from tests.redis_server import RedisServer, redis_server
from tests.soak.faults import dice
from tests.soak.gauges import Gauges
from tests.soak.load import Load
from tests.soak.upstream import upstream

__all__ = ["Options", "Result", "soak"]

SETTINGS = {
    "store_budget_ms": "500",
    "store_timeout_ms": "1000",
    "connect_timeout_s": "2",
    "first_byte_timeout_s": "3",
    "read_timeout_s": "3",
    "recent_max_bytes": "4194304",  # full soon, so that memory is soon as it will be
    "ttl_s": "600",
}
SETTLES_S = 10.0  # what was broken off has ended by then
# What was written survives a kill; on a busy machine, a save does not wait for its disk.
KEEPS = ("appendonly yes", "appendfsync everysec")
WELL_S = 300.0
# Pauses between the proxy's tries grow to this while the store fails.
TRIES_S = 10.0
OUTAGE_S = (0.3, 4.0)


@dataclass(frozen=True, slots=True)
class Options:
    """
    How to soak.

    Attributes:
        minutes: For so long.
        seed: Decides on everything that is left to chance, but for what is a matter of time.
        rate: Requests a second, at the most.
        clients: At once.
        share: Of answers that something happens to on their way.
        outages_every_s: How long Redis is well, on average.
        replicas: Processes on one Redis.
    """

    minutes: float = 30.0
    seed: str = ""
    rate: float = 20.0
    clients: int = 24
    share: float = 0.04
    outages_every_s: float = 40.0
    replicas: int = 2


@dataclass(frozen=True, slots=True)
class Result:
    """
    What there is to report.

    Attributes:
        counts: The judge's, with what was counted here.
        wrong: What must not have happened.
        gauges: Of each replica.
        idle_files: Open files of each, at the start and once all was over.
        in_flight: What the replicas say is under way once all is over.
        took_s: How long there was load.
    """

    counts: Counter[str]
    wrong: list[str]
    gauges: Sequence[Gauges]
    idle_files: Sequence[tuple[int, int]]
    in_flight: float
    took_s: float


async def soak(options: Options) -> Result:
    """Run one; it ends some seconds after its time."""
    async with contextlib.AsyncExitStack() as stack:
        above = await stack.enter_async_context(upstream(options.seed, options.share))
        redis = stack.enter_context(redis_server(*KEEPS))
        replicas = [
            ProxyProcess(above.base_url, redis.url, **SETTINGS) for _ in range(options.replicas)
        ]
        for proxy in replicas:
            stack.push_async_exit(proxy)
        await asyncio.gather(*(proxy.start() for proxy in replicas))
        gauges = [Gauges(proxy.pid) for proxy in replicas]
        session = await stack.enter_async_context(_session())
        ends_at = time.monotonic() + options.minutes * 60
        urls = [proxy.base_url for proxy in replicas]
        load = Load(urls, above, session, options.seed, options.rate, ends_at)
        load.complaints = lambda: sum(len(proxy.complaints) for proxy in replicas)
        for one in gauges:
            one.sample()
        began = time.monotonic()
        beside = [
            asyncio.create_task(_measure(gauges, options.minutes)),
            asyncio.create_task(_fail(redis, replicas, load, options)),
        ]
        await load.run(options.clients)
        took_s = time.monotonic() - began
        for task in beside:
            task.cancel()
        ended = await asyncio.gather(*beside, return_exceptions=True)
        await session.close()
        in_flight = await _settled(replicas)
        before = [one.samples[0].files for one in gauges]
        for one in gauges:
            one.sample()
        counts, wrong = await above.judgement()
        wrong += [f"{type(error).__name__}: {error}" for error in ended if _is_fault(error)]
        counted = Counter(counts)
        counted["conversations"] = load.conversations
        counted["outages of the store"] = load.outages // 2
        counted.update(f"logged: {name}" for proxy in replicas for name in proxy.complaints)
        files = [
            (then, gauge.samples[-1].files) for then, gauge in zip(before, gauges, strict=True)
        ]
        return Result(counted, wrong, gauges, files, in_flight, took_s)


def _is_fault(error: BaseException | None) -> bool:
    return isinstance(error, Exception)


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[aiohttp.ClientSession]:
    """Give clients connections enough, and no cookies, no deadline."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
    ) as session:
        yield session


async def _measure(gauges: Sequence[Gauges], minutes: float) -> None:
    """Look at each process, some hundred times in all."""
    while True:
        await asyncio.sleep(min(2.0, minutes * 60 / 50))
        for one in gauges:
            one.sample()


async def _fail(
    redis: RedisServer, replicas: Sequence[ProxyProcess], load: Load, options: Options
) -> None:
    """Let the store fail, now and then, in one way or another."""
    chance = dice(options.seed, "store")
    while True:
        await asyncio.sleep(chance.uniform(0.5, 1.5) * options.outages_every_s)
        load.outages += 1
        await _fail_once(redis, chance)
        async with asyncio.timeout(WELL_S):
            while {(await one.readiness())["store"] for one in replicas} != {"ok"}:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await asyncio.sleep(TRIES_S)
        load.outages += 1


async def _fail_once(redis: RedisServer, chance: Random) -> None:
    lasts_s = chance.uniform(*OUTAGE_S)
    match chance.choice(["killed", "killed", "hangs", "loses all"]):
        case "killed":
            redis.kill()
            await asyncio.sleep(lasts_s)
            await asyncio.to_thread(redis.start)
        case "hangs":
            redis.pause()
            await asyncio.sleep(lasts_s)
            redis.resume()
        case _:
            await asyncio.to_thread(redis.do, "FLUSHALL")


async def _settled(replicas: Sequence[ProxyProcess]) -> float:
    """Wait until nothing is under way, for a while; return how much still is."""
    deadline = time.monotonic() + SETTLES_S
    while True:
        await asyncio.sleep(0.3)
        in_flight = sum([await _in_flight(one.admin_url) for one in replicas])
        if not in_flight or time.monotonic() > deadline:
            return in_flight


async def _in_flight(admin_url: str) -> float:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{admin_url}/metrics") as response,
    ):
        text = await response.text()
    return sum(
        float(line.split()[1])
        for line in text.splitlines()
        if line.startswith("reasoning_replay_in_flight ")
    )
