"""Rows of long histories without their reasoning, which is injected: history and long; Redis."""

import asyncio
import json
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace

from tests.bench.contenders import Bench, Contender, bare, direct, ours
from tests.bench.exchanges import connected
from tests.bench.load import Line, LoadError
from tests.bench.machine import cores, pinned
from tests.bench.runs import Measured, alternated, everybody, spent
from tests.bench.shapes.dialect import Dialect, History
from tests.bench.streams import streamed
from tests.bench.table import Figure, against_bare, bounded
from tests.redis_server import RedisServer, redis_server
from tests.slow_line import slow_line

ITEMS, ITEM_CHARS = 300, 717  # 275 KB
QUICK_ITEMS = 600
# Requested in turn, because a client does not request the same turn hundreds of times.
CONVERSATIONS, QUICK_CONVERSATIONS = 20, 4
TRIPS_COUNTED = 10
# On a machine with other load the product must not look fast because it skips a lookup. While
# hundreds of conversations are played, the connections that will be measured are idle.
PATIENT = {"store_budget_ms": 5_000, "idle_timeout_s": 3_600}
COLD = {**PATIENT, "local_max_bytes": 0}
STREAM_EVERY_US = 5_000
# Bounds: of a warm and of a cold exchange (measured: 5.1 to 6.3, and 16 to 25), and others.
CPU, COLD_CPU, TRIPS, LINEAR, HELD_UP_MS = 8.0, 32.0, 2.0, 1.3, 20.0


async def history(
    bench: Bench,
    row: str,
    dialect: Dialect,
    *,
    items: int = ITEMS,
    item_chars: int = ITEM_CHARS,
    drops: Collection[str] = (),
) -> list[Figure]:
    """
    Measure a long history of one client, with reasoning injected for each turn.

    The client drops these members of emitted items, as well as reasoning.
    """
    turns = items // dialect.items_a_turn
    count = bench.either(QUICK_CONVERSATIONS, CONVERSATIONS)
    told, *every = [
        History(dialect, 100 + n, turns, item_chars, drops) for n in range(1 + 2 * count)
    ]
    exchanges = bench.either(20, 60)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis())
        those = await everybody(bench, stack, server.url, PATIENT)
        product = those[-1]
        for each in (told, *every):
            await play(stack, product, each)
        trips = await _trips(bench, server, told.asks(turns))
        cold_trips = await _trips(bench, server, told.asks(turns), COLD)
        # Its response has nothing to save.
        recalls = await _trips(bench, server, told.asks_seen(), COLD)
        # A replica that has not served the conversation: everything comes from Redis.
        replica = await stack.enter_async_context(
            ours(bench, server.url, name="cold", settings=COLD)
        )
        await verify(stack, replica, told)
        opened = {one.name: await connected(stack, one, 1) for one in (*those, replica)}

        async def once(one: Contender) -> Measured:
            # The replica has its own conversations: turns that another adds would have to be loaded
            # first.
            its = every[count:] if one is replica else every[:count]
            return await _repeated(one, opened[one.name][0], its, exchanges)

        rounds = await alternated((*those, replica), bench.either(3, 5), once)
    what = f"{len(told.asks(turns)) // 1000} KB, {told.items} {dialect.items}, {turns} injected"
    warm = against_bare(row, f"{what}: CPU us per exchange", rounds, "cpu", CPU)
    bare_us, cold_us = warm.of["bare"], rounds.medians("cpu")["cold"]
    cold = replace(
        warm,
        what="the same, cold: all items from Redis",
        of={"bare": bare_us, "proxy": cold_us},
        reach=f"<= {COLD_CPU:g} x bare",
        got=rounds.ratio("cpu", "cold"),
        limit=COLD_CPU,
    )
    return [
        warm,
        cold,
        against_bare(row, "wall us per exchange", rounds, "wall"),
        bounded(row, "round trips to Redis per exchange", {"proxy": trips}, TRIPS),
        bounded(row, "cold, lookup", {"proxy": recalls}, TRIPS),
        Figure(row, "cold, lookup, save", {"proxy": cold_trips}),
    ]


