"""Rows of conversations that grow, each request by one turn: growing, steep and growth."""

import statistics
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from itertools import count

from tests.bench.contenders import Bench, Contender
from tests.bench.histories import ITEM_CHARS, PATIENT, bare_and_ours, check, verify
from tests.bench.load import Line
from tests.bench.runs import Measured, Rounds, alternated, spent
from tests.bench.shapes.dialect import Dialect, History
from tests.bench.table import Figure, against_bare, bounded

LATE = range(80, 100)
FIRST, LAST = range(20, 40), range(380, 400)
STEEPER = (
    1.4  # bound: hardly steeper than bare (measured: 0.74 to 1.12, with the noise of the machine)
)
# A process keeps a bounded amount of conversations; one conversation fills this small bound.
BOUNDED = {**PATIENT, "local_max_bytes": 1 << 19}
# Bounds; they include an allowance for the noise of the machine (measured: 1.06, 1.08).
FASTER_THAN_BODY, MEMORY = 1.3, 1.15


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
    Measure turns 80 to 100 of conversations that take turns; the bound is a multiple of bare.

    The client drops these members of emitted items, as well as reasoning.
    """
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


async def growth(
    bench: Bench, row: str, dialect: Dialect, *, turns: int = 500, quick_turns: int = 120
) -> list[Figure]:
    """Measure conversations that grow, turn by turn; Redis."""
    turns = bench.either(quick_turns, turns)
    told = [History(dialect, seed, turns, ITEM_CHARS) for seed in range(10, 13)]
    early, late = range(turns // 10, turns // 5), range(turns * 9 // 10, turns)
    per_kb: dict[str, dict[range, float]] = {}
    async with AsyncExitStack() as stack:
        plain, product, opened = await bare_and_ours(stack, bench, on_redis=True, settings=BOUNDED)
        held: dict[str, list[int]] = {"bare": [], "proxy": []}
        cpu_us: dict[str, list[list[float]]] = {"bare": [], "proxy": []}
        for conversation in told:
            for one in (plain, product):
                costs = await _turn_by_turn(one, opened[one.name][0], conversation)
                cpu_us[one.name].append(costs)
                held[one.name].append(one.rss_bytes())
            await verify(stack, product, conversation)
    kb = [len(told[0].asks(number)) / 1024 for number in range(turns)]
    for name, plays in cpu_us.items():
        turn_us = [statistics.median(play[number] for play in plays) for number in range(turns)]
        per_kb[name] = {
            part: sum(turn_us[number] for number in part) / sum(kb[number] for number in part)
            for part in (early, late)
        }
    ratio = {name: each[late] / each[early] for name, each in per_kb.items()}
    memory = {name: sizes[-1] / sizes[0] for name, sizes in held.items()}
    parts = f"turns {late.start}-{late.stop} / turns {early.start}-{early.stop}"
    return [
        Figure(
            row,
            f"CPU us per KB of body, turns {early.start}-{early.stop}",
            {name: each[early] for name, each in per_kb.items()},
        ),
        bounded(row, parts, ratio, FASTER_THAN_BODY),
        bounded(row, f"RSS after {len(told)} conversations / after 1", memory, MEMORY),
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
        plain, product, opened = await bare_and_ours(stack, bench, on_redis=on_redis)
        seeds = {one.name: count(700) for one in (plain, product)}

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

        return await alternated((plain, product), bench.either(2, 5), once)


def _name(part: range) -> str:
    return f"turns {part.start}-{part.stop}"


def _figure(row: str, rounds: Rounds, part: range, limit: float | None = None) -> Figure:
    what = _name(part)
    return against_bare(row, f"{what}: CPU us per exchange", rounds, what, limit)


async def _turn_by_turn(one: Contender, line: Line, told: History) -> list[float]:
    """Play a conversation; return the CPU time of the contender for each turn, in us."""
    cpu_us: list[float] = []
    for number in range(told.turns):
        asks = told.asks(number)
        with spent(one) as block:
            await line.exchange(asks)
        cpu_us.append(block.cpu_s * 1e6)
    return cpu_us
