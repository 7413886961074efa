"""The local table with no store: bounded in bytes, exact, and final in its deletions."""

import asyncio
import io
import itertools
import tracemalloc
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.resilience.conversation import KEY_BYTES
from reasoning_replay.adapters.resilience.local_table import EXPIRED_AT_ONCE, Alone, LocalTable
from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore, Saved
from reasoning_replay.adapters.resilience.store_guard import StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import CONVERSATIONS_PER_KEY, Bounds
from reasoning_replay.adapters.stores.contract.turns import (
    SCOPE,
    Clock,
    asked,
    bytes_of,
    found,
    key,
    save,
    turn,
)
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.history.turns import Turn

from tests.adapters.resilience.replicas import looked_up, said
from tests.adapters.stores.table_store import TableStore
from tests.patience import LONG_S

TTL_S = 100
BOUNDS = Bounds(ttl_s=TTL_S, max_turns=4, max_bytes=3000)
MAX_BYTES = 16_000
MIB = 1 << 20


def opened(max_bytes: int = MAX_BYTES, bounds: Bounds = BOUNDS) -> tuple[TableStore, Clock]:
    """Return an empty table and its clock."""
    clock = Clock()
    return TableStore(LocalTable(Room(max_bytes), alone=Alone(bounds, clock))), clock


def assert_exact(store: TableStore, max_bytes: int = MAX_BYTES) -> None:
    """Check the sizes, the bounds, and that each key leads to a row that knows it."""
    table = store.table
    rows = table._rows
    counted = sum(row.size_bytes for row in rows.values())
    gone = CONVERSATIONS_PER_KEY * KEY_BYTES * len(rows)  # keys that newer rows took from a row
    assert counted <= table.room.size_bytes <= min(max_bytes, counted + gone)
    for row in rows.values():
        records = {k: v for one in row.decoded() for k, v in records_of(one).items()}
        assert row.records == len(records)
        assert row.record_bytes == sum(map(len, records.values())) == sum(row.sizes.values())
        assert len(row.sizes) == len(row.turns) <= BOUNDS.max_turns
        assert row.record_bytes <= BOUNDS.max_bytes or len(row.turns) == 1
        assert table._slots.some(row.slot, 1) == [row.name]
    assert all(table._index.values())
    for scope, names in table._index.items():
        for name, leads_to in names.items():
            assert 0 < len(leads_to) <= CONVERSATIONS_PER_KEY
            assert all(name in rows[scope, one].keys for one in leads_to)
    for (scope, conversation), row in rows.items():
        assert all(conversation in table._index[scope][name] for name in row.keys)
    assert sorted(filter(None, table._slots.some(0, len(table._slots)))) == sorted(rows)


SMALL = st.integers(0, 3)
SAVE = st.tuples(
    st.just("save"), SMALL, SMALL, SMALL, st.integers(0, 4000), st.sets(st.integers(0, 5))
)
LOOK_UP = st.tuples(st.just("look_up"), SMALL, SMALL, SMALL, st.just(0), st.sets(st.integers(0, 5)))
WAIT = st.tuples(st.just("wait"), SMALL, SMALL, SMALL, st.integers(0, 60), st.just(set()))


@given(st.lists(st.one_of(SAVE, SAVE, LOOK_UP, WAIT), max_size=40), st.booleans())
def test_the_size_and_the_index_are_exact(
    steps: list[tuple[str, int, int, int, int, set[int]]],
    is_checked: bool,
) -> None:
    """Any saves, look-ups and expiries leave both exact; an empty table has 0 bytes."""
    store, clock = opened()

    async def play() -> None:
        for what, scope, conversation, number, size, names in steps:
            keys = [key(str(name)) for name in names]
            if what == "save":
                kept = turn(f"{number}", f"{conversation}", size=size)
                await save(store, kept, keys, bytes_of(str(scope)))
            elif what == "look_up":
                await store.look_up(bytes_of(str(scope)), asked(*keys), {})
            else:
                clock.now_s += size
            if is_checked:  # which decodes all that was added
                assert_exact(store)
        assert_exact(store)
        clock.now_s += TTL_S
        await store.look_up(SCOPE, [], {})

    asyncio.run(play())
    table = store.table
    assert (table.room.size_bytes, table._rows, table._index) == (0, {}, {})
    assert not any(table._slots.some(0, len(table._slots)))


