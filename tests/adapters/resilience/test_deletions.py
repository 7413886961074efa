"""Deletions are final, on every replica: for what waits for a late save, or is in flight."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from reasoning_replay.adapters.resilience import deletions
from reasoning_replay.adapters.resilience.circuit_breaker import PAUSE_MAX_S
from reasoning_replay.adapters.resilience.deletions import Deletions
from reasoning_replay.adapters.resilience.safe_store import Budget, Saved
from reasoning_replay.adapters.stores.base import SCOPE_ITSELF, StoreError
from reasoning_replay.adapters.stores.contract.turns import SCOPE, bytes_of
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of
from reasoning_replay.core.history.turns import Turn

from tests.adapters.resilience.replicas import Replica, Shared, looked_up, said
from tests.patience import LONG_S

ONE = said("one")
TWO = said("two", ONE, created_ms=2)

Delete = Callable[[Replica], Awaitable[object]]


async def delete_one(at: Replica) -> None:
    """Delete the conversation."""
    await at.store.forget(SCOPE, ONE.conversation)


async def delete_all(at: Replica) -> None:
    """Delete the scope, as the admin port does."""
    await at.store.forget_scope(SCOPE)
    for kept in (await at.store.survey(SCOPE, "", 100)).conversations:
        await at.store.forget(kept.scope, kept.conversation)


each_deletion = pytest.mark.parametrize("delete", [delete_one, delete_all])


async def save(at: Replica, one: Turn, budget: Budget) -> Saved:
    """Save a turn for an exchange."""
    keys = keys_of_turn(one)
    return await at.store.save(SCOPE, one.conversation, records_of(one), keys, budget)


async def settle(shared: Shared, *replicas: Replica) -> None:
    """Let the store work again, and all late saves end."""
    shared.is_away = shared.is_full = False
    for replica in replicas:
        for _ in range(3):
            shared.now_s += PAUSE_MAX_S
            await replica.store.check()
            while tasks := replica.store.tasks:
                await asyncio.gather(*tasks)
        assert not replica.store.needs_check


@each_deletion
@pytest.mark.parametrize("asked_first", [False, True])
@pytest.mark.parametrize("waits_here", [False, True])
@pytest.mark.parametrize("was_stored", [False, True])
async def test_what_waits_for_a_late_save_is_dropped(
    delete: Delete, waits_here: bool, was_stored: bool, asked_first: bool
) -> None:
    """On the replica that deletes, and on another one; before its next lookup and after it."""
    shared = Shared()
    here, there = Replica(shared), Replica(shared)
    waiting = here if waits_here else there
    if was_stored:
        await waiting.save(ONE)
    shared.is_full = True
    assert await save(waiting, TWO if was_stored else ONE, waiting.store.budget(LONG_S)) in {
        Saved.FAILED,
        Saved.LATE,
    }
    shared.is_full = False
    await delete(here)
    if asked_first:
        assert await waiting.ids(ONE, TWO) == set()
    await settle(shared, here, there)

    for replica in (here, there):
        assert await replica.ids(ONE, TWO) == set()
    assert not shared.kept


@each_deletion
@pytest.mark.parametrize("began_here", [False, True])
@pytest.mark.parametrize("was_stored", [False, True])
async def test_what_is_in_flight_is_dropped(
    delete: Delete, began_here: bool, was_stored: bool
) -> None:
    """Whatever an exchange saves that began before the deletion; also if no store answers."""
    shared = Shared()
    here, there = Replica(shared), Replica(shared)
    at = here if began_here else there
    budget = at.store.budget(LONG_S)
    if was_stored:
        await at.save(ONE)
        assert await at.store.look_up(SCOPE, [], budget) is not None
    await delete(here)

    assert await save(at, TWO if was_stored else ONE, budget) is Saved.DELETED
    assert await save(at, TWO if was_stored else ONE, budget) is Saved.DELETED
    assert not shared.kept
    shared.is_away = True
    assert await save(at, ONE, budget) is Saved.DELETED
    assert await at.ids(ONE, TWO) is None
    await settle(shared, here, there)
    assert not shared.kept


@pytest.mark.parametrize("began_here", [False, True])
async def test_what_begins_after_a_deletion_is_new(began_here: bool) -> None:
    """On another replica from its next lookup on, which says that the scope was deleted."""
    shared = Shared()
    here, there = Replica(shared), Replica(shared)
    await here.save(ONE)
    await there.look_up(ONE)
    await delete_all(here)
    at, new = here if began_here else there, said("new", created_ms=3)
    budget = at.store.budget(LONG_S)
    if not began_here:
        assert await at.ids(ONE) == set()
        budget = at.store.budget(LONG_S)

    assert await save(at, new, budget) is Saved.DONE
    assert await here.ids(ONE, new) == await there.ids(ONE, new) == {new.id}


async def test_a_lookup_that_tells_of_a_deletion_begins_what_is_new() -> None:
    """The exchange that learns of it began before, and decides after it."""
    shared = Shared()
    here, there = Replica(shared), Replica(shared)
    budget = there.store.budget(LONG_S)
    await delete_all(here)
    await there.store.look_up(SCOPE, looked_up(ONE), budget)
    new = said("new")
    assert await save(there, new, budget) is Saved.DONE
    assert await here.ids(new) == {new.id}


async def test_a_first_exchange_elsewhere_is_dropped_in_doubt() -> None:
    """Without a lookup, a replica cannot know whether it began before. The next one is new."""
    shared = Shared()
    here, there = Replica(shared), Replica(shared)
    await delete_all(here)
    budget = there.store.budget(LONG_S)
    assert await save(there, said("first"), budget) is Saved.DELETED
    assert await save(there, said("second"), there.store.budget(LONG_S)) is Saved.DONE


async def test_nothing_is_dropped_if_the_store_does_not_take_the_mark() -> None:
    """The operator gets an error, and may ask again."""
    shared = Shared()
    here = Replica(shared)
    shared.is_away = True
    await here.save(ONE)
    with pytest.raises(StoreError):
        await here.store.forget_scope(SCOPE)
    shared.is_away = False
    assert await here.ids(ONE) == {ONE.id}
    assert await here.store.forget_scope(SCOPE) == 1
    assert await here.ids(ONE) == set()


async def test_a_deletion_that_is_known_holds_when_the_store_fails_next() -> None:
    """A lookup that learns of it and then fails uses no copy of it."""
    shared = Shared()
    here, there = Replica(shared), Replica(shared)
    await there.save(ONE)
    await here.look_up(ONE)
    await delete_one(here)
    inner, lookups = shared.look_up, 0

    async def look_up(*given: object) -> object:
        nonlocal lookups
        lookups += 1
        if lookups > 1:
            raise StoreError("away")
        return await inner(*given)  # type: ignore[arg-type]

    shared.look_up = look_up  # type: ignore[method-assign, assignment]
    assert await there.ids(ONE) is None
    assert lookups == 2


async def test_other_scopes_are_not_touched() -> None:
    """Neither what waits there, nor what is in flight."""
    shared, other = Shared(), bytes_of("another tenant")
    here = Replica(shared)
    budget = here.store.budget(LONG_S)
    shared.is_away = True
    await here.save(ONE, scope=other)
    shared.is_away = False
    await delete_all(here)
    keys = keys_of_turn(TWO)
    saved = await here.store.save(other, TWO.conversation, records_of(TWO), keys, budget)
    assert saved is Saved.DONE
    await settle(shared, here)
    assert await here.ids(ONE, TWO, scope=other) == {ONE.id, TWO.id}


def test_deletions_are_known_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it, an exchange that began before the oldest ones saves nothing."""
    monkeypatch.setattr(deletions, "KNOWN_MAX", 3)
    known, a, b = Deletions(), (SCOPE, bytes_of("a")), (SCOPE, bytes_of("b"))
    known.note(a)
    assert known.are_after(0, a)
    assert not known.are_after(0, b)
    assert not known.are_after(1, a)
    assert not known.are_after(None, a)
    for n in range(3):
        known.note((SCOPE, bytes_of(f"{n}")))
    assert known.are_after(0, a)
    assert known.are_after(0, b)
    assert not known.are_after(1, b)

    scopes = [bytes_of(f"scope {n}") for n in range(4)]
    for scope in scopes:
        assert known.note_scope(scope, b"m")
        assert not known.note_scope(scope, b"m")
        assert not known.note_scope(scope, b"")
    assert [known.mark(scope) for scope in scopes] == [b"", b"m", b"m", b"m"]
    assert known.note_scope(scopes[-1], b"n")
    assert known.are_after(8, (scopes[-1], b"c"))
    assert not known.are_after(8, (scopes[-2], b"c"))
    assert SCOPE_ITSELF == b""
