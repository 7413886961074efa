"""The conversation cache: copies are valid at the store's version, and stale if the store fails."""

import asyncio
import threading
from collections.abc import Coroutine, Mapping

import pytest
from msgspec import structs
from reasoning_replay.adapters.resilience import conversation, reader, store_view
from reasoning_replay.adapters.resilience.safe_store import Budget, Saved
from reasoning_replay.adapters.stores.base import StoreError
from reasoning_replay.adapters.stores.contract.turns import SCOPE, bytes_of
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import Lookup
from reasoning_replay.core.history.records import records_of, turns_of, withheld_records
from reasoning_replay.core.history.turns import Turn

from tests.adapters.resilience.replicas import (
    Replica,
    Shared,
    looked_up,
    said,
    text_of,
)
from tests.patience import LONG_S
from tests.web.world import eventually

T1 = said("one")
T2 = said("two", T1, created_ms=2)
T3 = said("three", T2, created_ms=3)
ALL = {T1.id, T2.id, T3.id}
OTHER = bytes_of("another tenant")
UNKNOWN = Lookup(9, [bytes_of("unknown")])


async def begun(shared: Shared, *turns: Turn) -> Replica:
    """Return a replica at which a conversation was saved."""
    replica = Replica(shared)
    for one in turns or (T1, T2, T3):
        assert await replica.save(one) is Saved.DONE
    return replica


# --- valid copies ---


async def test_a_copy_is_valid_at_the_version_of_the_store() -> None:
    """A copy is loaded once and then confirmed, also after saves by the same replica."""
    shared = Shared()
    await begun(shared, T1)
    here = Replica(shared)
    assert await here.ids(T1) == {T1.id}
    assert await here.ids(T1) == {T1.id}
    await here.save(T2)
    await here.save(T3)
    assert await here.ids(T1, T2, T3) == ALL
    assert (here.counted("loaded"), here.counted("valid")) == (1, 2)


async def test_an_item_of_a_copy_is_looked_up_by_its_ids_only() -> None:
    """The content keys of such an item are used only if the store has lost the conversation."""
    shared, twin = Shared(), structs.replace(said("twin"), items=(T1.items[0],))
    here = await begun(shared, T1)
    saying = bytes_of("what both say")
    for one in (T1, twin):
        await shared.save((SCOPE, one.conversation), records_of(one), [saying])
    lookup = Lookup(0, looked_up(T1)[0].id_keys, [saying])
    assert await here.store.look_up(SCOPE, [lookup], Budget(LONG_S))

    async def ids() -> set[bytes]:
        found = await here.store.look_up(SCOPE, [lookup], Budget(LONG_S))
        return {turn.id for turn in found.turns} if found is not None else set()

    before = shared.lookups
    assert (await ids(), shared.lookups - before) == ({T1.id}, 1)
    await shared.forget(SCOPE, T1.conversation)
    index = shared._index[SCOPE]
    for key in index.keys() - {saying}:  # the twin begins with the same text, and has other ids
        del index[key]
    assert (await ids(), shared.lookups - before) == ({twin.id}, 3)


@pytest.mark.parametrize("most", [0, 100])
async def test_a_long_conversation_is_decoded_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Other streams continue in the meantime; a short conversation is decoded on the event loop."""
    threads: list[threading.Thread] = []

    def decoding(conversation: bytes, records: Mapping[bytes, bytes]) -> list[Turn]:
        threads.append(threading.current_thread())
        return turns_of(conversation, records)

    monkeypatch.setattr(store_view, "turns_of", decoding)
    monkeypatch.setattr(reader, "ON_LOOP_RECORDS", most)
    shared = Shared()
    await begun(shared)
    threads.clear()
    assert await Replica(shared).ids(T3) == ALL
    assert [one is threading.main_thread() for one in threads] == [bool(most)]


async def test_a_tombstone_of_another_replica_takes_effect_here() -> None:
    """A tombstone is a record like any other, in copies and in the store."""
    shared = Shared()
    here, there = await begun(shared, T1), Replica(shared)
    for replica in (here, there):
        await replica.look_up(T1)
    records = withheld_records(T1, {b"b" * 16}.__contains__)
    assert await here.store.save(SCOPE, T1.conversation, records, {}, Budget(LONG_S)) is Saved.DONE
    for replica in (here, there):
        found = await replica.look_up(T1)
        assert found is not None
        assert [item.withheld for item in found.turns[0].items] == [True]


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of the number of records in each decoding."""
    done: list[int] = []

    def decode(conversation: bytes, records: dict[bytes, bytes]) -> list[Turn]:
        done.append(len(records))
        return turns_of(conversation, records)

    monkeypatch.setattr(store_view, "turns_of", decode)
    monkeypatch.setattr(conversation, "turns_of", decode)
    return done