async def long(
    bench: Bench, row: str, dialect: Dialect, *, items: int = 3_000, item_chars: int = 967
) -> list[Figure]:
    """Measure a huge history, of 3.5 MB and 1,000 injected items, with a stream in parallel."""
    a_turn = dialect.items_a_turn
    short = History(dialect, 1, ITEMS // a_turn, ITEM_CHARS)
    turns = bench.either(QUICK_ITEMS, items) // a_turn
    told = History(dialect, 2, turns, item_chars)
    async with AsyncExitStack() as stack:
        server = stack.enter_context(redis())
        product = await stack.enter_async_context(ours(bench, server.url, settings=PATIENT))
        those = [direct(bench), await stack.enter_async_context(bare(bench)), product]
        for each in (short, told):
            await play(stack, product, each)
        opened = {one.name: await connected(stack, one, 2) for one in those}

        async def once(one: Contender) -> Measured:
            line, beside = opened[one.name]
            few = await _repeated(one, line, [short], bench.either(10, 20))
            many = await _repeated(one, line, [told], bench.either(3, 4))
            got = {key: value / told.turns for key, value in many.items()}
            if one.pid:
                got["linear"] = got["cpu"] / (few["cpu"] / short.turns)
            return got | {"late": await _held_up(bench, line, beside, told)}

        rounds = await alternated(those, bench.either(2, 5), once)
    linear = rounds.medians("linear")
    late = rounds.medians("late")
    size = f"{len(told.asks(told.turns)) / 1e6:.1f} MB, {told.items:,} {dialect.items}"
    per_item = {name: value / a_turn for name, value in rounds.medians("cpu").items()}
    return [
        Figure(row, f"{size}: CPU us per item", per_item),
        bounded(row, f"the same / with {short.items} {dialect.items}", linear, LINEAR),
        against_bare(row, "wall us per turn", rounds, "wall"),
        bounded(row, "longest delay of a parallel stream in a round, ms", late, HELD_UP_MS),
    ]


class LeftOut(Exception):
    """A row cannot be measured on this machine."""


@contextmanager
def redis() -> Iterator[RedisServer]:
    """
    Run a Redis on the upstream's CPU, where it does not compete with the product.

    Raises:
        LeftOut: It is not installed.
    """
    if shutil.which("redis-server") is None:
        raise LeftOut("redis-server is not installed")
    with pinned(*cores()[1:]), redis_server() as server:
        yield server


async def bare_and_ours(
    stack: AsyncExitStack,
    bench: Bench,
    *,
    on_redis: bool,
    at_once: int = 1,
    settings: Mapping[str, object] = PATIENT,
) -> tuple[Contender, Contender, dict[str, list[Line]]]:
    """Start both, the product with Redis or with its memory, and open connections to each."""
    url = stack.enter_context(redis()).url if on_redis else "memory://"
    plain = await stack.enter_async_context(bare(bench))
    product = await stack.enter_async_context(ours(bench, url, settings=settings))
    opened = {one.name: await connected(stack, one, at_once) for one in (plain, product)}
    return plain, product, opened


async def play(stack: AsyncExitStack, product: Contender, told: History) -> None:
    """Play a conversation from its first turn on, and verify that the product injects all of it."""
    [line] = await connected(stack, product, 1)
    for number in range(told.turns):
        await line.exchange(told.asks(number))
    await verify(stack, product, told)


async def verify(stack: AsyncExitStack, product: Contender, told: History) -> None:
    """
    Verify that upstream receives every reasoning item in its place.

    Raises:
        LoadError: An item is missing or misplaced.
    """
    [line] = await connected(stack, product, 1)
    seen = json.loads(await line.exchange(told.asks_seen()))["seen"]
    if seen != told.seen():
        got = sum(reasoning is not None for _, reasoning in seen)
        raise LoadError(f"upstream saw {got} of {told.turns} turns' reasoning, or not in place")


def check(head: bytes, injected: int) -> None:
    """
    Check a response's head: as many items were injected into its request.

    Raises:
        LoadError: More or fewer.
    """
    told = head.partition(b"x-reasoning-replay: ")[2].partition(b"\r")[0].decode()
    if told.partition(",")[0] != f"injected={injected}":
        raise LoadError(f"not {injected} items were injected: {told}")


async def _repeated(one: Contender, line: Line, told: Sequence[History], times: int) -> Measured:
    """Request the last turn of each conversation, in turn."""
    asks = [each.asks(each.turns) for each in told]
    with spent(one) as block:
        for number in range(times):
            await line.exchange(asks[number % len(asks)])
            if one.pid and b"x-reasoning-replay" in line.head:
                check(line.head, told[0].turns)
    return block.per(times)


async def _trips(
    bench: Bench, server: RedisServer, asks: bytes, settings: Mapping[str, object] = PATIENT
) -> float:
    """Count the round trips to Redis of one exchange, in a process that knows the conversation."""
    async with AsyncExitStack() as stack:
        between = await stack.enter_async_context(slow_line(server.port))
        product = await stack.enter_async_context(ours(bench, between.url, settings=settings))
        [line] = await connected(stack, product, 1)
        for _ in range(3):
            await line.exchange(asks)
        await asyncio.sleep(0.3)
        before = between.trips
        for _ in range(TRIPS_COUNTED):
            await line.exchange(asks)
            await asyncio.sleep(0.05)
        return (between.trips - before) / TRIPS_COUNTED


async def _held_up(bench: Bench, line: Line, beside: Line, told: History) -> float:
    """Return the longest delay of an event of a stream while long requests pass, in ms."""
    asks = told.asks(told.turns)
    deltas = bench.either(200, 400)
    streaming = asyncio.create_task(streamed(bench, told.dialect, beside, deltas, STREAM_EVERY_US))
    while not streaming.done():
        await line.exchange(asks)
        await asyncio.sleep(0.05)
    heard = streaming.result()
    if not heard.is_whole(deltas):
        raise LoadError(f"the parallel stream is incomplete: {heard.failure}")
    return max(heard.late_s) * 1e3
