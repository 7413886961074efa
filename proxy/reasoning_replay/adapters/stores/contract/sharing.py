"""Contract of a store that processes share: versions, and deletions that are final."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from reasoning_replay.adapters.stores.base import (
    MARKED_S,
    MET_S,
    Bounds,
    Deleted,
    Store,
    StoredConversation,
    StoreResult,
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
    save,
    surveyed,
    turn,
)
from reasoning_replay.adapters.stores.contract.under_test import StoreUnderTest
from reasoning_replay.core.history.lookup_keys import id_keys_of_turn, keys_of_turn
from reasoning_replay.core.history.records import FORMAT, is_head, records_of, turns_of
from reasoning_replay.core.history.turns import Turn


class Changing(dict[bytes, int]):
    """Version of the copy of c, which a save of the caller changes to `after` in the lookup."""

    after = 0

    @override
    def __getitem__(self, conversation: bytes) -> int:
        return self.after

    @override
    def get(self, conversation: bytes, default: Any = None) -> Any:
        return self.after


async def save_late(
    store: Store, one: Turn, mark: bytes | None = None, *, is_stored: bool = True
) -> None:
    """Save a turn with all its keys, as a replica does that knows a mark of the scope."""
    name = (SCOPE, one.conversation)
    await store.save(name, records_of(one), keys_of_turn(one), mark, is_stored=is_stored)


async def find(store: Store, one: Turn, held: int | None = None) -> StoreResult:
    """Look up a turn by its keys, holding its conversation at a version, if any is given."""
    lookups = asked(id_keys_of_turn(one)[0])
    return await store.look_up(SCOPE, lookups, {} if held is None else {one.conversation: held})


class SharingContract:
    """Contract of a store that processes share; a subclass has a fixture `tested`."""

    async def test_saving_again_changes_nothing_but_the_version(
        self, tested: StoreUnderTest
    ) -> None:
        """A repeated or empty save changes the version; results and size stay the same."""
        store = tested.opens(Bounds(ttl_s=DAY, max_turns=1, max_bytes=700))
        name, records = (SCOPE, bytes_of("c")), records_of(turn("a", size=200))
        changes = [await store.save(name, records, [key("1")]) for _ in range(5)]
        changes.append(await store.save(name, {}, [key("2")]))
        assert await found(store, "1") == await found(store, "2") == ["a"]
        assert [one.before for one in changes[1:]] == [one.after for one in changes[:-1]]
        assert len({one.after for one in changes}) == 6

    @pytest.mark.parametrize("damaged", [b"", FORMAT, FORMAT + b"\xc1", b"\x01\x90", b"junk"])
    async def test_an_unreadable_record_is_skipped(
        self, tested: StoreUnderTest, damaged: bytes
    ) -> None:
        """A record of a newer format, or a damaged one, does not hide the other turns."""
        if tested.damages is None:
            pytest.skip("nothing can damage a record of this store")
        store = tested.opens(WIDE)
        await save(store, turn("a"), [key("1")])
        await save(store, turn("b"), [key("1")])
        await tested.damages(next(filter(is_head, records_of(turn("b")))), damaged)
        assert await found(store, "1") == ["a"]
        await save(store, turn("b"), [])
        assert await found(store, "1") == ["a", "b"]

    async def test_a_local_copy_is_valid_until_the_next_write(self, tested: StoreUnderTest) -> None:
        """Records are sent after a save by another replica, none for a valid copy or a deletion."""
        store, other = tested.opens(WIDE), tested.opens(WIDE)
        version = await save(store, turn("a"), [key("1")])
        held = {bytes_of("c"): version}
        valid = [StoredConversation(bytes_of("c"), version, None)]
        assert list((await store.look_up(SCOPE, asked(key("1")), held)).conversations) == valid
        assert list((await store.look_up(SCOPE, [], held)).conversations) == valid

        later = await save(other, turn("b"), [])
        assert later != version
        ((_, current, records),) = (await store.look_up(SCOPE, asked(key("1")), held)).conversations
        assert (current, records) == (later, records_of(turn("a")) | records_of(turn("b")))

        await other.forget(SCOPE, bytes_of("c"))
        gone = await store.look_up(SCOPE, asked(key("1")), {bytes_of("c"): later})
        assert not gone.conversations
        anew = await save(other, turn("a"), [key("1")])
        assert anew not in (version, later)

    @pytest.mark.parametrize("saves", [0, 1, 2])
    async def test_a_save_of_the_caller_during_a_lookup_keeps_its_copy_valid(
        self, tested: StoreUnderTest, saves: int
    ) -> None:
        """The store may read before or after that save; a further one is of another replica."""
        store = tested.opens(WIDE)
        version = await save(store, turn("a"), [key("1")])
        held = Changing({bytes_of("c"): version})
        after = [await save(store, turn(f"{n}"), []) for n in range(saves)]
        held.after = after[0] if after else version + 1
        ((_, _, records),) = (await store.look_up(SCOPE, asked(key("1")), held)).conversations
        assert (records is None) == (saves < 2)

    async def test_held_conversations_are_returned_with_the_found_ones(
        self, tested: StoreUnderTest
    ) -> None:
        """Each conversation is returned once, none of another scope or that was never stored."""
        store = tested.opens(WIDE)
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

    async def test_a_trim_changes_the_version(self, tested: StoreUnderTest) -> None:
        """A local copy that still has the dropped turns is not valid."""
        store = tested.opens(Bounds(ttl_s=DAY, max_turns=4, max_bytes=1 << 20))
        name = (SCOPE, bytes_of("c"))
        changes = [
            await store.save(name, records_of(turn(f"{n}", created_ms=n)), [key("1")])
            for n in range(6)
        ]
        assert [one.before for one in changes[1:4]] == [one.after for one in changes[:3]]
        assert changes[4].before is None
        (kept_now,) = (await store.look_up(SCOPE, asked(key("1")), {})).conversations
        assert kept_now.version == changes[5].after

    @pytest.mark.parametrize("is_stored", [True, False])
    async def test_a_final_deletion_refuses_every_later_save(
        self, tested: StoreUnderTest, is_stored: bool
    ) -> None:
        """Of replicas that know the conversation and of others, also if it was not stored."""
        store, other = tested.opens(WIDE), tested.opens(WIDE)
        one, later = turn("a", "c"), turn("b", "c", created_ms=2)
        if is_stored:
            await save_late(store, one)
        assert await store.forget(SCOPE, one.conversation, is_final=True) == is_stored
        for mark, knows in ((None, True), (b"", True), (b"", False), (b"m" * 16, False)):
            with pytest.raises(Deleted) as told:
                await save_late(other, later, mark, is_stored=knows)
            assert told.value.mark == b""
            for this in (one, later):
                for held in (None, -1, 1):
                    result = await find(store, this, held)
                    assert result.conversations == []
                    assert result.deleted == (frozenset() if held is None else {one.conversation})
        assert not await store.forget(SCOPE, one.conversation)
        with pytest.raises(Deleted):
            await save_late(other, later)
        assert await surveyed(store) == []

        await save_late(store, turn("a", "another"), b"", is_stored=False)
        assert len(await surveyed(store)) == 1

    async def test_a_mark_of_a_scope_refuses_conversations_that_are_new(
        self, tested: StoreUnderTest
    ) -> None:
        """Unless the caller knows the mark. What is there, and other scopes, go on."""
        store, other = tested.opens(WIDE), tested.opens(WIDE)
        old, new = turn("a", "old"), turn("b", "new")
        await save_late(store, old, b"", is_stored=False)
        assert (await find(store, old)).mark == b""
        mark = await store.mark(SCOPE)
        assert mark

        for knows in (True, False):  # one that it saw may have been evicted since
            with pytest.raises(Deleted) as told:
                await save_late(other, new, b"", is_stored=knows)
            assert told.value.mark == mark
            found_now = await find(store, new, -1)
            assert (found_now.conversations, found_now.mark) == ([], mark)
            assert found_now.deleted == frozenset()
        await save_late(other, turn("c", "old", created_ms=2), b"")
        [still] = (await find(store, old)).conversations
        assert len(turns_of(still.conversation, still.records or {})) == 2

        await save_late(other, new, mark, is_stored=False)
        [begun] = (await find(store, new)).conversations
        assert turns_of(begun.conversation, begun.records or {}) == [new]
        await other.save((OTHER, bytes_of("c")), records_of(new), [], b"", is_stored=False)
        assert (await store.look_up(OTHER, asked(key("1")), {})).mark == b""

        again = await store.mark(SCOPE)
        assert again not in (b"", mark)
        with pytest.raises(Deleted):
            await save_late(other, turn("d", "newer"), mark, is_stored=False)

    async def test_a_mark_ends(self, tested: StoreUnderTest) -> None:
        """After a day, or the time to live if that is longer."""
        store = tested.opens(BRIEF)
        one = turn("a", "c")
        await store.forget(SCOPE, one.conversation, is_final=True)
        await store.mark(SCOPE)
        await tested.passes(MARKED_S - 10)
        with pytest.raises(Deleted):
            await save_late(store, one, b"")
        with pytest.raises(Deleted):
            await save_late(store, turn("a", "d"), b"", is_stored=False)
        await tested.passes(MARKED_S)
        assert (await find(store, one, -1))[2:] == (frozenset(), b"")
        await save_late(store, one, b"", is_stored=False)
        assert len((await find(store, one)).conversations) == 1

    async def test_a_deletion_of_a_scope_races_with_its_first_saves(
        self, tested: StoreUnderTest
    ) -> None:
        """Whatever a walk after the mark does not find is refused, and never found meanwhile."""
        one, other = tested.opens(WIDE), tested.opens(WIDE)
        for n in range(5):
            begun = [turn(f"{n} {m}", f"{n} {m}") for m in range(8)]

            async def delete() -> None:
                await one.mark(SCOPE)
                for stored in await surveyed(one, SCOPE):
                    await one.forget(SCOPE, stored.conversation, is_final=True)

            mark = (await find(one, begun[0])).mark
            saves = [save_late(other, this, mark, is_stored=False) for this in begun]
            await asyncio.gather(*saves[:4], delete(), *saves[4:], return_exceptions=True)
            for this in begun:
                assert (await find(one, this)).conversations == []

    async def test_processes_that_share_a_store_meet(self, tested: StoreUnderTest) -> None:
        """Each sees the marks of those that noted one lately; their own store keeps no other."""
        one, other = tested.opens(BRIEF), tested.opens(BRIEF)
        assert await one.meet(b"abc") == [b"abc"]
        assert {*await other.meet(b"defghi")} == {b"abc", b"defghi"}
        await tested.passes(MET_S * 0.75)
        assert {*await one.meet(b"abc")} == {b"abc", b"defghi"}
        await tested.passes(MET_S * 0.75)
        assert {*await one.meet(b"\xff\x00\n")} == {b"abc", b"\xff\x00\n"}
        assert (await one.survey(None, "", 10)).conversations == []
