"""What every store does, whatever it keeps turns in."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from proxy.adapters.store import CONVERSATIONS_PER_KEY, Bounds, Store
from proxy.core.keys import CONVERSATIONS_LOADED, Asked, Recalled
from proxy.core.turns import Turn, encode_turn
from tests.adapters.stores import KINDS, Kept, on_fake_redis, on_memory, on_real_redis
from tests.adapters.turns import SCOPE, asked, bytes_of, key, turn

DAY = 86_400
WIDE = Bounds(ttl_s=DAY, max_turns=100, max_bytes=1 << 20)
BRIEF = Bounds(ttl_s=1, max_turns=100, max_bytes=1 << 20)
OTHER = bytes_of("another scope")


@pytest.fixture(params=KINDS)
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    """Every kind of store, empty."""
    if request.param == "memory":
        opened = on_memory()
    elif request.param == "fakeredis":
        opened = on_fake_redis()
    else:
        opened = on_real_redis(request.getfixturevalue("shared_redis").url)
    async with opened as store:
        yield store


def names(recalled: Recalled) -> list[str]:
    """Return what the recalled turns' calls are named, oldest first."""
    return [t.items[0].id.removeprefix("fc_") for t in sorted(recalled.turns, key=_age)]


def _age(kept: Turn) -> tuple[int, str]:
    return kept.created_ms, kept.items[0].id


async def found(store: Store, *keys: bytes, scope: bytes = SCOPE) -> list[str]:
    """Ask by some keys."""
    return names(await store.recall(scope, asked(*keys)))


async def test_a_turn_is_found_by_every_key(kept: Kept) -> None:
    """Each alone leads to the conversation, and what comes back is what was saved."""
    store = kept.opens(WIDE)
    saved = turn("a")
    await store.save(SCOPE, saved, [key("1"), key("2"), key("3")])
    for name in ("1", "2", "3"):
        recalled = await store.recall(SCOPE, asked(key(name)))
        assert (list(recalled.turns), recalled.crowded) == ([saved], set())
    assert await found(store, key("4")) == []


async def test_a_key_leads_to_the_whole_conversation(kept: Kept) -> None:
    """Every turn of it, once, however many keys lead there."""
    store = kept.opens(WIDE)
    for n in range(3):
        await store.save(SCOPE, turn(str(n), created_ms=n), [key(str(n))])
    assert await found(store, key("2")) == ["0", "1", "2"]
    assert await found(store, key("0"), key("1"), key("2")) == ["0", "1", "2"]


async def test_an_items_certain_keys_decide(kept: Kept) -> None:
    """A doubtful one is for an item whose certain keys lead nowhere."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a", "one"), [key("id")])
    await store.save(SCOPE, turn("b", "two"), [key("text")])
    both = await store.recall(SCOPE, [Asked(0, [key("id")], [key("text")])])
    assert names(both) == ["a"]
    doubtful = await store.recall(SCOPE, [Asked(0, [key("unknown")], [key("text")])])
    assert names(doubtful) == ["b"]


async def test_nothing_asked_is_nothing_found(kept: Kept) -> None:
    """Neither an empty question nor an item without keys is an error."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a"), [key("1")])
    for nothing in ([], asked(), [Asked(0, [])]):
        recalled = await store.recall(SCOPE, nothing)
        assert (list(recalled.turns), recalled.crowded) == ([], set())


async def test_a_turn_without_keys_is_found_through_others(kept: Kept) -> None:
    """It belongs to its conversation all the same."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a"), [key("1")])
    await store.save(SCOPE, turn("b"), [])
    assert await found(store, key("1")) == ["a", "b"]


async def test_scopes_never_meet(kept: Kept) -> None:
    """The same keys and the same conversation, and still nothing of one another."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("mine"), [key("1")])
    assert await found(store, key("1"), scope=OTHER) == []
    await store.save(OTHER, turn("theirs"), [key("1")])
    assert await found(store, key("1")) == ["mine"]
    assert await found(store, key("1"), scope=OTHER) == ["theirs"]


