"""The contract of all stores, wherever they store conversations."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.adapters.resilience.local_table import EXPIRED_AT_ONCE
from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    MARKED_S,
    MET_S,
    BadCursor,
    Bounds,
    ConversationInfo,
    Deleted,
    Store,
    StoredConversation,
    StoreResult,
)
from reasoning_replay.adapters.stores.redis.store import RedisStore
from reasoning_replay.core.history.lookup_keys import (
    CONVERSATIONS_LOADED,
    Lookup,
    LookupResult,
    id_keys_of_turn,
    keys_of_turn,
)
from reasoning_replay.core.history.records import FORMAT, is_head, records_of, turns_of
from reasoning_replay.core.history.turns import Turn
from typing_extensions import override

from tests.adapters.stores.dictionary import DictStore
from tests.adapters.stores.kinds import BEHIND, KINDS, Kept, on_kind
from tests.adapters.stores.turns import SCOPE, asked, bytes_of, found, key, looked_up, save, turn

DAY = 86_400
WIDE = Bounds(ttl_s=DAY, max_turns=100, max_bytes=1 << 20)
BRIEF = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)
OTHER = bytes_of("another scope")


@pytest.fixture(params=KINDS)
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    """Yield an empty store of each kind."""
    async with on_kind(request.param, request.getfixturevalue) as store:
        yield store


@pytest.fixture(params=BEHIND)
async def behind(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    """Yield an empty store of each kind that several processes may share."""
    async with on_kind(request.param, request.getfixturevalue) as store:
        yield store


def names(result: LookupResult) -> list[str]:
    """Return the names of the turns, oldest first."""
    return [t.items[0].id.removeprefix("fc_") for t in sorted(result.turns, key=_age)]


def _age(kept: Turn) -> tuple[int, str]:
    return kept.created_ms, kept.items[0].id


async def surveyed(
    store: Store, scope: bytes | None = None, limit: int = 100
) -> list[ConversationInfo]:
    """Return all stored conversations, page by page, in order of their names."""
    cursor = ""
    kept: list[ConversationInfo] = []
    for _ in range(200):
        page = await store.survey(scope, cursor, limit)
        kept += page.conversations
        cursor = page.next_cursor
        if not cursor:
            return sorted(kept, key=lambda one: (one.scope, one.conversation))
    raise AssertionError("the survey does not end")


async def test_a_turn_is_found_by_every_key(kept: Kept) -> None:
    """Each key alone leads to the conversation, which is returned as it was saved."""
    store = kept.opens(WIDE)
    saved = turn("a")
    await save(store, saved, [key("1"), key("2"), key("3")])
    for name in ("1", "2", "3"):
        recalled = await looked_up(store, asked(key(name)))
        assert (list(recalled.turns), recalled.crowded) == ([saved], set())
    assert await found(store, "4") == []


async def test_id_keys_precede_content_keys(kept: Kept) -> None:
    """The doubtful keys of an item are used only if its certain keys lead nowhere."""
    store = kept.opens(WIDE)
    await save(store, turn("a", "one"), [key("id")])
    await save(store, turn("b", "two"), [key("text")])
    both = await looked_up(store, [Lookup(0, [key("id")], [key("text")])])
    assert names(both) == ["a"]
    doubtful = await looked_up(store, [Lookup(0, [key("unknown")], [key("text")])])
    assert names(doubtful) == ["b"]


async def test_an_empty_lookup_finds_nothing(kept: Kept) -> None:
    """Neither an empty list of lookups nor an item without keys is an error."""
    store = kept.opens(WIDE)
    await save(store, turn("a"), [key("1")])
    for nothing in ([], asked(), [Lookup(0, [])]):
        recalled = await looked_up(store, nothing)
        assert (list(recalled.turns), recalled.crowded) == ([], set())


async def test_scopes_are_separate(kept: Kept) -> None:
    """Equal keys and conversation ids in two scopes have nothing in common."""
    store = kept.opens(WIDE)
    await save(store, turn("mine"), [key("1")])
    assert await found(store, "1", scope=OTHER) == []
    await save(store, turn("theirs"), [key("1")], OTHER)
    assert await found(store, "1") == ["mine"]
    assert await found(store, "1", scope=OTHER) == ["theirs"]


async def test_a_turn_grows_record_by_record(kept: Kept) -> None:
    """A turn can be saved in parts, item by item, while its response is streamed."""
    store = kept.opens(WIDE)
    whole = turn("a", size=500)
    for n, (name, value) in enumerate(records_of(whole).items()):
        await store.save((SCOPE, whole.conversation), {name: value}, [key(f"{n}")])
    for n in range(len(records_of(whole))):
        assert list((await looked_up(store, asked(key(f"{n}")))).turns) == [whole]


async def test_saving_again_changes_nothing_but_the_version(behind: Kept) -> None:
    """A repeated or empty save changes the version; results and size stay the same."""
    store = behind.opens(Bounds(ttl_s=DAY, max_turns=1, max_bytes=700))
    name, records = (SCOPE, bytes_of("c")), records_of(turn("a", size=200))
    changes = [await store.save(name, records, [key("1")]) for _ in range(5)]
    changes.append(await store.save(name, {}, [key("2")]))
    assert await found(store, "1") == await found(store, "2") == ["a"]
    assert [one.before for one in changes[1:]] == [one.after for one in changes[:-1]]
    assert len({one.after for one in changes}) == 6


async def test_the_oldest_turns_are_dropped_beyond_the_limit_of_turns(kept: Kept) -> None:
    """The newest turn is always stored, and the stored turns have no gap."""
    bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=1 << 20)
    store = kept.opens(bounds)
    for n in range(30):
        await save(store, turn(f"{n:02}", created_ms=n), [key("1")])
        left = await found(store, "1")
        assert left == [f"{m:02}" for m in range(n + 1)][-len(left) :]
        assert min(n + 1, 9) <= len(left) <= 10


@pytest.mark.parametrize("sizes", [[100] * 30, [100, 100, 900, 100, 500] * 6, [2000, 10, 2000, 10]])
async def test_the_oldest_turns_are_dropped_beyond_the_limit_of_bytes(
    kept: Kept, sizes: list[int]
) -> None:
    """Turns of any size are stored without a gap, and always with the newest one."""
    bounds = Bounds(ttl_s=DAY, max_turns=100, max_bytes=2000)
    store = kept.opens(bounds)
    for n, size in enumerate(sizes):
        await save(store, turn(f"{n:02}", created_ms=n, size=size), [key("1")])
        turns = (await looked_up(store, asked(key("1")))).turns
        left = sorted(t.items[0].id for t in turns)
        assert left == [f"fc_{m:02}" for m in range(n + 1)][-len(left) :]
        values = [value for t in turns for value in records_of(t).values()]
        assert len(left) == 1 or sum(map(len, values)) <= 2000


async def test_saving_one_turn_repeatedly_drops_no_other(kept: Kept) -> None:
    """The bounds count the stored records, not the writes."""
    bounds = Bounds(ttl_s=DAY, max_turns=10, max_bytes=2000)
    store = kept.opens(bounds)
    await save(store, turn("a", created_ms=1), [key("1")])
    for _ in range(50):
        await save(store, turn("b", created_ms=2, size=200), [])
    assert await found(store, "1") == ["a", "b"]


async def test_an_unused_conversation_expires(kept: Kept) -> None:
    """After the TTL, the conversation and its index entries are gone, also from surveys."""
    store = kept.opens(BRIEF)
    await save(store, turn("a"), [key("1")])
    await kept.passes(1200)
    assert await found(store, "1") == []
    assert await kept.names() == []
    assert await surveyed(store) == []


async def test_however_many_have_expired_they_count_as_absent(kept: Kept) -> None:
    """A call drops a few of them; the others are not found, listed, deleted or led to."""
    store = kept.opens(BRIEF)
    many = 3 * EXPIRED_AT_ONCE
    for n in range(many):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}"), key(f"text {n % 2}")])
    await kept.passes(BRIEF.ttl_s)
    newest = turn("new", f"{many - 1}", created_ms=1)
    await save(store, newest, [key("new"), key("text 0"), key("text 1")])
    assert await found(store, f"{many - 2}") == []
    if not isinstance(store, RedisStore):  # there, a key outlives its conversations a little
        assert names(await looked_up(store, [Lookup(0, [], [key("text 0")])])) == ["new"]
        assert await found(store, "text 1") == ["new"]
    assert not await store.forget(SCOPE, bytes_of(f"{many - 2}"))
    assert [one.conversation for one in await surveyed(store)] == [newest.conversation]
    assert await store.forget(SCOPE, newest.conversation)


async def test_an_expired_conversation_starts_empty(kept: Kept) -> None:
    """A save after the expiry does not bring old turns back."""
    store = kept.opens(BRIEF)
    await save(store, turn("a"), [key("1")])
    await kept.passes(1200)
    await save(store, turn("b"), [key("2")])
    assert await found(store, "2") == ["b"]
    assert await found(store, "1") == []


@pytest.mark.parametrize("use", ["look_up", "save"])
async def test_use_extends_the_expiry(kept: Kept, use: str) -> None:
    """A lookup by any key and a save extend the whole conversation by the full TTL."""
    store = kept.opens(BRIEF)
    one, two = turn("a", created_ms=1), turn("b", created_ms=2)
    await save(store, one, keys_of_turn(one))
    await save(store, two, keys_of_turn(two))
    for _ in range(3):
        await kept.passes(600)
        if use == "look_up":
            assert names(await looked_up(store, asked(id_keys_of_turn(one)[0]))) == ["a", "b"]
        else:
            await save(store, two, keys_of_turn(two))
    last = id_keys_of_turn(two if use == "save" else one)[0]
    assert names(await looked_up(store, asked(last))) == ["a", "b"]


@pytest.mark.parametrize("is_held", [False, True])
async def test_old_turns_of_a_living_conversation_keep_their_keys(
    kept: Kept, is_held: bool
) -> None:
    """A client that only asks for the newest turn, and cuts its history later, finds the oldest."""
    store = kept.opens(BRIEF)
    first = turn("0")
    version = await save(store, first, keys_of_turn(first))
    for n in range(1, 6):
        await kept.passes(400)
        newest = turn(f"{n - 1}", created_ms=n - 1)
        held = {newest.conversation: version} if is_held else {}
        assert (await store.look_up(SCOPE, asked(id_keys_of_turn(newest)[0]), held)).conversations
        said = turn(f"{n}", created_ms=n)
        version = await save(store, said, keys_of_turn(said))
    await kept.passes(400)
    for key_of_it in keys_of_turn(first):
        assert names(await looked_up(store, asked(key_of_it))) == [f"{n}" for n in range(6)]


@pytest.mark.parametrize("damaged", [b"", FORMAT, FORMAT + b"\xc1", b"\x01\x90", b"junk"])
async def test_an_unreadable_record_is_skipped(behind: Kept, damaged: bytes) -> None:
    """A record of a newer format, or a damaged one, does not hide the other turns."""
    store = behind.opens(WIDE)
    await save(store, turn("a"), [key("1")])
    await save(store, turn("b"), [key("1")])
    await behind.damages(next(filter(is_head, records_of(turn("b")))), damaged)
    assert await found(store, "1") == ["a"]
    await save(store, turn("b"), [])
    assert await found(store, "1") == ["a", "b"]


async def test_a_local_copy_is_valid_until_the_next_write(behind: Kept) -> None:
    """Records are sent after a save by another replica, and none for a valid copy or a deletion."""
    store, other = behind.opens(WIDE), behind.opens(WIDE)
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


class Changing(dict[bytes, int]):
    """Version of the copy of c, which a save of the caller changes to `after` in the lookup."""

    after = 0

    @override
    def __getitem__(self, conversation: bytes) -> int:
        return self.after

    @override
    def get(self, conversation: bytes, default: Any = None) -> Any:
        return self.after


@pytest.mark.parametrize("saves", [0, 1, 2])
async def test_a_save_of_the_caller_during_a_lookup_keeps_its_copy_valid(
    behind: Kept, saves: int
) -> None:
    """The store may read before or after that save; a further one is of another replica."""
    store = behind.opens(WIDE)
    version = await save(store, turn("a"), [key("1")])
    held = Changing({bytes_of("c"): version})
    after = [await save(store, turn(f"{n}"), []) for n in range(saves)]
    held.after = after[0] if after else version + 1
    ((_, _, records),) = (await store.look_up(SCOPE, asked(key("1")), held)).conversations
    is_at_once = isinstance(store, DictStore) and saves == 0  # nothing can happen meanwhile
    assert (records is None) == (saves < 2 and not is_at_once)


async def test_held_conversations_are_returned_with_the_found_ones(behind: Kept) -> None:
    """Each conversation is returned once, and none of another scope or that was never stored."""
    store = behind.opens(WIDE)
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


async def test_a_trim_changes_the_version(behind: Kept) -> None:
    """A local copy that still has the dropped turns is not valid."""
    store = behind.opens(Bounds(ttl_s=DAY, max_turns=4, max_bytes=1 << 20))
    name = (SCOPE, bytes_of("c"))
    changes = [
        await store.save(name, records_of(turn(f"{n}", created_ms=n)), [key("1")]) for n in range(6)
    ]
    assert [one.before for one in changes[1:4]] == [one.after for one in changes[:3]]
    assert changes[4].before is None
    (kept_now,) = (await store.look_up(SCOPE, asked(key("1")), {})).conversations
    assert kept_now.version == changes[5].after


async def test_a_key_of_too_many_conversations_is_crowded(kept: Kept) -> None:
    """To load only some of the conversations would make an ambiguous text look unambiguous."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED + 1):
        if n == CONVERSATIONS_LOADED:
            enough = await looked_up(store, [Lookup(7, [key("hi")])])
            assert (len(enough.turns), enough.crowded) == (n, set())
        await save(store, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    recalled = await looked_up(store, [Lookup(7, [key("hi")])])
    assert (list(recalled.turns), recalled.crowded) == ([], {7})
    clear = await looked_up(store, [Lookup(3, [key("own 2")]), Lookup(7, [key("hi")])])
    assert (names(clear), clear.crowded) == (["2"], {7})


async def test_a_key_leads_to_a_bounded_number_of_conversations(kept: Kept) -> None:
    """A common text such as "hi" does not grow without limit, and the newest conversations stay."""
    store = kept.opens(WIDE)
    often = 4 * CONVERSATIONS_PER_KEY
    for n in range(often):
        await save(store, turn(f"{n}", f"conversation {n}"), [key("hi"), key(f"own {n}")])
    assert (await looked_up(store, [Lookup(0, [key("hi")])])).crowded == {0}
    assert await found(store, f"own {often - 1}") == [f"{often - 1}"]
    assert await kept.counts(key("hi")) <= 2 * CONVERSATIONS_PER_KEY


async def test_a_conversation_that_repeats_a_text_counts_once(kept: Kept) -> None:
    """An agent that polls does not displace other conversations from a key."""
    store = kept.opens(WIDE)
    for n in range(CONVERSATIONS_LOADED - 1):
        await save(store, turn(f"{n}", f"conversation {n}"), [key("still waiting")])
    for n in range(3 * CONVERSATIONS_PER_KEY):
        await save(store, turn(f"poll {n}", "polling", n), [key("still waiting")])
    recalled = await looked_up(store, [Lookup(0, [key("still waiting")])])
    conversations = {t.conversation for t in recalled.turns}
    assert (len(conversations), recalled.crowded) == (CONVERSATIONS_LOADED, set())


async def test_parallel_saves_lose_nothing(kept: Kept) -> None:
    """Two replicas that save to one conversation never overwrite each other."""
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


async def test_the_use_of_an_embedded_store_is_known(kept: Kept) -> None:
    """It rises with each conversation and falls with its end; Redis limits its own size."""
    store = kept.opens(WIDE)
    empty = await store.usage()
    if isinstance(store, RedisStore | DictStore):
        assert empty is None
        return
    assert empty is not None
    for n in range(3):
        await save(store, turn(f"{n}", f"{n}", size=50_000), [key(f"{n}")])
    await save(store, turn("2nd", "0", size=50_000), [key("0")])
    full = await store.usage()
    assert full is not None
    assert await store.forget(SCOPE, bytes_of("1"))
    less = await store.usage()
    assert less is not None
    await kept.passes(WIDE.ttl_s)
    expired = await store.usage()
    assert expired is not None

    counts = [one.conversations for one in (empty, full, less, expired)]
    assert counts == [0, 3, 2, 0]
    assert empty.size_bytes < less.size_bytes < full.size_bytes
    assert 200_000 < full.size_bytes - empty.size_bytes < 300_000
    assert {(one.max_bytes, one.evicted) for one in (empty, full, less, expired)} == {(64 << 20, 0)}


async def test_a_survey_returns_the_stored_conversations(kept: Kept) -> None:
    """Each conversation is returned once with its numbers, for all scopes or for one."""
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
async def test_a_survey_is_paged(kept: Kept, limit: int) -> None:
    """All conversations are returned in total, whatever the size of a page is."""
    store = kept.opens(WIDE)
    for n in range(30):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}"), key(f"also {n}")])
    every = await surveyed(store, SCOPE, limit)
    assert {one.conversation for one in every} == {bytes_of(f"{n}") for n in range(30)}


