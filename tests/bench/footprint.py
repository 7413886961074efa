"""Footprint row: CPU time of a start, and the memory of an idle and of a busy process."""

import asyncio
import statistics
from contextlib import AsyncExitStack

from tests.bench.bench import Bench
from tests.bench.contenders import bare, ours
from tests.bench.exchanges import connected, small_requests
from tests.bench.load import back_to_back
from tests.bench.shapes.dialect import Dialect
from tests.bench.table import Figure, bounded

STARTS = 3
AT_ONCE = 16
FEW, MANY = 20_000, 200_000
QUICK_FEW, QUICK_MANY = 2_000, 8_000
# The first FEW exchanges fill memory://, so that it evicts as much as it stores afterwards.
FULL_BYTES, QUICK_FULL_BYTES = 16 << 20, 1 << 20
# Targets.
START_S, IDLE_MB, LATER = 0.6, 60.0, 1.05


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