async def test_a_turn_saved_again_replaces_itself(kept: Kept) -> None:
    """As it does while its answer is still streamed, item by item."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a", size=10), [key("1")])
    last = turn("a", size=500)
    await store.save(SCOPE, last, [key("2")])
    for name in ("1", "2"):
        assert list((await store.recall(SCOPE, asked(key(name)))).turns) == [last]


async def test_beyond_the_bound_in_turns_the_oldest_go(kept: Kept) -> None:
    """The newest is always kept, and what is kept has no gap."""
    bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=1 << 20)
    store = kept.opens(bounds)
    for n in range(30):
        await store.save(SCOPE, turn(f"{n:02}", created_ms=n), [key("1")])
        left = await found(store, key("1"))
        assert left == [f"{m:02}" for m in range(n + 1)][-len(left) :]
        assert min(n + 1, 9) <= len(left) <= 10


@pytest.mark.parametrize("sizes", [[100] * 30, [100, 100, 900, 100, 500] * 6, [2000, 10, 2000, 10]])
async def test_beyond_the_bound_in_bytes_the_oldest_go(kept: Kept, sizes: list[int]) -> None:
    """Whatever their sizes: the newest is always kept, and what is kept has no gap."""
    bounds = Bounds(ttl_s=DAY, max_turns=100, max_bytes=2000)
    store = kept.opens(bounds)
    for n, size in enumerate(sizes):
        await store.save(SCOPE, turn(f"{n:02}", created_ms=n, size=size), [key("1")])
        turns = (await store.recall(SCOPE, asked(key("1")))).turns
        left = sorted(t.items[0].id for t in turns)
        assert left == [f"fc_{m:02}" for m in range(n + 1)][-len(left) :]
        assert len(left) == 1 or sum(len(encode_turn(t)) for t in turns) <= 2000


async def test_saving_one_turn_often_drops_no_other(kept: Kept) -> None:
    """Only what is kept counts, not what was written."""
    bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=2000)
    store = kept.opens(bounds)
    await store.save(SCOPE, turn("a", created_ms=1), [key("1")])
    for _ in range(50):
        await store.save(SCOPE, turn("b", created_ms=2, size=200), [])
    assert await found(store, key("1")) == ["a", "b"]


async def test_what_is_not_used_expires(kept: Kept) -> None:
    """After the TTL, the index with it."""
    store = kept.opens(BRIEF)
    await store.save(SCOPE, turn("a"), [key("1")])
    await kept.passes(1.2)
    assert await found(store, key("1")) == []
    if kept.redis is not None:
        assert await kept.redis.keys() == []


@pytest.mark.parametrize("use", ["recall", "save"])
async def test_use_keeps_a_conversation_alive(kept: Kept, use: str) -> None:
    """All of it, from any of its keys, and for the whole TTL again."""
    store = kept.opens(BRIEF)
    await store.save(SCOPE, turn("a", created_ms=1), [key("1")])
    await store.save(SCOPE, turn("b", created_ms=2), [key("2")])
    for _ in range(3):
        await kept.passes(0.6)
        if use == "recall":
            assert await found(store, key("1")) == ["a", "b"]
        else:
            await store.save(SCOPE, turn("b", created_ms=2), [key("2")])
    assert await found(store, key("2" if use == "save" else "1")) == ["a", "b"]


@pytest.mark.parametrize(
    "damaged",
    [b"", b"\x01", b"\x01\xc1", b"\x02" + encode_turn(turn("b"))[1:], b"\x01\x90", b"junk"],
    ids=["empty", "no-turn", "not-msgpack", "unknown-version", "no-fields", "junk"],
)
async def test_what_cannot_be_read_is_skipped(kept: Kept, damaged: bytes) -> None:
    """A newer or a broken neighbour does not hide the turns that can be read."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a"), [key("1")])
    await store.save(SCOPE, turn("b"), [key("1")])
    await _damage(kept, store, damaged)
    assert await found(store, key("1")) == ["a"]
    await store.save(SCOPE, turn("b"), [])
    assert await found(store, key("1")) == ["a", "b"]


async def _damage(kept: Kept, store: Store, value: bytes) -> None:
    """Overwrite what is kept of turn b."""
    if kept.redis is None:
        turns = store._conversations[SCOPE, bytes_of("c")].turns  # type: ignore[attr-defined]
        assert bytes_of("b") in turns
        turns[bytes_of("b")] = value
        return
    (name,) = await kept.redis.keys("rr:1:{*")
    assert await kept.redis.hset(name, bytes_of("b").hex(), value) == 0


async def test_a_key_of_too_many_conversations_is_crowded(kept: Kept) -> None:
    """To load some of them would make an ambiguous saying look like a clear one."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED + 1):
        await store.save(SCOPE, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    recalled = await store.recall(SCOPE, [Asked(7, [key("hi")])])
    assert (list(recalled.turns), recalled.crowded) == ([], {7})
    clear = await store.recall(SCOPE, [Asked(3, [key("own 2")]), Asked(7, [key("hi")])])
    assert (names(clear), clear.crowded) == (["2"], {7})


async def test_a_key_of_as_many_as_can_be_compared_is_not(kept: Kept) -> None:
    """All of them are loaded."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED):
        await store.save(SCOPE, turn(f"{n}", f"conversation {n}"), [key("hi")])
    recalled = await store.recall(SCOPE, [Asked(7, [key("hi")])])
    assert (len(recalled.turns), recalled.crowded) == (CONVERSATIONS_LOADED, set())


async def test_what_a_key_leads_to_is_bounded(kept: Kept) -> None:
    """A saying as common as "hi" does not grow without end; its newest are still found."""
    store = kept.opens(WIDE)
    often = 4 * CONVERSATIONS_PER_KEY
    for n in range(often):
        await store.save(SCOPE, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    assert (await store.recall(SCOPE, [Asked(0, [key("hi")])])).crowded == {0}
    assert await found(store, key(f"own {often - 1}")) == [f"{often - 1}"]
    if kept.redis is None:
        index = store._index[SCOPE, key("hi")]  # type: ignore[attr-defined]
        assert len(index) <= CONVERSATIONS_PER_KEY
    else:
        length = await kept.redis.strlen(f"rr:1:k:{SCOPE.hex()}:{key('hi').hex()}")
        assert length <= 2 * CONVERSATIONS_PER_KEY * 16


async def test_saves_at_the_same_time_lose_nothing(kept: Kept) -> None:
    """Two replicas that serve one conversation never overwrite each other."""
    one, other = kept.opens(WIDE), kept.opens(WIDE)
    saves = [
        store.save(SCOPE, turn(f"{n:02}{which}", created_ms=n), [key("1"), key(f"{n}{which}")])
        for n in range(20)
        for which, store in (("a", one), ("b", other))
    ]
    await asyncio.gather(*saves)
    want = sorted(f"{n:02}{which}" for n in range(20) for which in "ab")
    assert await found(one, key("1")) == want
    for n in range(20):
        assert await found(other, key(f"{n}a")) == want


async def test_a_store_that_is_well_says_nothing(kept: Kept) -> None:
    """`check` has no result: it raises, or it does not."""
    await kept.opens(WIDE).check()