async def test_a_copy_is_decoded_once(decoded: list[int]) -> None:
    """Only the records of a new or changed turn are decoded."""
    shared = Shared()
    here = await begun(shared, T1, T2)
    await here.look_up(T1)
    for changed, want in (
        ((T3,), [len(records_of(T3))]),
        ((), []),
        ((structs.replace(T3, models=("gpt-6",)),), [len(records_of(T3)) + 1]),
        ((structs.replace(T3, created_ms=T3.created_ms + 1),), [len(records_of(T3))]),
        ((structs.replace(T2, models=("gpt-6",)),), [len(records_of(T2)) + 1]),
        ((said("old", T1, created_ms=1),), [len(records_of(T2))]),
    ):
        for one in changed:
            await here.save(one)
        decoded.clear()
        found = await here.look_up(T1, T2)
        assert decoded[-1:] == want
        assert found is not None
        assert found.turns == shared.turns(SCOPE, T1.conversation)
        assert isinstance(found.turns, IndexedTurns)
        assert set(found.turns.names.turns) == {turn.id for turn in found.turns}
    assert here.counted("loaded") == 1


ASKED = {
    "only a text": [*looked_up(T1), text_of(1, T1)],
    "an unknown item": [*looked_up(T1), UNKNOWN],
    "two conversations": [*looked_up(T1), *looked_up(said("elsewhere"))],
    "keys that lead nowhere": [UNKNOWN],
    "no lookup": [],
}


@pytest.mark.parametrize("lookups", ASKED.values(), ids=ASKED)
async def test_a_lookup_with_copies_finds_what_the_store_finds(lookups: list[Lookup]) -> None:
    """The result is the same with copies and without them, including `crowded`."""
    shared = Shared()
    here = await begun(shared, T1, said("elsewhere"))
    want = await Replica(shared).store.look_up(SCOPE, lookups, Budget(LONG_S))
    for _ in range(3):
        found = await here.store.look_up(SCOPE, lookups, Budget(LONG_S))
        assert (found, want) != (None, None)
        assert found is not None
        assert want is not None
        assert sorted(turn.id for turn in found.turns) == sorted(turn.id for turn in want.turns)
        assert found.crowded == want.crowded


async def test_a_conversation_found_by_its_text_only_is_not_cached() -> None:
    """Only id keys lead to copies."""
    shared = Shared()
    stranger = said("stranger")
    await begun(shared, stranger)
    here = Replica(shared)
    for _ in range(2):
        found = await here.store.look_up(SCOPE, [text_of(0, stranger)], Budget(LONG_S))
        assert found is not None
        assert [turn.id for turn in found.turns] == [stranger.id]
    assert here.counted("loaded") == 2


@pytest.mark.parametrize("max_bytes", [0, 1200, 9000])
async def test_a_copy_without_room_is_loaded_again(max_bytes: int) -> None:
    """The cache is bounded in bytes, and the conversation that was used last stays."""
    shared = Shared()
    here = Replica(shared, max_bytes)
    turns = [said("0", size=1500)]
    for n in range(1, 4):
        turns.append(said(f"{n}", turns[-1], size=1500, created_ms=n + 1))
    for one in turns:
        await here.save(one)
    for _ in range(2):
        assert await here.ids(*turns) == {one.id for one in turns}
    assert (here.counted("loaded"), here.store.room.size_bytes) == (2, 0)
    short = said("short")
    await here.save(short)
    for _ in range(2):
        assert await here.ids(short) == {short.id}
    assert here.counted("valid") == (max_bytes == 9000)


async def test_scopes_are_separate() -> None:
    """The same ids in another scope find nothing, also while the store fails."""
    shared = Shared()
    here = await begun(shared)
    await here.look_up(T1)
    assert await here.ids(T1, scope=OTHER) == set()
    shared.is_away = True
    assert await here.ids(T1, scope=OTHER) is None
    assert await here.ids(T1) == ALL


# --- lookups that overlap another operation ---


async def under_way(
    shared: Shared, asking: Coroutine[None, None, set[bytes] | None]
) -> asyncio.Task[set[bytes] | None]:
    """Start a lookup, and return its task while the store holds the result or its reading."""
    if shared.reads.is_set():
        shared.answers.clear()
    lookups = shared.lookups
    task = asyncio.create_task(asking)
    await eventually(lambda: shared.lookups > lookups)
    return task


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_pending_lookup_does_not_undo_a_deletion(*, is_held: bool) -> None:
    """A result from before a deletion is not cached after it."""
    shared = Shared()
    await begun(shared)
    here = Replica(shared)
    if is_held:
        await here.look_up(T3)
    asking = await under_way(shared, here.ids(T3))
    assert await here.store.forget(SCOPE, T1.conversation)
    shared.answers.set()
    assert await asking == ALL
    shared.is_away = True
    assert await here.ids(T3) is None
    shared.is_away = False
    assert await here.ids(T3) == set()


