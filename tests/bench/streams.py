"""Rows of streams: the cost and the delay of an event, and many parallel streams."""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack

from tests.bench.contenders import Bench, Contender, bare, ours
from tests.bench.exchanges import connected
from tests.bench.load import Arrivals, Line, LoadError
from tests.bench.runs import Measured, alternated, everybody, spent
from tests.bench.shapes.dialect import Dialect
from tests.bench.table import Figure, against_bare, bounded

STREAMS = 100
EVERY_US = 20_000  # 50 a second
OPEN_STREAMS = 2_000
OPEN_EVERY_US = 1_000_000
WARM_STREAMS = 50
# Long enough that, even on a busy machine, the last one is open before the first one ends.
OPENS_S = 8
# Bounds.
CPU, ADDED_MS, P99, KB_A_STREAM = 1.2, 0.3, 1.8, 45.0


async def stream(bench: Bench, row: str, dialect: Dialect) -> list[Figure]:
    """Measure 100 streams of 50 events per second each."""
    deltas = bench.either(75, 125)
    async with AsyncExitStack() as stack:
        those = await everybody(bench, stack)
        opened = {one.name: await connected(stack, one, STREAMS) for one in those}

        async def once(one: Contender) -> Measured:
            with spent(one) as told:
                heard = await _at_once(bench, dialect, opened[one.name], deltas, EVERY_US)
            late_ms = sorted(late_s * 1e3 for arrivals in heard for late_s in arrivals.late_s)
            if failed := [arrivals for arrivals in heard if not arrivals.is_whole(deltas)]:
                raise LoadError(f"{len(failed)} streams are incomplete: {failed[0].failure}")
            cuts = statistics.quantiles(late_ms, n=100)
            each = told.per(STREAMS * (dialect.events_around + deltas))
            return each | {"p50": cuts[49], "p99": cuts[98]}

        rounds = await alternated(those, bench.either(2, 6), once)
    p50, p99 = rounds.least("p50"), rounds.least("p99")
    return [
        against_bare(row, "CPU us per event", rounds, "cpu", CPU),
        Figure(
            row,
            "ms that an event takes, median, quietest round",
            p50,
            f"<= {ADDED_MS} over direct",
            p50["proxy"] - p50["direct"],
            ADDED_MS,
        ),
        Figure(
            row,
            "ms that an event takes, p99, quietest round",
            p99,
            f"<= {P99:g} x bare",
            p99["proxy"] / p99["bare"],
            P99,
        ),
    ]


async def scale(bench: Bench, row: str, dialect: Dialect) -> list[Figure]:
    """Measure 2,000 open streams in one process."""
    kb: dict[str, float] = {}
    failed: dict[str, float] = {}
    async with bare(bench) as plain, ours(bench) as product:
        for one in (plain, product):
            kb[one.name], failed[one.name] = await _held_open(bench, dialect, one)
    return [
        bounded(row, f"KB of RSS per stream, {OPEN_STREAMS:,} open", kb, KB_A_STREAM),
        Figure(row, "failed streams", failed, "none", failed["proxy"], 0),
    ]


async def _held_open(bench: Bench, dialect: Dialect, one: Contender) -> tuple[float, int]:
    """Return the memory of a stream in KB, and how many failed or were not open with all others."""
    async with AsyncExitStack() as stack:
        warm = await connected(stack, one, WARM_STREAMS)
        await _at_once(bench, dialect, warm, 50, EVERY_US)
    await asyncio.sleep(1)
    before = most = one.rss_bytes()
    async with AsyncExitStack() as stack:
        opened = await connected(stack, one, OPEN_STREAMS)
        deltas = bench.either(4, 10)
        streaming = asyncio.create_task(
            _at_once(bench, dialect, opened, deltas, OPEN_EVERY_US, begins_s=OPENS_S, apart_us=500)
        )
        while not streaming.done():
            most = max(most, one.rss_bytes())
            await asyncio.sleep(0.25)
        heard = streaming.result()
    whole = [arrivals for arrivals in heard if arrivals.is_whole(deltas)]
    last_began_ns = max((arrivals.began_ns for arrivals in whole), default=0)
    good = sum(arrivals.ended_ns > last_began_ns for arrivals in whole)
    return (most - before) / OPEN_STREAMS / 1024, OPEN_STREAMS - good


async def _at_once(
    bench: Bench,
    dialect: Dialect,
    opened: list[Line],
    deltas: int,
    every_us: int,
    *,
    begins_s: float = 0.4,
    apart_us: int | None = None,
) -> list[Arrivals]:
    """Read a stream on each connection, with their deltas spread evenly over an interval."""
    apart_ns = 1000 * (apart_us or every_us // len(opened))
    at_ns = time.monotonic_ns() + int(begins_s * 1e9)
    async with asyncio.TaskGroup() as group:
        reading = [
            group.create_task(
                streamed(bench, dialect, line, deltas, every_us, at_ns=at_ns + number * apart_ns)
            )
            for number, line in enumerate(opened)
        ]
    return [one.result() for one in reading]


async def streamed(
    bench: Bench, dialect: Dialect, line: Line, deltas: int, every_us: int, *, at_ns: int = 0
) -> Arrivals:
    """Read a stream, which starts at this time of the monotonic clock (0: now), until it fails."""
    arrivals = Arrivals(dialect.ending)
    number = next(bench.numbers)
    task = f"stream {number} {deltas} {every_us} {at_ns or time.monotonic_ns()}"
    try:
        await line.stream(dialect.request(task, dialect.stream_body(number)), arrivals.hear)
    except LoadError as error:
        arrivals.failure = str(error)
    return arrivals
