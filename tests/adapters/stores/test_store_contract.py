"""The contract of all stores, whatever they keep conversations in."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    Bounds,
    ConversationInfo,
    Store,
    StoredConversation,
    StoreError,
)
from reasoning_replay.core.history.lookup_keys import (
    CONVERSATIONS_LOADED,
    Lookup,
    LookupResult,
    keys_of_turn,
)
from reasoning_replay.core.history.turns import FORMAT, Turn, is_head, records_of

from tests.adapters.stores.kinds import KINDS, Kept, on_kind
from tests.adapters.stores.turns import SCOPE, asked, bytes_of, found, key, looked_up, save, turn

DAY = 86_400
WIDE = Bounds(ttl_s=DAY, max_turns=100, max_bytes=1 << 20)
BRIEF = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)
OTHER = bytes_of("another scope")


@pytest.fixture(params=KINDS)
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    """Every kind of store, empty."""
    async with on_kind(request.param, request.getfixturevalue) as store:
        yield store


def names(result: LookupResult) -> list[str]:
    """Return what the turns' calls are named, oldest first."""
    return [t.items[0].id.removeprefix("fc_") for t in sorted(result.turns, key=_age)]


def _age(kept: Turn) -> tuple[int, str]:
    return kept.created_ms, kept.items[0].id


async def surveyed(
    store: Store, scope: bytes | None = None, limit: int = 100
) -> list[ConversationInfo]:
    """Return all that is kept, page by page, in order of their names."""
    cursor = ""
    kept: list[ConversationInfo] = []
    for _ in range(200):
        page = await store.survey(scope, cursor, limit)
        kept += page.conversations
        cursor = page.next_cursor
        if not cursor:
            return sorted(kept, key=lambda one: (one.scope, one.conversation))
    raise AssertionError("there is no end to it")


async def test_a_turn_is_found_by_every_key(kept: Kept) -> None:
    """Each alone leads to the conversation, and what comes back is what was saved."""
    store = kept.opens(WIDE)
    saved = turn("a")
    await save(store, saved, [key("1"), key("2"), key("3")])
    for name in ("1", "2", "3"):
        recalled = await looked_up(store, asked(key(name)))
        assert (list(recalled.turns), recalled.crowded) == ([saved], set())
    assert await found(store, "4") == []


async def test_a_key_leads_to_the_whole_conversation(kept: Kept) -> None:
    """Every turn of it, once, however many keys lead there."""
    store = kept.opens(WIDE)
    for n in range(3):
        await save(store, turn(str(n), created_ms=n), [key(str(n))])
    assert await found(store, "2") == ["0", "1", "2"]
    assert await found(store, "0", "1", "2") == ["0", "1", "2"]


async def test_an_items_certain_keys_decide(kept: Kept) -> None:
    """A doubtful one is for an item whose certain keys lead nowhere."""
    store = kept.opens(WIDE)
    await save(store, turn("a", "one"), [key("id")])
    await save(store, turn("b", "two"), [key("text")])
    both = await looked_up(store, [Lookup(0, [key("id")], [key("text")])])
    assert names(both) == ["a"]
    doubtful = await looked_up(store, [Lookup(0, [key("unknown")], [key("text")])])
    assert names(doubtful) == ["b"]


async def test_nothing_asked_is_nothing_found(kept: Kept) -> None:
    """Neither an empty question nor an item without keys is an error."""
    store = kept.opens(WIDE)
    await save(store, turn("a"), [key("1")])
    for nothing in ([], asked(), [Lookup(0, [])]):
        recalled = await looked_up(store, nothing)
        assert (list(recalled.turns), recalled.crowded) == ([], set())


async def test_a_turn_without_keys_is_found_through_others(kept: Kept) -> None:
    """It belongs to its conversation all the same."""
    store = kept.opens(WIDE)
    await save(store, turn("a"), [key("1")])
    await save(store, turn("b"), [])
    assert await found(store, "1") == ["a", "b"]


async def test_scopes_never_meet(kept: Kept) -> None:
    """The same keys and the same conversation, and still nothing of one another."""
    store = kept.opens(WIDE)
    await save(store, turn("mine"), [key("1")])
    assert await found(store, "1", scope=OTHER) == []
    await save(store, turn("theirs"), [key("1")], OTHER)
    assert await found(store, "1") == ["mine"]
    assert await found(store, "1", scope=OTHER) == ["theirs"]


