"""The memory store is bounded in bytes, and its count of them is exact."""

import asyncio
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.stores.base import CONVERSATIONS_PER_KEY, Bounds
from reasoning_replay.adapters.stores.memory import DROPPED_AT_ONCE, MemoryStore
from reasoning_replay.core.history.records import turn_of_record

from tests.adapters.stores.turns import SCOPE, Clock, asked, bytes_of, found, key, save, turn

TTL_S = 100
BOUNDS = Bounds(ttl_s=TTL_S, max_turns=4, max_bytes=3000)
MAX_BYTES = 8000


def opened(max_bytes: int = MAX_BYTES, bounds: Bounds = BOUNDS) -> tuple[MemoryStore, Clock]:
    """Return an empty store and its clock."""
    clock = Clock()
    return MemoryStore(bounds, max_bytes, clock), clock


def assert_exact(store: MemoryStore, max_bytes: int = MAX_BYTES) -> None:
    """Check the sizes, the bounds, and that each index entry leads to a stored conversation."""
    conversations = store._conversations
    assert store.size_bytes == sum(kept.size_bytes for kept in conversations.values())
    assert 0 <= store.size_bytes <= max_bytes
    for kept in conversations.values():
        assert kept.record_bytes == sum(map(len, kept.records.values()))
        assert set(kept.turns) == set(map(turn_of_record, kept.records))
        assert len(kept.turns) <= BOUNDS.max_turns
        assert kept.record_bytes <= BOUNDS.max_bytes or len(kept.turns) == 1
    index = store._index
    assert all(index.values())
    for scope, name in ((scope, name) for scope, names in index.items() for name in names):
        leads_to = index[scope][name]
        assert 0 < len(leads_to) <= CONVERSATIONS_PER_KEY
        for conversation in leads_to:
            assert name in conversations[scope, conversation].keys
    assert sorted(filter(None, store._slots)) == sorted(conversations)
    assert len(store._slots) == len(store._free_slots) + len(conversations)
    for (scope, conversation), kept in conversations.items():
        assert store._slots[kept.slot] == (scope, conversation)
        for name in kept.keys:
            assert conversation in index[scope][name]


SMALL = st.integers(0, 3)
SAVE = st.tuples(
    st.just("save"), SMALL, SMALL, SMALL, st.integers(0, 4000), st.sets(st.integers(0, 5))
)
LOOK_UP = st.tuples(st.just("look_up"), SMALL, SMALL, SMALL, st.just(0), st.sets(st.integers(0, 5)))
WAIT = st.tuples(st.just("wait"), SMALL, SMALL, SMALL, st.integers(0, 60), st.just(set()))


@given(st.lists(st.one_of(SAVE, SAVE, LOOK_UP, WAIT), max_size=40))
def test_the_size_and_the_index_are_exact(
    steps: list[tuple[str, int, int, int, int, set[int]]],
) -> None:
    """Any saves, lookups and expiries leave size and index exact; an empty store has 0 bytes."""
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
            assert_exact(store)
        clock.now_s += TTL_S
        await store.look_up(SCOPE, [], {})

    asyncio.run(play())
    assert not any(store._slots)
    assert (store.size_bytes, store._conversations, store._index) == (0, {}, {})


async def test_the_least_recently_used_conversation_is_evicted_first() -> None:
    """A lookup counts as a use, like a save."""
    probe, _ = opened()
    await save(probe, turn("a", "a", size=1000), [key("a")])
    room_for_two = 2 * probe.size_bytes + 100
    store, _ = opened(max_bytes=room_for_two)
    for name in ("a", "b"):
        await save(store, turn(name, name, size=1000), [key(name)])
    await found(store, "a")
    await save(store, turn("c", "c", size=1000), [key("c")])
    left = [name for name in "abc" if await found(store, name)]
    assert left == ["a", "c"]
    assert await store.usage() == (store.size_bytes, room_for_two, 2, 1)
    assert_exact(store, room_for_two)


async def test_a_turn_larger_than_the_store_is_not_saved() -> None:
    """A turn that is larger than the store is dropped, with its index entries."""
    store, _ = opened(max_bytes=1000)
    await save(store, turn("a", size=2000), [key("a")])
    assert await found(store, "a") == []
    assert (store.size_bytes, store._index) == (0, {})


async def test_a_tenant_can_evict_another_but_not_see_it() -> None:
    """Scopes share the limit of the process, and nothing else."""
    store, _ = opened(max_bytes=4000)
    await save(store, turn("a", size=1500), [key("1")], bytes_of("one"))
    for n in range(5):
        await save(store, turn(f"{n}", f"{n}", size=1500), [key("1")], bytes_of("other"))
    assert await found(store, "1", scope=bytes_of("one")) == []
    assert_exact(store, 4000)


async def test_the_limit_includes_the_overhead_of_python() -> None:
    """The estimated size is close to the memory that the process really uses."""
    mib = 1 << 20
    store, _ = opened(max_bytes=2 * mib, bounds=Bounds(TTL_S, 1024, mib))
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for n in range(3000):
            kept = turn(f"{n}", f"{n // 4}", size=600)
            await save(store, kept, [key(f"{n} {m}") for m in range(3)])
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.9 * 2 * mib < store.size_bytes <= 2 * mib
    assert after - before < 1.1 * store.size_bytes


async def test_a_call_drops_a_bounded_number_of_expired_conversations() -> None:
    """Until the event loop has its turn; only an operator's request goes on after that."""
    store, clock = opened(max_bytes=1 << 30)
    for n in range(5 * DROPPED_AT_ONCE):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}")])
    clock.now_s += TTL_S
    left = []
    for _ in range(2):
        await found(store, "0")
        left.append(len(store._conversations))
    assert left == [4 * DROPPED_AT_ONCE, 3 * DROPPED_AT_ONCE]
    assert_exact(store, 1 << 30)
    usage = await store.usage()
    assert (usage.conversations, usage.size_bytes, usage.evicted) == (0, 0, 0)
    assert store._conversations == {}


async def test_an_expired_conversation_leaves_its_place_at_a_key_first() -> None:
    """Else it would push out one that is in use."""
    store, clock = opened(max_bytes=1 << 30)
    await save(store, turn("used", "used"), [key("hi")])
    for n in range(5 * DROPPED_AT_ONCE):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}")])
    for n in range(CONVERSATIONS_PER_KEY - 1):
        await save(store, turn(f"more {n}", f"more {n}"), [key("hi"), key(f"more {n}")])
    clock.now_s += TTL_S / 2
    assert await found(store, *(f"more {n}" for n in range(4))) != []
    await store.look_up(SCOPE, [], {bytes_of("used"): 0})
    clock.now_s += TTL_S / 2
    await save(store, turn("new", "new"), [key("hi")])
    assert bytes_of("used") in store._index[SCOPE][key("hi")]
    assert len(store._index[SCOPE][key("hi")]) == CONVERSATIONS_PER_KEY
    assert_exact(store, 1 << 30)


async def test_a_survey_and_new_conversations_use_the_places_of_deleted_ones() -> None:
    """So that a walk costs in proportion to what is stored, however much came and went."""
    store, _ = opened(max_bytes=1 << 30)
    for n in range(1000):
        await save(store, turn(f"{n}", f"{n % 7}"), [key(f"{n}")])
        assert await store.forget(SCOPE, bytes_of(f"{n % 7}"))
    assert len(store._slots) == len(store._free_slots) == 1
