"""Rows of a history that is sent again: big, inject and huge; the conversations in turn."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import cycle, islice

from tests.bench.contenders import Bench, Contender
from tests.bench.histories import ITEM_CHARS, ITEMS, PATIENT, bare_and_ours, check, play
from tests.bench.load import back_to_back
from tests.bench.runs import Measured, alternated, spent
from tests.bench.shapes.dialect import Dialect, History
from tests.bench.table import Figure, against_bare

CONVERSATIONS = 10
HUGE_TURNS, QUICK_HUGE_TURNS = 1_000, 400
# Each time that a response comes again, it counts as a turn until the oldest ones are dropped.
LONG_LIVED = {**PATIENT, "conversation_max_turns": 4_096}
HUGE_TURN_CHARS = 2_900  # 3.3 MB with those turns


async def huge(
    bench: Bench, row: str, dialect: Dialect, *, limit: float, at_once: int = 1
) -> list[Figure]:
    """Measure histories of 1,000 turns, like `repeats`; memory store."""
    turns, a_turn = bench.either(QUICK_HUGE_TURNS, HUGE_TURNS), dialect.items_a_turn
    return await repeats(
        bench,
        row,
        dialect,
        limit=limit,
        at_once=at_once,
        items=turns * a_turn,
        item_chars=HUGE_TURN_CHARS // a_turn,
        conversations=2,
        exchanges=bench.either(16, 32),
        settings=LONG_LIVED,
    )


async def repeats(
    bench: Bench,
    row: str,
    dialect: Dialect,
    *,
    limit: float,
    on_redis: bool = False,
    at_once: int = 1,
    is_known: bool = True,
    items: int = ITEMS,
    item_chars: int = ITEM_CHARS,
    conversations: int = CONVERSATIONS,
    exchanges: int | None = None,
    settings: Mapping[str, object] = PATIENT,
) -> list[Figure]:
    """
    Measure the last request of some conversations, sent again and again.

    The bound is a multiple of bare. If the conversations are known, they were captured, so that
    reasoning is injected. Each of the connections waits for its response.
    """
    turns = items // dialect.items_a_turn
    exchanges = exchanges or max(2 * conversations, bench.either(50, 200))
    told = [History(dialect, 500 + n, turns, item_chars) for n in range(conversations)]
    async with AsyncExitStack() as stack:
        plain, product, opened = await bare_and_ours(
            stack, bench, on_redis=on_redis, at_once=at_once, settings=settings
        )
        if is_known:
            for each in told:
                await play(stack, product, each)
        asks = cycle([each.asks(turns) for each in told])

        async def once(one: Contender) -> Measured:
            with spent(one) as block:
                await back_to_back(opened[one.name], islice(asks, exchanges))
            if one is product:
                for line in opened[one.name]:
                    check(line.head, turns if is_known else 0)
            return block.per(exchanges)

        rounds = await alternated((plain, product), bench.either(3, 5), once)
    size = f"{len(next(asks)) // 1000:,} KB, {told[0].items:,} {dialect.items}"
    what = (
        f"{size}, {turns if is_known else 0:,} injected, {at_once} at once, {conversations} known"
    )
    return [against_bare(row, f"{what}: CPU us per exchange", rounds, "cpu", limit)]