async def test_a_turn_grows_record_by_record(kept: Kept) -> None:
    """As it does while its answer is still streamed, item by item."""
    store = kept.opens(WIDE)
    whole = turn("a", size=500)
    for n, (name, value) in enumerate(records_of(whole).items()):
        await store.save(SCOPE, whole.conversation, {name: value}, [key(f"{n}")])
    for n in range(len(records_of(whole))):
        assert list((await looked_up(store, asked(key(f"{n}")))).turns) == [whole]


async def test_saving_again_changes_nothing_but_the_version(kept: Kept) -> None:
    """Neither what is found nor how much there is of it; a save of nothing is one, too."""
    store = kept.opens(Bounds(ttl_s=DAY, max_turns=1, max_bytes=700))
    versions = [await save(store, turn("a", size=200), [key("1")]) for _ in range(5)]
    versions.append(await store.save(SCOPE, bytes_of("c"), {}, [key("2")]))
    assert await found(store, "1") == await found(store, "2") == ["a"]
    assert versions == [*range(versions[0], versions[0] + 6)]


async def test_beyond_the_bound_in_turns_the_oldest_go(kept: Kept) -> None:
    """The newest is always kept, and what is kept has no gap."""
    bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=1 << 20)
    store = kept.opens(bounds)
    for n in range(30):
        await save(store, turn(f"{n:02}", created_ms=n), [key("1")])
        left = await found(store, "1")
        assert left == [f"{m:02}" for m in range(n + 1)][-len(left) :]
        assert min(n + 1, 9) <= len(left) <= 10


@pytest.mark.parametrize("sizes", [[100] * 30, [100, 100, 900, 100, 500] * 6, [2000, 10, 2000, 10]])
async def test_beyond_the_bound_in_bytes_the_oldest_go(kept: Kept, sizes: list[int]) -> None:
    """Whatever their sizes: the newest is always kept, and what is kept has no gap."""
    bounds = Bounds(ttl_s=DAY, max_turns=100, max_bytes=2000)
    store = kept.opens(bounds)
    for n, size in enumerate(sizes):
        await save(store, turn(f"{n:02}", created_ms=n, size=size), [key("1")])
        turns = (await looked_up(store, asked(key("1")))).turns
        left = sorted(t.items[0].id for t in turns)
        assert left == [f"fc_{m:02}" for m in range(n + 1)][-len(left) :]
        values = [value for t in turns for value in records_of(t).values()]
        assert len(left) == 1 or sum(map(len, values)) <= 2000


async def test_saving_one_turn_often_drops_no_other(kept: Kept) -> None:
    """Only what is kept counts, not what was written."""
    bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=2000)
    store = kept.opens(bounds)
    await save(store, turn("a", created_ms=1), [key("1")])
    for _ in range(50):
        await save(store, turn("b", created_ms=2, size=200), [])
    assert await found(store, "1") == ["a", "b"]


async def test_what_is_not_used_expires(kept: Kept) -> None:
    """After the TTL, the index with it; nor is it counted among what is kept."""
    store = kept.opens(BRIEF)
    await save(store, turn("a"), [key("1")])
    await kept.passes(1200)
    assert await found(store, "1") == []
    assert await kept.names() == []
    assert await surveyed(store) == []


async def test_what_has_expired_begins_anew(kept: Kept) -> None:
    """Nothing of before comes back with a turn of today."""
    store = kept.opens(BRIEF)
    await save(store, turn("a"), [key("1")])
    await kept.passes(1200)
    await save(store, turn("b"), [key("2")])
    assert await found(store, "2") == ["b"]
    assert await found(store, "1") == []


@pytest.mark.parametrize("use", ["look_up", "save"])
async def test_use_keeps_a_conversation_alive(kept: Kept, use: str) -> None:
    """All of it, from any of its keys, and for the whole TTL again."""
    store = kept.opens(BRIEF)
    await save(store, turn("a", created_ms=1), [key("1")])
    await save(store, turn("b", created_ms=2), [key("2")])
    for _ in range(3):
        await kept.passes(600)
        if use == "look_up":
            assert await found(store, "1") == ["a", "b"]
        else:
            await save(store, turn("b", created_ms=2), [key("2")])
    assert await found(store, "2" if use == "save" else "1") == ["a", "b"]


