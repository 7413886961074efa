"""Growth row: a conversation that grows; each turn is requested with all turns before it."""

import statistics
from contextlib import AsyncExitStack

from tests.bench.bench import Bench
from tests.bench.contenders import Contender, bare, ours
from tests.bench.exchanges import connected
from tests.bench.histories import ITEM_CHARS, PATIENT, redis, verify, without_redis
from tests.bench.runs import spent
from tests.bench.shapes.dialect import Dialect, History
from tests.bench.table import Figure, bounded

# A process keeps a bounded amount of conversations; one conversation fills this small bound.
SETTINGS = {**PATIENT, "recent_max_bytes": 1 << 19}
# Targets; they include an allowance for the noise of the machine.
FASTER_THAN_BODY, MEMORY = 1.2, 1.05


async def growth(
    bench: Bench, row: str, dialect: Dialect, *, turns: int = 500, quick_turns: int = 120
) -> list[Figure]:
    """Measure conversations that grow, turn by turn; Redis."""
    if missing := without_redis(row):
        return missing
    turns = bench.either(quick_turns, turns)
    told = [History(dialect, seed, turns, ITEM_CHARS) for seed in range(10, 13)]
    early, late = range(turns // 10, turns // 5), range(turns * 9 // 10, turns)
    per_kb: dict[str, dict[range, float]] = {}
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis())
        plain = await stack.enter_async_context(bare(bench))
        product = await stack.enter_async_context(ours(bench, server.url, settings=SETTINGS))
        held: dict[str, list[int]] = {"bare": [], "proxy": []}
        cpu_us: dict[str, list[list[float]]] = {"bare": [], "proxy": []}
        for conversation in told:
            for one in (plain, product):
                cpu_us[one.name].append(await _turn_by_turn(stack, one, conversation))
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


async def _turn_by_turn(stack: AsyncExitStack, one: Contender, told: History) -> list[float]:
    """Play a conversation; return the CPU time of the contender for each turn, in us."""
    [line] = await connected(stack, one, 1)
    cpu_us: list[float] = []
    for number in range(told.turns):
        asks = told.asks(number)
        with spent(one) as block:
            await line.exchange(asks)
        cpu_us.append(block.cpu_s * 1e6)
    return cpu_us