async def test_the_least_recently_used_conversation_is_evicted_first() -> None:
    """A look-up counts as a use, like a save."""
    probe, _ = opened()
    await save(probe, turn("a", "a", size=1000), [key("a")])
    room_for_two = 2 * probe.table.room.size_bytes + 100
    store, _ = opened(max_bytes=room_for_two)
    for name in ("a", "b"):
        await save(store, turn(name, name, size=1000), [key(name)])
    await found(store, "a")
    await save(store, turn("c", "c", size=1000), [key("c")])
    left = [name for name in "abc" if await found(store, name)]
    assert left == ["a", "c"]
    assert await store.usage() == (store.table.room.size_bytes, room_for_two, 2, 1)
    assert_exact(store, room_for_two)


async def test_a_turn_larger_than_the_room_is_not_kept() -> None:
    """It leaves nothing, also no key."""
    store, _ = opened(max_bytes=1000)
    await save(store, turn("a", size=2000), [key("a")])
    assert await found(store, "a") == []
    assert (store.table.room.size_bytes, store.table._index) == (0, {})


async def test_a_tenant_evicts_another_one_only_down_to_its_share() -> None:
    """So a stranger that sends much cannot make a tenant lose the little that it has."""
    store, _ = opened(max_bytes=20_000)
    await save(store, turn("a", size=1500), [key("1")], bytes_of("one"))
    for n in range(50):
        await save(store, turn(f"{n}", f"{n}", size=1500), [key("1")], bytes_of("other"))
    assert await found(store, "1", scope=bytes_of("one")) == ["a"]
    assert_exact(store, 20_000)


async def test_the_limit_includes_the_overhead_of_python() -> None:
    """The estimated size is close to the memory that the process really uses."""
    store, _ = opened(max_bytes=2 * MIB, bounds=Bounds(TTL_S, 1024, MIB))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(1200):
            kept = turn(f"{n}", f"{n // 4}", size=600)
            await save(store, kept, [key(f"{n} {m}") for m in range(3)])
            await found(store, f"{n} 0")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.9 * 2 * MIB < store.table.room.size_bytes <= 2 * MIB
    assert after - before < 1.1 * store.table.room.size_bytes


async def test_a_call_drops_a_bounded_number_of_expired_conversations() -> None:
    """Until the event loop has its turn; only an operator's request goes on after that."""
    store, clock = opened(max_bytes=1 << 30)
    for n in range(5 * EXPIRED_AT_ONCE):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}")])
    clock.now_s += TTL_S
    left = []
    for _ in range(2):
        await found(store, "0")
        left.append(len(store.table._rows))
    assert left == [4 * EXPIRED_AT_ONCE, 3 * EXPIRED_AT_ONCE]
    usage = await store.usage()
    assert (usage.conversations, usage.size_bytes, usage.evicted) == (0, 0, 0)


async def test_an_expired_conversation_leaves_its_place_at_a_key_first() -> None:
    """Else it would push out one that is in use."""
    store, clock = opened(max_bytes=1 << 30)
    await save(store, turn("used", "used"), [key("hi"), key("used")])
    for n in range(5 * EXPIRED_AT_ONCE):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}")])
    for n in range(CONVERSATIONS_PER_KEY - 1):
        await save(store, turn(f"more {n}", f"more {n}"), [key("hi"), key(f"more {n}")])
    clock.now_s += TTL_S / 2
    assert await found(store, "used", *(f"more {n}" for n in range(4))) != []
    clock.now_s += TTL_S / 2
    await save(store, turn("new", "new"), [key("hi")])
    assert bytes_of("used") in store.table.index(SCOPE)[key("hi")]
    assert len(store.table.index(SCOPE)[key("hi")]) == CONVERSATIONS_PER_KEY
    assert_exact(store, 1 << 30)


