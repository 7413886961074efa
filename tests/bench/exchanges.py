"""The row of small exchanges, and the parts that rows of exchanges with whole answers share."""

import itertools
from collections.abc import Iterator
from contextlib import AsyncExitStack

from tests.bench.bench import Bench
from tests.bench.contenders import Contender
from tests.bench.load import Line, back_to_back, lines
from tests.bench.runs import Measured, alternated, everybody, spent
from tests.bench.shapes import request, small_body
from tests.bench.table import Figure, against_bare

__all__ = ["connected", "small", "small_requests"]

AT_ONCE = 16
CPU = 1.25  # what is to be reached (issue 5)


async def small(bench: Bench) -> list[Figure]:
    """Exchanges of 3 KB in which nothing is to be given back, 16 at once, memory store."""
    exchanges = bench.either(1_000, 2_500)
    async with AsyncExitStack() as stack:
        those = await everybody(bench, stack)
        opened = {one.name: await connected(stack, one, AT_ONCE) for one in those}

        async def once(one: Contender) -> Measured:
            requests = small_requests(bench, exchanges)
            with spent(one) as told:
                await back_to_back(opened[one.name], requests)
            return told.per(exchanges)

        rounds = await alternated(those, bench.either(3, 7), once)
    return [
        against_bare("small", "CPU us an exchange", rounds, "cpu", CPU),
        against_bare("small", "wall us an exchange", rounds, "wall"),
    ]


async def connected(stack: AsyncExitStack, one: Contender, count: int) -> list[Line]:
    """Open connections until the stack is closed."""
    opened = await lines(one.port, count)
    for line in opened:
        stack.callback(line.close)
    return opened


def small_requests(bench: Bench, count: int) -> Iterator[bytes]:
    """Make so many requests, no two alike."""
    numbers = itertools.islice(bench.numbers, count)
    return (request(f"small {n}", small_body(n)) for n in numbers)
