"""Contract of every store: what is saved is found, bounded, and expires."""

import asyncio

import pytest

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    Bounds,
)
from reasoning_replay.adapters.stores.contract.turns import (
    BRIEF,
    DAY,
    OTHER,
    SCOPE,
    WIDE,
    asked,
    bytes_of,
    found,
    key,
    looked_up,
    names_of,
    save,
    surveyed,
    turn,
)
from reasoning_replay.adapters.stores.contract.under_test import StoreUnderTest
from reasoning_replay.core.history.lookup_keys import (
    CONVERSATIONS_LOADED,
    Lookup,
    id_keys_of_turn,
    keys_of_turn,
)
from reasoning_replay.core.history.records import records_of


class KeepingContract:
    """Contract of every store; a subclass has a fixture `tested`."""

    async def test_a_turn_is_found_by_every_key(self, tested: StoreUnderTest) -> None:
        """Each key alone leads to the conversation, which is returned as it was saved."""
        store = tested.opens(WIDE)
        saved = turn("a")
        await save(store, saved, [key("1"), key("2"), key("3")])
        for name in ("1", "2", "3"):
            recalled = await looked_up(store, asked(key(name)))
            assert (list(recalled.turns), recalled.crowded) == ([saved], set())
        assert await found(store, "4") == []

    async def test_certain_keys_precede_doubtful_ones(self, tested: StoreUnderTest) -> None:
        """The content keys of an item are used only if its id keys lead nowhere."""
        store = tested.opens(WIDE)
        await save(store, turn("a", "one"), [key("id")])
        await save(store, turn("b", "two"), [key("text")])
        both = await looked_up(store, [Lookup(0, [key("id")], [key("text")])])
        assert names_of(both) == ["a"]
        by_content = await looked_up(store, [Lookup(0, [key("unknown")], [key("text")])])
        assert names_of(by_content) == ["b"]

    async def test_an_empty_lookup_finds_nothing(self, tested: StoreUnderTest) -> None:
        """Neither an empty list of lookups nor an item without keys is an error."""
        store = tested.opens(WIDE)
        await save(store, turn("a"), [key("1")])
        for nothing in ([], asked(), [Lookup(0, [])]):
            recalled = await looked_up(store, nothing)
            assert (list(recalled.turns), recalled.crowded) == ([], set())

    async def test_scopes_are_separate(self, tested: StoreUnderTest) -> None:
        """Equal keys and conversation ids in two scopes have nothing in common."""
        store = tested.opens(WIDE)
        await save(store, turn("mine"), [key("1")])
        assert await found(store, "1", scope=OTHER) == []
        await save(store, turn("theirs"), [key("1")], OTHER)
        assert await found(store, "1") == ["mine"]
        assert await found(store, "1", scope=OTHER) == ["theirs"]

    async def test_a_turn_grows_record_by_record(self, tested: StoreUnderTest) -> None:
        """A turn can be saved in parts, item by item, while its response is streamed."""
        store = tested.opens(WIDE)
        whole = turn("a", size=500)
        for n, (name, value) in enumerate(records_of(whole).items()):
            await store.save((SCOPE, whole.conversation), {name: value}, [key(f"{n}")])
        for n in range(len(records_of(whole))):
            assert list((await looked_up(store, asked(key(f"{n}")))).turns) == [whole]

    async def test_the_oldest_turns_are_dropped_beyond_the_limit_of_turns(
        self, tested: StoreUnderTest
    ) -> None:
        """The newest turn is always stored, and the stored turns have no gap."""
        bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=1 << 20)
        store = tested.opens(bounds)
        for n in range(30):
            await save(store, turn(f"{n:02}", created_ms=n), [key("1")])
            left = await found(store, "1")
            assert left == [f"{m:02}" for m in range(n + 1)][-len(left) :]
            assert min(n + 1, 9) <= len(left) <= 10

    @pytest.mark.parametrize(
        "sizes", [[100] * 30, [100, 100, 900, 100, 500] * 6, [2000, 10, 2000, 10]]
    )
    async def test_the_oldest_turns_are_dropped_beyond_the_limit_of_bytes(
        self, tested: StoreUnderTest, sizes: list[int]
    ) -> None:
        """Turns of any size are stored without a gap, and always with the newest one."""
        bounds = Bounds(ttl_s=DAY, max_turns=100, max_bytes=2000)
        store = tested.opens(bounds)
        for n, size in enumerate(sizes):
            await save(store, turn(f"{n:02}", created_ms=n, size=size), [key("1")])
            turns = (await looked_up(store, asked(key("1")))).turns
            left = sorted(t.items[0].id for t in turns)
            assert left == [f"fc_{m:02}" for m in range(n + 1)][-len(left) :]
            values = [value for t in turns for value in records_of(t).values()]
            assert len(left) == 1 or sum(map(len, values)) <= 2000

    async def test_saving_one_turn_repeatedly_drops_no_other(self, tested: StoreUnderTest) -> None:
        """The bounds count the stored records, not the writes."""
        bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=2000)
        store = tested.opens(bounds)
        await save(store, turn("a", created_ms=1), [key("1")])
        for _ in range(50):
            await save(store, turn("b", created_ms=2, size=200), [])
        assert await found(store, "1") == ["a", "b"]

    async def test_an_unused_conversation_expires(self, tested: StoreUnderTest) -> None:
        """After the TTL, the conversation and its index entries are gone, also from surveys."""
        store = tested.opens(BRIEF)
        await save(store, turn("a"), [key("1")])
        await tested.passes(1200)
        assert await found(store, "1") == []
        assert tested.names is None or await tested.names() == []
        assert await surveyed(store) == []

    async def test_however_many_have_expired_they_count_as_absent(
        self, tested: StoreUnderTest
    ) -> None:
        """A call drops a few of them; the others are not found, listed, deleted or led to."""
        store = tested.opens(BRIEF)
        many = 200
        for n in range(many):
            await save(store, turn(f"{n}", f"{n}"), [key(f"{n}"), key(f"text {n % 2}")])
        await tested.passes(BRIEF.ttl_s)
        newest = turn("new", f"{many - 1}", created_ms=1)
        await save(store, newest, [key("new"), key("text 0"), key("text 1")])
        assert await found(store, f"{many - 2}") == []
        if not tested.keys_outlive:
            assert names_of(await looked_up(store, [Lookup(0, [], [key("text 0")])])) == ["new"]
            assert await found(store, "text 1") == ["new"]
        assert not await store.forget(SCOPE, bytes_of(f"{many - 2}"))
        assert [one.conversation for one in await surveyed(store)] == [newest.conversation]
        assert await store.forget(SCOPE, newest.conversation)

    async def test_an_expired_conversation_starts_empty(self, tested: StoreUnderTest) -> None:
        """A save after the expiry does not bring old turns back."""
        store = tested.opens(BRIEF)
        await save(store, turn("a"), [key("1")])
        await tested.passes(1200)
        await save(store, turn("b"), [key("2")])
        assert await found(store, "2") == ["b"]
        assert await found(store, "1") == []

    @pytest.mark.parametrize("use", ["look_up", "save"])
    async def test_use_extends_the_expiry(self, tested: StoreUnderTest, use: str) -> None:
        """A lookup by any key and a save extend the whole conversation by the full TTL."""
        store = tested.opens(BRIEF)
        one, two = turn("a", created_ms=1), turn("b", created_ms=2)
        await save(store, one, keys_of_turn(one))
        await save(store, two, keys_of_turn(two))
        for _ in range(3):
            await tested.passes(600)
            if use == "look_up":
                assert names_of(await looked_up(store, asked(id_keys_of_turn(one)[0]))) == [
                    "a",
                    "b",
                ]
            else:
                await save(store, two, keys_of_turn(two))
        last = id_keys_of_turn(two if use == "save" else one)[0]
        assert names_of(await looked_up(store, asked(last))) == ["a", "b"]

    @pytest.mark.parametrize("is_held", [False, True])
    async def test_old_turns_of_a_living_conversation_keep_their_keys(
        self, tested: StoreUnderTest, is_held: bool
    ) -> None:
        """A client that asks for the newest turn, and cuts its history later, finds the oldest."""
        store = tested.opens(BRIEF)
        first = turn("0")
        version = await save(store, first, keys_of_turn(first))
        for n in range(1, 6):
            await tested.passes(400)
            newest = turn(f"{n - 1}", created_ms=n - 1)
            held = {newest.conversation: version} if is_held else {}
            assert (
                await store.look_up(SCOPE, asked(id_keys_of_turn(newest)[0]), held)
            ).conversations
            said = turn(f"{n}", created_ms=n)
            version = await save(store, said, keys_of_turn(said))
        await tested.passes(400)
        for key_of_it in keys_of_turn(first):
            assert names_of(await looked_up(store, asked(key_of_it))) == [f"{n}" for n in range(6)]

    async def test_a_key_of_too_many_conversations_is_crowded(self, tested: StoreUnderTest) -> None:
        """To load only some of the conversations would make an ambiguous text look unambiguous."""
        store = tested.opens(WIDE)
        for n in range(CONVERSATIONS_LOADED + 1):
            if n == CONVERSATIONS_LOADED:
                enough = await looked_up(store, [Lookup(7, [key("hi")])])
                assert (len(enough.turns), enough.crowded) == (n, set())
            await save(store, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
        recalled = await looked_up(store, [Lookup(7, [key("hi")])])
        assert (list(recalled.turns), recalled.crowded) == ([], {7})
        clear = await looked_up(store, [Lookup(3, [key("own 2")]), Lookup(7, [key("hi")])])
        assert (names_of(clear), clear.crowded) == (["2"], {7})

    async def test_a_key_leads_to_a_bounded_number_of_conversations(
        self, tested: StoreUnderTest
    ) -> None:
        """A common text such as "hi" does not grow without limit; the newest ones stay."""
        store = tested.opens(WIDE)
        often = 4 * CONVERSATIONS_PER_KEY
        for n in range(often):
            await save(store, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
        assert (await looked_up(store, [Lookup(0, [key("hi")])])).crowded == {0}
        assert await found(store, f"own {often - 1}") == [f"{often - 1}"]
        if tested.counts is not None:
            assert await tested.counts(key("hi")) <= 2 * CONVERSATIONS_PER_KEY

    async def test_a_conversation_that_repeats_a_text_counts_once(
        self, tested: StoreUnderTest
    ) -> None:
        """An agent that polls does not displace other conversations from a key."""
        store = tested.opens(WIDE)
        for n in range(CONVERSATIONS_LOADED - 1):
            await save(store, turn(f"{n}", f"conversation {n}"), [key("still waiting")])
        for n in range(3 * CONVERSATIONS_PER_KEY):
            await save(store, turn(f"poll {n}", "polling", n), [key("still waiting")])
        recalled = await looked_up(store, [Lookup(0, [key("still waiting")])])
        conversations = {t.conversation for t in recalled.turns}
        assert (len(conversations), recalled.crowded) == (CONVERSATIONS_LOADED, set())

    async def test_parallel_saves_lose_nothing(self, tested: StoreUnderTest) -> None:
        """Two replicas that save to one conversation never overwrite each other."""
        one, other = tested.opens(WIDE), tested.opens(WIDE)
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

    async def test_the_use_of_an_embedded_store_is_known(self, tested: StoreUnderTest) -> None:
        """It rises with each conversation and falls with its end; a server limits its own size."""
        store = tested.opens(WIDE)
        empty = await store.usage()
        if empty is None:
            return
        for n in range(3):
            await save(store, turn(f"{n}", f"{n}", size=50_000), [key(f"{n}")])
        await save(store, turn("2nd", "0", size=50_000), [key("0")])
        full = await store.usage()
        assert full is not None
        assert await store.forget(SCOPE, bytes_of("1"))
        less = await store.usage()
        assert less is not None
        await tested.passes(WIDE.ttl_s)
        expired = await store.usage()
        assert expired is not None

        counts = [one.conversations for one in (empty, full, less, expired)]
        assert counts == [0, 3, 2, 0]
        assert empty.size_bytes < less.size_bytes < full.size_bytes
        assert 200_000 < full.size_bytes - empty.size_bytes < 300_000
        assert len({one.max_bytes for one in (empty, full, less, expired)}) == 1
        assert expired.evicted == 0
