"""Small row: small exchanges; and the parts shared by rows with whole responses."""

import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack

from tests.bench.bench import Bench
from tests.bench.contenders import Contender
from tests.bench.load import Line, back_to_back, lines
from tests.bench.runs import Measured, alternated, everybody, spent
from tests.bench.shapes.dialect import Dialect
from tests.bench.table import Figure, against_bare

AT_ONCE = 16
CPU = 1.25  # target, as a multiple of bare


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


async def connected(stack: AsyncExitStack, one: Contender, count: int) -> list[Line]:
    """Open connections that stay open until the stack is closed."""
    opened = await lines(one.port, count)
    for line in opened:
        stack.callback(line.close)
    return opened


def small_requests(bench: Bench, dialect: Dialect, count: int) -> Iterator[bytes]:
    """Build `count` different requests."""
    numbers = itertools.islice(bench.numbers, count)
    return (dialect.request(f"small {n}", dialect.small_body(n)) for n in numbers)