@pytest.mark.parametrize("cursor", ["x", "x:y", "99:0", "-1:0", "²"])
async def test_an_invalid_cursor_is_rejected(kept: Kept, cursor: str) -> None:
    """The caller is at fault for an invalid cursor, and not the store."""
    with pytest.raises(BadCursor):
        await kept.opens(WIDE).survey(None, cursor, 10)


async def test_a_deleted_conversation_is_gone(kept: Kept) -> None:
    """Its index entries are deleted too; other conversations stay, also if they share a key."""
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
    assert await led_to(id_keys_of_turn(turns[0])[0], OTHER) == ["a"]
    assert await store.forget(SCOPE, bytes_of("two"))
    assert await store.forget(OTHER, bytes_of("one"))
    assert await kept.names() == []


async def test_only_a_stored_conversation_can_be_deleted(kept: Kept) -> None:
    """A conversation of another scope cannot be deleted, and none can be deleted twice."""
    store = kept.opens(WIDE)
    await save(store, turn("a", "one"), [key("1")])
    assert not await store.forget(OTHER, bytes_of("one"))
    assert not await store.forget(SCOPE, bytes_of("two"))
    assert await store.forget(SCOPE, bytes_of("one"))
    assert not await store.forget(SCOPE, bytes_of("one"))