@pytest.mark.parametrize("is_held", [True, False])
async def test_a_pending_lookup_returns_late_saves(*, is_held: bool) -> None:
    """A client may send the output of a call before the store has the turn of that call."""
    shared = Shared()
    await begun(shared, T1, T2)
    here = Replica(shared)
    if is_held:
        await here.look_up(T2)
    shared.answers.clear()
    assert await here.save(T3, budget_s=0.001) is Saved.LATE
    asking = await under_way(shared, here.ids(T2, T3))
    shared.answers.set()
    assert await asking == ALL
    assert await here.ids(T2, T3) == ALL


async def test_a_pending_lookup_does_not_undo_a_save() -> None:
    """A turn that is captured during a lookup is not in its result, but stays in the cache."""
    shared = Shared()
    await begun(shared, T1, T2)
    here = Replica(shared)
    await here.look_up(T2)
    await Replica(shared).save(said("elsewhere", T2, created_ms=9))
    asking = await under_way(shared, here.ids(T2))
    shared.is_full = True
    assert await here.save(T3) is Saved.FAILED
    shared.answers.set()
    assert T3.id in (await asking or ())
    shared.is_away = True
    assert {*ALL, bytes_of("elsewhere")} == await here.ids(T2)


async def test_a_save_during_a_lookup_is_not_a_change_by_another_replica() -> None:
    """Requests of one conversation side by side do not load it again after each save."""
    shared = Shared()
    await begun(shared, T1, T2)
    here = Replica(shared)
    await here.look_up(T2)
    shared.reads.clear()
    asking = await under_way(shared, here.ids(T2, T3))
    assert await here.save(T3) is Saved.DONE
    shared.reads.set()
    assert await asking == ALL
    assert (here.counted("loaded"), here.counted("valid")) == (1, 1)


async def test_a_late_result_is_cached() -> None:
    """A result that is too late for its exchange is used by the next one."""
    shared = Shared()
    await begun(shared)
    here = Replica(shared)
    shared.answers.clear()
    assert await here.store.look_up(SCOPE, looked_up(T3), Budget(0.001)) is None
    shared.answers.set()
    await eventually(lambda: here.counted("loaded") == 1)
    shared.answers.clear()
    found = await here.store.look_up(SCOPE, looked_up(T3), Budget(0.001))
    assert found is not None
    assert {turn.id for turn in found.turns} == ALL
    assert here.counted("stale") == 1
    shared.answers.set()
    await here.store.close()


# --- while the store fails ---


async def test_doubtful_keys_are_crowded_while_the_store_fails() -> None:
    """It is unknown which other conversation has the same text."""
    shared = Shared()
    here = await begun(shared, T1)
    shared.is_away = True
    unknown = Lookup(7, [bytes_of("unknown")], [b"saying"])
    also = [text_of(9, T1), unknown, Lookup(8, [bytes_of("without a saying")])]
    found = await here.look_up(T1, also=also)
    assert found is not None
    assert ([one.id for one in found.turns], found.crowded) == ([T1.id], {7, 9})
    assert await here.store.look_up(SCOPE, [text_of(9, T1)], Budget(LONG_S)) is None


async def test_without_a_cache_no_copy_is_used() -> None:
    """`local_max_bytes: 0` disables copies; a failed save is still repeated with the next one."""
    shared = Shared()
    await begun(shared, T1)
    here = Replica(shared, max_bytes=0)
    shared.is_full = True
    assert await here.save(T2) is Saved.FAILED
    for _ in range(2):
        assert await here.ids(T1, T2) == {T1.id}
    shared.is_away = True
    assert await here.ids(T1, T2) is None
    shared.is_away = shared.is_full = False
    assert await here.save(T3) is Saved.DONE
    assert {turn.id for turn in shared.turns(SCOPE, T1.conversation)} == ALL
    assert (here.counted("loaded"), here.store.room.size_bytes) == (2, 0)


