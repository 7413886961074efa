"""Rows of small exchanges: their cost, and the memory of an idle and of a busy process."""

import asyncio
import itertools
import statistics
from collections.abc import Iterator
from contextlib import AsyncExitStack

from tests.bench.contenders import Bench, Contender, bare, ours
from tests.bench.load import Line, back_to_back
from tests.bench.runs import Measured, alternated, everybody, spent
from tests.bench.shapes.dialect import Dialect
from tests.bench.table import Figure, against_bare, bounded

AT_ONCE = 16
# Connections of each contender, by its name.
Lines = dict[str, list[Line]]
STARTS = 3
FEW, MANY = 20_000, 200_000
QUICK_FEW, QUICK_MANY = 2_000, 8_000
# The first FEW exchanges fill memory://, so that it evicts as much as it stores afterwards.
FULL_BYTES, QUICK_FULL_BYTES = 16 << 20, 1 << 20
# Bounds: as a multiple of bare (measured: 3.9 to 5.2), of a start (0.28 s) and of memory (59 MB).
CPU = 6.5
START_S, IDLE_MB, LATER = 0.6, 75.0, 1.1


async def small(bench: Bench, row: str, dialect: Dialect) -> list[Figure]:
    """Measure exchanges of 3 KB with nothing to inject, 16 in flight, memory store."""
    exchanges = bench.either(1_000, 2_500)
    async with AsyncExitStack() as stack:
        those = await everybody(bench, stack)
        opened = {one.name: await connected(stack, one, AT_ONCE) for one in those}

        async def once(one: Contender) -> Measured:
            requests = small_requests(bench, dialect, exchanges)
            with spent(one) as told:
                await back_to_back(opened[one.name], requests)
            return told.per(exchanges)

        rounds = await alternated(those, bench.either(3, 7), once)
    return [
        against_bare(row, "CPU us per exchange", rounds, "cpu", CPU),
        against_bare(row, "wall us per exchange", rounds, "wall"),
    ]


async def latency(bench: Bench, row: str, dialect: Dialect) -> list[Figure]:
    """Measure how long small exchanges take, one after the other on each connection."""
    figures: list[Figure] = []
    async with AsyncExitStack() as stack:
        those = await everybody(bench, stack)
        for at_once in (1, AT_ONCE):
            opened = {one.name: await connected(stack, one, at_once) for one in those}
            exchanges = bench.either(400, 1_500) * (1 if at_once == 1 else 4)

            async def once(
                one: Contender, opened: Lines = opened, exchanges: int = exchanges
            ) -> Measured:
                requests = small_requests(bench, dialect, exchanges)
                took_s = await back_to_back(opened[one.name], requests)
                hundredths = statistics.quantiles(took_s, n=100)
                return {"median": hundredths[49] * 1e6, "99th percentile": hundredths[98] * 1e6}

            rounds = await alternated(those, bench.either(5, 9), once)
            for part in ("median", "99th percentile"):
                took_us = rounds.medians(part)
                added_us = {name: us - took_us["direct"] for name, us in took_us.items()}
                told = f"us added, {part}, {at_once} connection" + "s" * (at_once > 1)
                times_bare = added_us["proxy"] / added_us["bare"]
                figures.append(Figure(row, told, added_us, got=times_bare))
    return figures


async def footprint(bench: Bench, row: str, dialect: Dialect) -> list[Figure]:
    """Measure the start, the memory of an idle process, and the memory of a busy one."""
    starts_s: list[float] = []
    idle_mb: dict[str, float] = {}
    for _ in range(STARTS):
        async with ours(bench) as one:
            starts_s.append(one.starts_s)
            await asyncio.sleep(1)
            idle_mb["proxy"] = one.rss_bytes() / 1e6
    async with bare(bench) as one:
        idle_mb["bare"] = one.rss_bytes() / 1e6
    few, many = bench.either(QUICK_FEW, FEW), bench.either(QUICK_MANY, MANY)
    settings = {"store_max_bytes": bench.either(QUICK_FULL_BYTES, FULL_BYTES)}
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(ours(bench, settings=settings))
        opened = await connected(stack, one, AT_ONCE)
        await back_to_back(opened, small_requests(bench, dialect, few))
        early_bytes = one.rss_bytes()
        await back_to_back(opened, small_requests(bench, dialect, many - few))
        later = one.rss_bytes() / early_bytes
    start_s = statistics.median(starts_s)
    memory = f"memory:// of {settings['store_max_bytes'] >> 20} MiB"
    grown = f"RSS after {many:,} exchanges / after {few:,}; {memory}"
    return [
        bounded(row, "CPU s from start to ready", {"proxy": start_s}, START_S),
        bounded(row, "MB of RSS of an idle process", idle_mb, IDLE_MB),
        bounded(row, grown, {"proxy": later}, LATER),
    ]


async def connected(stack: AsyncExitStack, one: Contender, count: int) -> list[Line]:
    """Open connections that stay open until the stack is closed."""
    loop = asyncio.get_running_loop()
    opened: list[Line] = []
    for _ in range(count):
        _, line = await loop.create_connection(Line, "127.0.0.1", one.port)
        stack.callback(line.close)
        opened.append(line)
    return opened


def small_requests(bench: Bench, dialect: Dialect, count: int) -> Iterator[bytes]:
    """Build `count` different requests."""
    numbers = itertools.islice(bench.numbers, count)
    return (dialect.request(f"small {n}", dialect.small_body(n)) for n in numbers)