async def test_a_deleted_conversation_starts_empty(kept: Kept) -> None:
    """A save after the deletion does not bring old turns back."""
    store = kept.opens(WIDE)
    await save(store, turn("a", "one"), keys_of_turn(turn("a", "one")))
    await store.forget(SCOPE, bytes_of("one"))
    await save(store, turn("b", "one"), [key("1")])
    assert await found(store, "1") == ["b"]


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


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_final_deletion_refuses_every_later_save(behind: Kept, is_stored: bool) -> None:
    """Of replicas that know the conversation and of others, also if it was not stored; for good."""
    store, other = behind.opens(WIDE), behind.opens(WIDE)
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


async def test_a_mark_of_a_scope_refuses_conversations_that_are_new(behind: Kept) -> None:
    """Unless the caller knows the mark. Conversations that are there, and other scopes, go on."""
    store, other = behind.opens(WIDE), behind.opens(WIDE)
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


async def test_a_mark_ends(behind: Kept) -> None:
    """After a day, or the time to live if that is longer."""
    store = behind.opens(BRIEF)
    one = turn("a", "c")
    await store.forget(SCOPE, one.conversation, is_final=True)
    await store.mark(SCOPE)
    await behind.passes(MARKED_S - 10)
    with pytest.raises(Deleted):
        await save_late(store, one, b"")
    with pytest.raises(Deleted):
        await save_late(store, turn("a", "d"), b"", is_stored=False)
    await behind.passes(MARKED_S)
    assert (await find(store, one, -1))[2:] == (frozenset(), b"")
    await save_late(store, one, b"", is_stored=False)
    assert len((await find(store, one)).conversations) == 1