@pytest.mark.parametrize("damaged", [b"", FORMAT, FORMAT + b"\xc1", b"\x01\x90", b"junk"])
async def test_what_cannot_be_read_is_skipped(kept: Kept, damaged: bytes) -> None:
    """A newer or a broken neighbour does not hide the turns that can be read."""
    store = kept.opens(WIDE)
    await save(store, turn("a"), [key("1")])
    await save(store, turn("b"), [key("1")])
    await kept.damages(next(filter(is_head, records_of(turn("b")))), damaged)
    assert await found(store, "1") == ["a"]
    await save(store, turn("b"), [])
    assert await found(store, "1") == ["a", "b"]


async def test_a_local_copy_is_valid_while_nothing_is_written(kept: Kept) -> None:
    """Then its records are not sent; after a save elsewhere they are, and after a deletion none."""
    store, other = kept.opens(WIDE), kept.opens(WIDE)
    version = await save(store, turn("a"), [key("1")])
    held = {bytes_of("c"): version}
    valid = [StoredConversation(bytes_of("c"), version, None)]
    assert list((await store.look_up(SCOPE, asked(key("1")), held)).conversations) == valid
    assert list((await store.look_up(SCOPE, [], held)).conversations) == valid

    later = await save(other, turn("b"), [])
    assert later == version + 1
    ((_, current, records),) = (await store.look_up(SCOPE, asked(key("1")), held)).conversations
    assert (current, records) == (later, records_of(turn("a")) | records_of(turn("b")))

    await other.forget(SCOPE, bytes_of("c"))
    gone = await store.look_up(SCOPE, asked(key("1")), {bytes_of("c"): later})
    assert not gone.conversations
    anew = await save(other, turn("a"), [key("1")])
    assert anew > later + 1 or anew < version  # by chance alone it would be one of them


async def test_what_is_held_is_returned_beside_what_is_found(kept: Kept) -> None:
    """Each once, and nothing of another scope, nor what was never kept."""
    store = kept.opens(WIDE)
    one = await save(store, turn("a", "one"), [key("1")])
    two = await save(store, turn("b", "two"), [key("2")])
    held = {bytes_of("two"): two - 1, bytes_of("one"): one, bytes_of("none"): 5}
    result = await store.look_up(SCOPE, asked(key("1"), key("3")), held)
    assert {c.conversation: c.records for c in result.conversations} == {
        bytes_of("one"): None,
        bytes_of("two"): records_of(turn("b", "two")),
    }
    assert len(result.conversations) == 2
    assert not (await store.look_up(OTHER, asked(key("1")), held)).conversations


async def test_what_is_held_lives_on(kept: Kept) -> None:
    """A lookup that finds a valid copy uses the conversation, and what leads to it."""
    store = kept.opens(BRIEF)
    held = {bytes_of("c"): await save(store, turn("a"), [key("1")])}
    for _ in range(3):
        await kept.passes(600)
        await store.look_up(SCOPE, asked(key("1")), held)
    assert await found(store, "1") == ["a"]


async def test_what_was_trimmed_has_another_version(kept: Kept) -> None:
    """So a copy that still has what was dropped is not taken for current."""
    store = kept.opens(Bounds(ttl_s=DAY, max_turns=4, max_bytes=1 << 20))
    versions = [await save(store, turn(f"{n}", created_ms=n), [key("1")]) for n in range(6)]
    steps = [after - before for before, after in pairwise(versions)]
    assert steps[:3] == [1, 1, 1]
    assert steps[3] > 1


async def test_a_key_of_too_many_conversations_is_crowded(kept: Kept) -> None:
    """To load some of them would make an ambiguous saying look like a clear one."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED + 1):
        await save(store, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    recalled = await looked_up(store, [Lookup(7, [key("hi")])])
    assert (list(recalled.turns), recalled.crowded) == ([], {7})
    clear = await looked_up(store, [Lookup(3, [key("own 2")]), Lookup(7, [key("hi")])])
    assert (names(clear), clear.crowded) == (["2"], {7})


async def test_a_key_of_as_many_as_can_be_compared_is_not(kept: Kept) -> None:
    """All of them are loaded."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED):
        await save(store, turn(f"{n}", f"conversation {n}"), [key("hi")])
    recalled = await looked_up(store, [Lookup(7, [key("hi")])])
    assert (len(recalled.turns), recalled.crowded) == (CONVERSATIONS_LOADED, set())


