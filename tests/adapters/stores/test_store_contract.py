"""What every store does, whatever it keeps turns in."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from reasoning_replay.adapters.stores.base import CONVERSATIONS_PER_KEY, Bounds, Store, StoreError
from reasoning_replay.adapters.stores.base import ConversationInfo as StoreKept
from reasoning_replay.core.history.lookup_keys import (
    CONVERSATIONS_LOADED,
    Lookup,
    LookupResult,
    keys_of_turn,
)
from reasoning_replay.core.history.turns import FORMAT, Turn, encode_turn

from tests.adapters.stores.kinds import KINDS, Kept, on_kind
from tests.adapters.stores.turns import SCOPE, asked, bytes_of, key, turn

DAY = 86_400
WIDE = Bounds(ttl_s=DAY, max_turns=100, max_bytes=1 << 20)
BRIEF = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)
OTHER = bytes_of("another scope")


@pytest.fixture(params=KINDS)
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    """Every kind of store, empty."""
    async with on_kind(request.param, request.getfixturevalue) as store:
        yield store


def names(recalled: LookupResult) -> list[str]:
    """Return what the recalled turns' calls are named, oldest first."""
    return [t.items[0].id.removeprefix("fc_") for t in sorted(recalled.turns, key=_age)]


def _age(kept: Turn) -> tuple[int, str]:
    return kept.created_ms, kept.items[0].id


async def surveyed(store: Store, scope: bytes | None = None, limit: int = 100) -> list[StoreKept]:
    """Return all that is kept, page by page, in order of their names."""
    cursor = ""
    kept: list[StoreKept] = []
    for _ in range(200):
        page = await store.survey(scope, cursor, limit)
        kept += page.conversations
        cursor = page.next_cursor
        if not cursor:
            return sorted(kept, key=lambda one: (one.scope, one.conversation))
    raise AssertionError("there is no end to it")


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
    both = await store.recall(SCOPE, [Lookup(0, [key("id")], [key("text")])])
    assert names(both) == ["a"]
    doubtful = await store.recall(SCOPE, [Lookup(0, [key("unknown")], [key("text")])])
    assert names(doubtful) == ["b"]


async def test_nothing_asked_is_nothing_found(kept: Kept) -> None:
    """Neither an empty question nor an item without keys is an error."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a"), [key("1")])
    for nothing in ([], asked(), [Lookup(0, [])]):
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
    """After the TTL, the index with it; nor is it counted among what is kept."""
    store = kept.opens(BRIEF)
    await store.save(SCOPE, turn("a"), [key("1")])
    await kept.passes(1200)
    assert await found(store, key("1")) == []
    assert await kept.names() == []
    assert await surveyed(store) == []


async def test_what_has_expired_begins_anew(kept: Kept) -> None:
    """Nothing of before comes back with a turn of today."""
    store = kept.opens(BRIEF)
    await store.save(SCOPE, turn("a"), [key("1")])
    await kept.passes(1200)
    await store.save(SCOPE, turn("b"), [key("2")])
    assert await found(store, key("2")) == ["b"]
    assert await found(store, key("1")) == []


@pytest.mark.parametrize("use", ["recall", "save"])
async def test_use_keeps_a_conversation_alive(kept: Kept, use: str) -> None:
    """All of it, from any of its keys, and for the whole TTL again."""
    store = kept.opens(BRIEF)
    await store.save(SCOPE, turn("a", created_ms=1), [key("1")])
    await store.save(SCOPE, turn("b", created_ms=2), [key("2")])
    for _ in range(3):
        await kept.passes(600)
        if use == "recall":
            assert await found(store, key("1")) == ["a", "b"]
        else:
            await store.save(SCOPE, turn("b", created_ms=2), [key("2")])
    assert await found(store, key("2" if use == "save" else "1")) == ["a", "b"]


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        FORMAT,
        FORMAT + b"\xc1",
        b"\x01" + encode_turn(turn("b"))[1:],
        FORMAT + b"\x90",
        b"junk",
    ],
    ids=["empty", "no-turn", "not-msgpack", "unknown-version", "no-fields", "junk"],
)
async def test_what_cannot_be_read_is_skipped(kept: Kept, damaged: bytes) -> None:
    """A newer or a broken neighbour does not hide the turns that can be read."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a"), [key("1")])
    await store.save(SCOPE, turn("b"), [key("1")])
    await kept.damages("b", damaged)
    assert await found(store, key("1")) == ["a"]
    await store.save(SCOPE, turn("b"), [])
    assert await found(store, key("1")) == ["a", "b"]


async def test_a_key_of_too_many_conversations_is_crowded(kept: Kept) -> None:
    """To load some of them would make an ambiguous saying look like a clear one."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED + 1):
        await store.save(SCOPE, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    recalled = await store.recall(SCOPE, [Lookup(7, [key("hi")])])
    assert (list(recalled.turns), recalled.crowded) == ([], {7})
    clear = await store.recall(SCOPE, [Lookup(3, [key("own 2")]), Lookup(7, [key("hi")])])
    assert (names(clear), clear.crowded) == (["2"], {7})


async def test_a_key_of_as_many_as_can_be_compared_is_not(kept: Kept) -> None:
    """All of them are loaded."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED):
        await store.save(SCOPE, turn(f"{n}", f"conversation {n}"), [key("hi")])
    recalled = await store.recall(SCOPE, [Lookup(7, [key("hi")])])
    assert (len(recalled.turns), recalled.crowded) == (CONVERSATIONS_LOADED, set())


