"""Rows of conversations that grow, each request by one turn, relative to bare: growing, steep."""

from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from itertools import count

from tests.bench.bench import Bench
from tests.bench.contenders import Contender, bare, ours
from tests.bench.exchanges import connected
from tests.bench.histories import ITEM_CHARS, PATIENT, check, redis, without_redis
from tests.bench.runs import Measured, Rounds, alternated, spent
from tests.bench.shapes.dialect import Dialect, History
from tests.bench.table import Figure, against_bare

LATE = range(80, 100)
FIRST, LAST = range(20, 40), range(380, 400)
STEEPER = 1.1  # target: no steeper than bare; it includes an allowance for the noise of the machine


async def growing(
    bench: Bench,
    row: str,
    dialect: Dialect,
    *,
    limit: float,
    on_redis: bool = False,
    drops: Collection[str] = (),
) -> list[Figure]:
    """
    Measure turns 80 to 100 of conversations that take turns.

    Args:
        bench: The run.
        row: Name of the row.
        dialect: The API.
        limit: Target, as a multiple of bare.
        on_redis: Whether the store is Redis; else it is in memory.
        drops: Members of emitted items that the client leaves out, as well as reasoning.
    """
    if on_redis and (missing := without_redis(row)):
        return missing
    rounds = await _grown(bench, dialect, [LATE], 4, on_redis=on_redis, drops=drops)
    return [_figure(row, rounds, LATE, limit)]


async def steep(bench: Bench, row: str, dialect: Dialect) -> list[Figure]:
    """Measure how the cost grows from turn 20 to turn 400, relative to bare; memory store."""
    rounds = await _grown(bench, dialect, [FIRST, LAST], 1)
    steeper = rounds.ratio(_name(LAST)) / rounds.ratio(_name(FIRST))
    return [
        _figure(row, rounds, FIRST),
        _figure(row, rounds, LAST),
        Figure(
            row,
            "the late ratio / the early ratio",
            {"proxy": steeper},
            f"<= {STEEPER:g}",
            steeper,
            STEEPER,
        ),
    ]


async def _grown(
    bench: Bench,
    dialect: Dialect,
    parts: Sequence[range],
    conversations: int,
    *,
    on_redis: bool = False,
    drops: Collection[str] = (),
) -> Rounds:
    """Play new conversations in each round, from their first turns on, and measure some parts."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(redis()).url if on_redis else "memory://"
        product = await stack.enter_async_context(ours(bench, url, settings=PATIENT))
        those = [await stack.enter_async_context(bare(bench)), product]
        opened = {one.name: await connected(stack, one, 1) for one in those}
        seeds = {one.name: count(700) for one in those}

        async def once(one: Contender) -> Measured:
            [line] = opened[one.name]
            told = [
                History(dialect, next(seeds[one.name]), parts[-1].stop, ITEM_CHARS, drops)
                for _ in range(conversations)
            ]

            async def play(turns: range) -> None:
                for number in turns:
                    for each in told:
                        await line.exchange(each.asks(number))
                if one is product:
                    check(line.head, turns[-1])

            got: Measured = {}
            played = 0
            for part in parts:
                await play(range(played, part.start))
                with spent(one) as block:
                    await play(part)
                got[_name(part)] = block.per(conversations * len(part))["cpu"]
                played = part.stop
            return got

        return await alternated(those, bench.either(2, 5), once)


def _name(part: range) -> str:
    return f"turns {part.start}-{part.stop}"


def _figure(row: str, rounds: Rounds, part: range, limit: float | None = None) -> Figure:
    what = _name(part)
    return against_bare(row, f"{what}: CPU us per exchange", rounds, what, limit)