async def test_an_item_of_an_unsaved_turn_is_not_crowded_by_its_text() -> None:
    """Its ids lead to it, so it does not matter how many conversations have the same text."""
    shared, saying = Shared(), bytes_of("what all say")
    for n in range(9):
        one = said(f"another {n}")
        await shared.save((SCOPE, one.conversation), records_of(one), [saying])
    here, alone = Replica(shared), said("begun meanwhile")
    shared.is_full = True
    assert await here.save(alone) is Saved.FAILED
    lookup = Lookup(0, looked_up(alone)[0].id_keys, [saying])

    found = await here.store.look_up(SCOPE, [lookup], Budget(LONG_S))
    assert found is not None
    assert ({turn.id for turn in found.turns}, found.crowded) == ({alone.id}, set())


async def test_a_deletion_returns_whether_there_was_anything() -> None:
    """Unsaved records count as well, and are dropped also if the store fails."""
    shared = Shared()
    here = await begun(shared)
    shared.is_away = True
    with pytest.raises(StoreError):
        await here.store.forget(SCOPE, T1.conversation)
    assert await here.ids(T3) is None
    shared.is_away = False
    assert await here.store.forget(SCOPE, T1.conversation)
    assert not await here.store.forget(SCOPE, T1.conversation)
    shared.is_away = True
    await here.save(T1)
    shared.is_away = False
    assert await here.store.forget(SCOPE, T1.conversation)  # only this replica had it
    assert not await here.store.forget(SCOPE, T1.conversation)


async def test_a_response_that_comes_again_leaves_the_line_of_a_copy() -> None:
    """An upstream, or a cache in front of it, repeats a response; another one ends the line."""
    here = Replica(Shared())
    lines: list[object] = []
    for created_ms, size in (1, 10), (1, 10), (2, 10), (3, 11):
        await here.save(said("one", size=size, created_ms=created_ms, items=2))
        assert await here.ids(T1)
        lines.append(here.store.line(SCOPE, T1.conversation))

    _, first, again, other = lines  # the first one was not confirmed yet
    assert first is again is not other


async def test_a_response_that_comes_again_takes_no_more_memory() -> None:
    """A later response replaces an earlier one with its id; so does the memory that is counted."""
    here = Replica(Shared())
    sizes: list[int] = []
    for created_ms in (1, 3, 2, 4):
        await here.save(said("one", size=500, created_ms=created_ms, items=2))
        assert await here.ids(T1)
        await here.save(said("two", said("one"), created_ms=9))  # brings the size up to date
        assert await here.ids(T1)
        await here.save(said("two", said("one"), created_ms=9))
        sizes.append(here.store.room.size_bytes)

    assert len({*sizes}) == 1


async def test_reasoning_that_is_withheld_ends_the_line_of_a_copy() -> None:
    """So no decision about it is repeated; a turn that only grows leaves the line as it is."""
    shared = Shared()
    here = Replica(shared)
    records = withheld_records(T1, {b"b" * 16}.__contains__)
    lines: list[object] = []

    async def note() -> None:
        assert await here.ids(T1)
        lines.append(here.store.line(SCOPE, T1.conversation))

    for items in (1, 1, 2, 2):
        await here.save(said("one", items=items))
        await note()
    await here.store.save(SCOPE, T1.conversation, records, {}, Budget(LONG_S))
    await note()
    await here.save(T2)
    await note()

    _, again, grown, same, withheld, later = lines
    assert again is grown is same
    assert same is not withheld
    assert withheld is later


# --- bounds ---


async def test_what_is_not_saved_is_evicted_last_and_what_is_being_saved_is_saved() -> None:
    """In an outage; so only an outage that is too long for the room loses turns, and is counted."""
    shared = Shared()
    here = Replica(shared, max_bytes=20_000)
    shared.is_away = True
    kept = [said(f"unsaved {n}", size=1000) for n in range(2)]  # the breaker is closed
    for one in kept:
        await here.save(one)
    shared.is_away = False
    others = [said(f"other {n}", size=1000) for n in range(20)]
    for one in others:
        await here.save(one)
    assert here.store.room.evictions > 0
    assert here.store.room.unsaved_evictions == 0
    await here.store.check()
    await asyncio.gather(*here.store.tasks)
    assert all(shared.turns(SCOPE, one.conversation) == [one] for one in kept)

    shared.answers.clear()
    before = shared.saves
    saving = asyncio.ensure_future(here.save(said("in flight", size=1000)))
    await eventually(lambda: shared.saves > before)
    shared.is_away = True
    for n in range(20):
        await here.store.save(
            SCOPE, bytes_of(f"{n}"), records_of(said(f"{n}", size=1000)), {}, Budget(0.0)
        )
    assert here.store.room.unsaved_evictions > 0
    shared.is_away = False
    shared.answers.set()
    assert await saving is Saved.DONE
    assert shared.turns(SCOPE, bytes_of("in flight")) == [said("in flight", size=1000)]