async def test_a_survey_and_new_conversations_use_the_places_of_deleted_ones() -> None:
    """So that a walk costs in proportion to what is here, however much came and went."""
    store, _ = opened(max_bytes=1 << 30)
    for n in range(1000):
        await save(store, turn(f"{n}", f"{n % 7}"), [key(f"{n}")])
        assert await store.forget(SCOPE, bytes_of(f"{n % 7}"))
    assert len(store.table._slots) == 1


class Process:
    """A process with `memory://`."""

    def __init__(self) -> None:
        self.metrics, clock = Metrics(), Clock()
        guard = StoreGuard(
            LONG_S, self.metrics, Log("info", "json", io.StringIO()), lambda: clock.now_s
        )
        self.decisions = Room(MIB)
        alone = Alone(Bounds(TTL_S, 100, MIB), clock)
        self.table = LocalTable(Room(MIB), alone=alone, decisions=self.decisions)
        self.store = SafeStore(None, guard, self.table, self.decisions, Offloader())

    async def save(self, one: Turn, budget: Budget) -> Saved:
        """Save a turn."""
        return await self.store.save(
            SCOPE, one.conversation, records_of(one), keys_of_turn(one), budget
        )

    async def ids(self, *turns: Turn) -> set[bytes]:
        """Return the ids of the turns that are found for a history."""
        result = await self.store.look_up(SCOPE, looked_up(*turns), Budget(LONG_S))
        assert result is not None
        return {one.id for one in result.turns}


ONE = said("one")
TWO = said("two", ONE, created_ms=2)


async def test_it_never_waits() -> None:
    """So it needs no budget, and no other task runs in the meantime."""
    p = Process()
    ran: list[str] = []
    asyncio.get_running_loop().call_soon(ran.append, "another")
    assert await p.save(ONE, Budget(0.0)) is Saved.DONE
    assert await p.ids(ONE) == {ONE.id}
    assert await p.store.check()
    assert ran == []


@pytest.mark.parametrize("of", ["conversation", "scope"])
async def test_a_deletion_is_final(of: str) -> None:
    """An exchange that began before it saves nothing; a conversation never comes again."""
    p = Process()
    before = p.store.budget(LONG_S)
    assert await p.save(ONE, before) is Saved.DONE
    if of == "conversation":
        assert await p.store.forget(SCOPE, ONE.conversation)
        assert not await p.store.forget(SCOPE, ONE.conversation)
    else:
        assert await p.store.forget_scope(SCOPE) == 1
    assert await p.save(TWO, before) is Saved.DELETED
    assert await p.ids(ONE, TWO) == set()
    page = await p.store.survey(None, "", 10)
    assert not page.conversations

    later = p.store.budget(LONG_S)
    is_new = of == "scope"
    assert await p.save(ONE, later) is (Saved.DONE if is_new else Saved.DELETED)
    assert await p.ids(ONE) == ({ONE.id} if is_new else set())
    assert await p.save(said("other"), later) is Saved.DONE


class Decided:
    """What was decided about a request."""

    is_decision: ClassVar[bool] = True
    gone = 0

    def evict(self) -> None:
        """Count it."""
        self.gone += 1


async def test_a_deletion_drops_what_was_decided() -> None:
    """Decisions have a room of their own."""
    p, made = Process(), Decided()
    await p.save(ONE, p.store.budget(LONG_S))
    p.decisions.keep(made, SCOPE, (SCOPE, ONE.conversation), 100)
    await p.store.forget(SCOPE, ONE.conversation)
    assert (made.gone, p.decisions.size_bytes, p.table.room.size_bytes) == (1, 0, 0)


async def test_decisions_evict_no_turn() -> None:
    """A decision can be made again, a turn cannot."""
    p = Process()
    await p.save(ONE, p.store.budget(LONG_S))
    for n in itertools.count():
        p.decisions.keep(Decided(), SCOPE, (SCOPE, bytes_of(f"{n}")), 100_000)
        if p.decisions.evictions > 3:
            break
    assert await p.ids(ONE) == {ONE.id}