async def test_a_deletion_of_a_scope_races_with_its_first_saves(behind: Kept) -> None:
    """Whatever a walk after the mark does not find is refused, and never found meanwhile."""
    one, other = behind.opens(WIDE), behind.opens(WIDE)
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


async def test_a_deletion_hides_no_other_conversation(kept: Kept) -> None:
    """A key also leads to what another replica saves while a conversation of it is deleted."""
    one, other = kept.opens(WIDE), kept.opens(WIDE)
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


async def test_a_trim_of_a_key_hides_no_conversation(kept: Kept) -> None:
    """A conversation that repeats a text trims its key; what others add meanwhile stays."""
    one, other = kept.opens(WIDE), kept.opens(WIDE)
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


@pytest.mark.parametrize("kind", [one for one in BEHIND if not one.startswith("dictionary")])
async def test_processes_that_share_a_store_meet(kind: str, request: pytest.FixtureRequest) -> None:
    """Each sees the marks of those that noted one lately, and their own store keeps no other."""
    async with on_kind(kind, request.getfixturevalue) as kept:
        one, other = kept.opens(BRIEF), kept.opens(BRIEF)
        assert await one.meet(b"abc") == [b"abc"]
        assert {*await other.meet(b"defghi")} == {b"abc", b"defghi"}
        await kept.passes(MET_S * 0.75)
        assert {*await one.meet(b"abc")} == {b"abc", b"defghi"}
        await kept.passes(MET_S * 0.75)
        assert {*await one.meet(b"\xff\x00\n")} == {b"abc", b"\xff\x00\n"}
        assert (await one.survey(None, "", 10)).conversations == []
