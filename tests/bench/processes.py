"""Rows of whole processes: two workers against one, and what a process needs to be there at all."""

import asyncio
import statistics
from contextlib import AsyncExitStack

from tests.bench.bench import Bench
from tests.bench.contenders import Contender, bare, ours
from tests.bench.exchanges import connected, small_requests
from tests.bench.histories import PATIENT, no_redis, redis
from tests.bench.load import LoadError, back_to_back
from tests.bench.machine import cpu_s, family
from tests.bench.runs import Measured, Rounds, alternated, spent
from tests.bench.table import Figure

__all__ = ["footprint", "workers"]

# So many that chance gives each worker about half of them.
CONNECTIONS = 512
STARTS = 3
AT_ONCE = 16
FEW, MANY = 20_000, 200_000
QUICK_FEW, QUICK_MANY = 2_000, 8_000
# So that memory:// is full, and forgets as much as it keeps, behind the few.
FULL_BYTES, QUICK_FULL_BYTES = 16 << 20, 1 << 20
# What is to be reached (issue 5).
TWO_WORKERS, START_S, IDLE_MB, LATER = 1.8, 0.6, 60.0, 1.05


async def workers(bench: Bench) -> list[Figure]:
    """
    Two workers against one, small exchanges, Redis, on the processor that is measured.

    The other one is for the clients, the upstream and Redis, which would be in the way of a worker
    there, and so would say more of the machine than of the product. What is told is what so many
    processors would do if they had nothing else to do: exchanges for a second of computing by the
    busiest worker, which is the first that would have no more to give.
    """
    if no_redis():
        return [Figure("workers", "left out: redis-server is not installed")]
    exchanges = bench.either(1_000, 3_000)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis())
        those = [
            await stack.enter_async_context(
                ours(bench, server.url, name=name, settings={**PATIENT, "workers": count})
            )
            for name, count in (("one", 1), ("two", 2))
        ]
        opened = {one.name: await connected(stack, one, CONNECTIONS) for one in those}

        async def once(one: Contender) -> Measured:
            before = {pid: cpu_s(pid) for pid in family(one.pid)}
            with spent(one) as told:
                await back_to_back(opened[one.name], small_requests(bench, exchanges))
            if gave_up := sum(b"asked=" in line.head for line in opened[one.name]):
                raise LoadError(f"{gave_up} of the last exchanges did without the store")
            busiest_s = max(cpu_s(pid) - before[pid] for pid in before)
            return {
                "cpu": told.cpu_s / exchanges * 1e6,
                "capacity": exchanges / busiest_s,
            }

        rounds = await alternated(those, bench.either(3, 6), once)
    gain = rounds.ratio("capacity", "two", "one")
    return [
        _of_two("CPU us an exchange, 2 workers", rounds, "cpu"),
        Figure(
            "workers",
            "exchanges a CPU second of the busiest, 2",
            {"ours": rounds.medians("capacity")["two"]},
            f">= {TWO_WORKERS:g} x of 1",
            gain,
            TWO_WORKERS,
            at_least=True,
        ),
    ]


def _of_two(what: str, rounds: Rounds, measure: str) -> Figure:
    """Tell the figure of two workers, and beside it what it is of one's."""
    ours_two = {"ours": rounds.medians(measure)["two"]}
    return Figure("workers", what, ours_two, "(of 1 worker's)", rounds.ratio(measure, "two", "one"))


async def footprint(bench: Bench) -> list[Figure]:
    """What the start takes, what an idle process holds, and what one that has worked holds."""
    starts_s: list[float] = []
    idle_mb: dict[str, float] = {}
    for _ in range(STARTS):
        async with ours(bench) as one:
            starts_s.append(one.starts_s)
            await asyncio.sleep(1)
            idle_mb["ours"] = one.rss_bytes() / 1e6
    async with bare(bench) as one:
        idle_mb["bare"] = one.rss_bytes() / 1e6
    few, many = bench.either(QUICK_FEW, FEW), bench.either(QUICK_MANY, MANY)
    settings = {"memory_max_bytes": bench.either(QUICK_FULL_BYTES, FULL_BYTES)}
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(ours(bench, settings=settings))
        opened = await connected(stack, one, AT_ONCE)
        await back_to_back(opened, small_requests(bench, few))
        early_bytes = one.rss_bytes()
        await back_to_back(opened, small_requests(bench, many - few))
        later = one.rss_bytes() / early_bytes
    start_s = statistics.median(starts_s)
    memory = f"memory:// of {settings['memory_max_bytes'] >> 20} MiB"
    return [
        Figure(
            "footprint",
            "import and start until ready: CPU s",
            {"ours": start_s},
            f"<= {START_S:g}",
            start_s,
            START_S,
        ),
        Figure("footprint", "idle: RSS MB", idle_mb, f"<= {IDLE_MB:g}", idle_mb["ours"], IDLE_MB),
        Figure(
            "footprint",
            f"RSS behind {many:,} exchanges, to {few:,}; {memory}",
            {"ours": later},
            f"<= {LATER:g}",
            later,
            LATER,
        ),
    ]
