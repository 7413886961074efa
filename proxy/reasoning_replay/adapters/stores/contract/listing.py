"""Contract of every store: what is stored can be listed and deleted."""

import asyncio

import pytest

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    BadCursor,
)
from reasoning_replay.adapters.stores.contract.turns import (
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
    id_keys_of_turn,
    keys_of_turn,
)


class ListingContract:
    """Lists and deletions; a subclass has a fixture `tested`."""

    async def test_a_survey_returns_the_stored_conversations(self, tested: StoreUnderTest) -> None:
        """Each conversation is returned once with its numbers, for all scopes or for one."""
        store = tested.opens(WIDE)
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
        assert await surveyed(store, bytes_of("a scope of none")) == []

    @pytest.mark.parametrize("limit", [1, 7, 1000])
    async def test_a_survey_is_paged(self, tested: StoreUnderTest, limit: int) -> None:
        """All conversations are returned in total, whatever the size of a page is."""
        store = tested.opens(WIDE)
        for n in range(30):
            await save(store, turn(f"{n}", f"{n}"), [key(f"{n}"), key(f"also {n}")])
        every = await surveyed(store, SCOPE, limit)
        assert {one.conversation for one in every} == {bytes_of(f"{n}") for n in range(30)}

    @pytest.mark.parametrize("cursor", ["x", "x:y", "99:0", "-1:0", "²"])
    async def test_an_invalid_cursor_is_rejected(self, tested: StoreUnderTest, cursor: str) -> None:
        """The caller is at fault for an invalid cursor, and not the store."""
        with pytest.raises(BadCursor):
            await tested.opens(WIDE).survey(None, cursor, 10)

    async def test_a_deleted_conversation_is_gone(self, tested: StoreUnderTest) -> None:
        """Its index entries are deleted too; other conversations stay, also if they share a key."""
        store = tested.opens(WIDE)
        turns = [turn("a", "one"), turn("b", "one"), turn("c", "two")]
        for one in turns:
            await save(store, one, keys_of_turn(one))
        await save(store, turns[0], keys_of_turn(turns[0]), OTHER)
        saying = set(keys_of_turn(turns[0])) & set(keys_of_turn(turns[2]))
        assert saying
        assert await store.forget(SCOPE, bytes_of("one"))

        async def led_to(key_of_it: bytes, scope: bytes = SCOPE) -> list[str]:
            return names_of(await looked_up(store, asked(key_of_it), scope))

        for key_of_it in {*keys_of_turn(turns[0]), *keys_of_turn(turns[1])} - saying:
            assert await led_to(key_of_it) == []
        for key_of_both in saying:
            assert await led_to(key_of_both) == ["c"]
        assert await led_to(id_keys_of_turn(turns[0])[0], OTHER) == ["a"]
        assert await store.forget(SCOPE, bytes_of("two"))
        assert await store.forget(OTHER, bytes_of("one"))
        assert tested.names is None or await tested.names() == []

    async def test_only_a_stored_conversation_can_be_deleted(self, tested: StoreUnderTest) -> None:
        """A conversation of another scope cannot be deleted, and none can be deleted twice."""
        store = tested.opens(WIDE)
        await save(store, turn("a", "one"), [key("1")])
        assert not await store.forget(OTHER, bytes_of("one"))
        assert not await store.forget(SCOPE, bytes_of("two"))
        assert await store.forget(SCOPE, bytes_of("one"))
        assert not await store.forget(SCOPE, bytes_of("one"))

    async def test_a_deleted_conversation_starts_empty(self, tested: StoreUnderTest) -> None:
        """A save after the deletion does not bring old turns back."""
        store = tested.opens(WIDE)
        await save(store, turn("a", "one"), keys_of_turn(turn("a", "one")))
        await store.forget(SCOPE, bytes_of("one"))
        await save(store, turn("b", "one"), [key("1")])
        assert await found(store, "1") == ["b"]

    async def test_a_deletion_hides_no_other_conversation(self, tested: StoreUnderTest) -> None:
        """A key also leads to what another replica saves while a conversation of it is deleted."""
        one, other = tested.opens(WIDE), tested.opens(WIDE)
        for n in range(20):
            scope = bytes_of(f"scope {n}")
            gone, stays = turn("a", "gone"), turn("b", "stays")
            for said in (gone, stays):
                await save(one, said, keys_of_turn(said), scope)
            new = [turn(f"{m}", f"new {m}") for m in range(4)]
            text = [*keys_of_turn(gone)][-1]
            assert text == [*keys_of_turn(new[0])][-1]
            await asyncio.gather(
                one.forget(scope, gone.conversation),
                *(save(other, said, keys_of_turn(said), scope) for said in new),
            )
            recalled = await looked_up(other, asked(text), scope)
            assert {said.conversation for said in recalled.turns} == {
                said.conversation for said in (stays, *new)
            }

    async def test_a_trim_of_a_key_hides_no_conversation(self, tested: StoreUnderTest) -> None:
        """A conversation that repeats a text trims its key; what others add meanwhile stays."""
        one, other = tested.opens(WIDE), tested.opens(WIDE)
        for n in range(10):
            scope = bytes_of(f"scope {n}")
            polls = [turn(f"poll {m}", "polling", m) for m in range(2 * CONVERSATIONS_PER_KEY)]
            for said in polls:
                await save(one, said, [key("waiting")], scope)
            new = [turn(f"{m}", f"new {m}") for m in range(CONVERSATIONS_LOADED - 1)]
            await asyncio.gather(
                save(one, turn("poll", "polling"), [key("waiting")], scope),
                *(save(other, said, [key("waiting")], scope) for said in new),
            )
            recalled = await looked_up(other, asked(key("waiting")), scope)
            conversations = {said.conversation for said in recalled.turns}
            assert conversations == {bytes_of("polling"), *(said.conversation for said in new)}