async def test_what_a_key_leads_to_is_bounded(kept: Kept) -> None:
    """A saying as common as "hi" does not grow without end; its newest are still found."""
    store = kept.opens(WIDE)
    often = 4 * CONVERSATIONS_PER_KEY
    for n in range(often):
        await save(store, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    assert (await looked_up(store, [Lookup(0, [key("hi")])])).crowded == {0}
    assert await found(store, f"own {often - 1}") == [f"{often - 1}"]
    assert await kept.counts(key("hi")) <= 2 * CONVERSATIONS_PER_KEY


async def test_one_that_says_the_same_again_and_again_is_one(kept: Kept) -> None:
    """An agent that polls pushes no other conversation out of what a key leads to."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED - 1):
        await save(store, turn(f"{n}", f"conversation {n}"), [key("still waiting")])
    for n in range(3 * CONVERSATIONS_PER_KEY):
        await save(store, turn(f"poll {n}", "polling", n), [key("still waiting")])
    recalled = await looked_up(store, [Lookup(0, [key("still waiting")])])
    conversations = {t.conversation for t in recalled.turns}
    assert (len(conversations), recalled.crowded) == (CONVERSATIONS_LOADED, set())


async def test_saves_at_the_same_time_lose_nothing(kept: Kept) -> None:
    """Two replicas that serve one conversation never overwrite each other."""
    one, other = kept.opens(WIDE), kept.opens(WIDE)
    saves = [
        save(store, turn(f"{n:02}{which}", created_ms=n), [key("1"), key(f"{n}{which}")])
        for n in range(20)
        for which, store in (("a", one), ("b", other))
    ]
    await asyncio.gather(*saves)
    want = sorted(f"{n:02}{which}" for n in range(20) for which in "ab")
    assert await found(one, "1") == want
    for n in range(20):
        assert await found(other, f"{n}a") == want


async def test_a_store_that_is_well_says_nothing(kept: Kept) -> None:
    """`check` has no result: it raises, or it does not."""
    await kept.opens(WIDE).check()


async def test_a_survey_tells_what_is_kept(kept: Kept) -> None:
    """Each conversation once, with its numbers; of everybody, or of one."""
    store = kept.opens(WIDE)
    for n in range(3):
        await save(store, turn(f"{n}", "one", size=500), [key(f"{n}")])
    await save(store, turn("x", "two", size=700), [key("x")], OTHER)
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
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}"), key(f"also {n}")])
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
        await save(store, one, keys_of_turn(one))
    await save(store, turns[0], keys_of_turn(turns[0]), OTHER)
    saying = set(keys_of_turn(turns[0])) & set(keys_of_turn(turns[2]))
    assert saying
    assert await store.forget(SCOPE, bytes_of("one"))

    async def led_to(key_of_it: bytes, scope: bytes = SCOPE) -> list[str]:
        return names(await looked_up(store, asked(key_of_it), scope))

    for key_of_it in {*keys_of_turn(turns[0]), *keys_of_turn(turns[1])} - saying:
        assert await led_to(key_of_it) == []
    for key_of_both in saying:
        assert await led_to(key_of_both) == ["c"]
    assert await led_to(keys_of_turn(turns[0])[0], OTHER) == ["a"]
    assert await store.forget(SCOPE, bytes_of("two"))
    assert await store.forget(OTHER, bytes_of("one"))
    assert await kept.names() == []


async def test_what_is_not_kept_cannot_be_forgotten(kept: Kept) -> None:
    """Nor what is somebody else's; and a second time there is nothing left."""
    store = kept.opens(WIDE)
    await save(store, turn("a", "one"), [key("1")])
    assert not await store.forget(OTHER, bytes_of("one"))
    assert not await store.forget(SCOPE, bytes_of("two"))
    assert await store.forget(SCOPE, bytes_of("one"))
    assert not await store.forget(SCOPE, bytes_of("one"))


async def test_after_it_was_forgotten_a_conversation_may_begin_anew(kept: Kept) -> None:
    """Of what was before, nothing comes back."""
    store = kept.opens(WIDE)
    await save(store, turn("a", "one"), keys_of_turn(turn("a", "one")))
    await store.forget(SCOPE, bytes_of("one"))
    await save(store, turn("b", "one"), [key("1")])
    assert await found(store, "1") == ["b"]