async def test_what_a_key_leads_to_is_bounded(kept: Kept) -> None:
    """A saying as common as "hi" does not grow without end; its newest are still found."""
    store = kept.opens(WIDE)
    often = 4 * CONVERSATIONS_PER_KEY
    for n in range(often):
        await store.save(SCOPE, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    assert (await store.recall(SCOPE, [Lookup(0, [key("hi")])])).crowded == {0}
    assert await found(store, key(f"own {often - 1}")) == [f"{often - 1}"]
    assert await kept.counts(key("hi")) <= 2 * CONVERSATIONS_PER_KEY


async def test_one_that_says_the_same_again_and_again_is_one(kept: Kept) -> None:
    """An agent that polls pushes no other conversation out of what a key leads to."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED - 1):
        await store.save(SCOPE, turn(f"{n}", f"conversation {n}"), [key("still waiting")])
    for n in range(3 * CONVERSATIONS_PER_KEY):
        await store.save(SCOPE, turn(f"poll {n}", "polling", n), [key("still waiting")])
    recalled = await store.recall(SCOPE, [Lookup(0, [key("still waiting")])])
    conversations = {t.conversation for t in recalled.turns}
    assert (len(conversations), recalled.crowded) == (CONVERSATIONS_LOADED, set())


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


async def test_a_survey_tells_what_is_kept(kept: Kept) -> None:
    """Each conversation once, with its numbers; of everybody, or of one."""
    store = kept.opens(WIDE)
    for n in range(3):
        await store.save(SCOPE, turn(f"{n}", "one", size=500), [key(f"{n}")])
    await store.save(OTHER, turn("x", "two", size=700), [key("x")])
    everything = await surveyed(store)
    assert {(one.scope, one.conversation): one.turns for one in everything} == {
        (SCOPE, bytes_of("one")): 3,
        (OTHER, bytes_of("two")): 1,
    }
    sizes = {one.scope: one.turn_bytes for one in everything}
    assert 1500 < sizes[SCOPE] < 3000
    assert 700 < sizes[OTHER] < 1200
    assert all(DAY - 60 <= one.expires_in_s <= DAY for one in everything)
    assert [one.scope for one in await surveyed(store, OTHER)] == [OTHER]
    assert await surveyed(store, bytes_of("nobody")) == []


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_a_survey_comes_in_pages(kept: Kept, limit: int) -> None:
    """All of it in the end, however small they are."""
    store = kept.opens(WIDE)
    for n in range(30):
        await store.save(SCOPE, turn(f"{n}", f"{n}"), [key(f"{n}"), key(f"also {n}")])
    every = await surveyed(store, SCOPE, limit)
    assert {one.conversation for one in every} == {bytes_of(f"{n}") for n in range(30)}


@pytest.mark.parametrize("cursor", ["x", "x:y", "99:0", "-1:0"])
async def test_a_cursor_that_is_none_is_refused(kept: Kept, cursor: str) -> None:
    """It is whoever asked, and not the store, that is not well."""
    with pytest.raises(StoreError) as caught:
        await kept.opens(WIDE).survey(None, cursor, 10)
    assert caught.value.is_local


async def test_what_is_forgotten_is_gone(kept: Kept) -> None:
    """The conversation, and all that led to it; others stay, also where a key leads to both."""
    store = kept.opens(WIDE)
    turns = [turn("a", "one"), turn("b", "one"), turn("c", "two")]
    for one in turns:
        await store.save(SCOPE, one, keys_of_turn(one))
    await store.save(OTHER, turns[0], keys_of_turn(turns[0]))
    saying = set(keys_of_turn(turns[0])) & set(keys_of_turn(turns[2]))
    assert saying
    assert await store.forget(SCOPE, bytes_of("one"))
    for key_of_it in {*keys_of_turn(turns[0]), *keys_of_turn(turns[1])} - saying:
        assert await found(store, key_of_it) == []
    for key_of_both in saying:
        assert await found(store, key_of_both) == ["c"]
    assert await found(store, keys_of_turn(turns[0])[0], scope=OTHER) == ["a"]
    assert await store.forget(SCOPE, bytes_of("two"))
    assert await store.forget(OTHER, bytes_of("one"))
    assert await kept.names() == []


async def test_what_is_not_kept_cannot_be_forgotten(kept: Kept) -> None:
    """Nor what is somebody else's; and a second time there is nothing left."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a", "one"), [key("1")])
    assert not await store.forget(OTHER, bytes_of("one"))
    assert not await store.forget(SCOPE, bytes_of("two"))
    assert await store.forget(SCOPE, bytes_of("one"))
    assert not await store.forget(SCOPE, bytes_of("one"))


async def test_after_it_was_forgotten_a_conversation_may_begin_anew(kept: Kept) -> None:
    """Of what was before, nothing comes back."""
    store = kept.opens(WIDE)
    await store.save(SCOPE, turn("a", "one"), keys_of_turn(turn("a", "one")))
    await store.forget(SCOPE, bytes_of("one"))
    await store.save(SCOPE, turn("b", "one"), [key("1")])
    assert await found(store, key("1")) == ["b"]
