"""
Safe store: the store interface for exchanges, which never raises, and for operators.

It makes the proxy fail open. An exchange waits for all of its operations together only as long as
its `Budget` lasts. An operation that takes longer continues in the background for `timeout_s`.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, NamedTuple, TypeVar

from reasoning_replay.adapters.resilience.circuit_breaker import Permit
from reasoning_replay.adapters.resilience.conversation_cache import (
    ConversationCache,
    Versions,
    View,
)
from reasoning_replay.adapters.resilience.save_queue import SaveQueue
from reasoning_replay.adapters.resilience.store_guard import AT_ONCE, Budget, Call, StoreGuard
from reasoning_replay.adapters.runtime.offload import Busy, Offloader
from reasoning_replay.adapters.stores.base import (
    Deleted,
    Name,
    Page,
    Store,
    StoreError,
    StoreResult,
    VersionChange,
)
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult

__all__ = ["NO_TIME", "Budget", "SafeStore", "Saved"]

# Most records that are decoded on the event loop; each takes about three microseconds.
ON_LOOP_RECORDS = 1024
# Timeout of an operator's request, which may wait longer than an exchange.
OPERATOR_WAITS_S = 10.0
# A probe looks up a key that is never stored.
NO_SCOPE = bytes(16)
NOTHING = (Lookup(0, [bytes(16)]),)

# For an exchange without a scope: a budget that is used up, which no operation changes.
NO_TIME = Budget(0.0)

_Got = TypeVar("_Got")


class Saved(Enum):
    """Result of a save."""

    DONE = "done"
    LATE = "late"  # not known yet: the save continues
    FAILED = "failed"
    DELETED = "deleted"  # not saved: the conversation was deleted since the exchange began


class SafeStore:
    """
    A store with circuit breakers, deadlines and a cache.

    Attributes:
        inner: The store itself; `close` closes it.
        room: The memory for what this process keeps of conversations.
    """

    def __init__(
        self, store: Store, guard: StoreGuard, cache: ConversationCache, offloader: Offloader
    ) -> None:
        self.inner = store
        self.room = cache.room
        self._guard = guard
        self._clock = guard.clock
        self._cache = cache
        self._budget_s = float("inf")  # of the last lookup
        self._usual_s = 0.0  # duration of lookups, averaged
        self._answered_s = float("-inf")
        self._lookup_slots = asyncio.Semaphore(AT_ONCE)
        self._saves = SaveQueue(lambda: self.inner, guard, cache)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._offloader = offloader

    @property
    def is_degraded(self) -> bool:
        """Whether the store failed within the last second, or has not worked since it failed."""
        return self._guard.is_degraded

    @property
    def has_failed_lately(self) -> bool:
        """As `StoreGuard.has_failed_lately`."""
        return self._guard.has_failed_lately

    @property
    def needs_check(self) -> bool:
        """Whether a check may end an outage, or save what the store did not take."""
        return self._guard.is_degraded or self._saves.has_overdue

    # For exchanges...

    def budget(self, budget_s: float) -> Budget:
        """Return the budget of an exchange that begins now."""
        return Budget(budget_s, self._cache.deletions.count)

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], budget: Budget
    ) -> LookupResult | None:
        """
        Return the stored turns for a request, within the budget of its exchange.

        If the store fails or is late, return local copies, or None if none of them matches.
        """
        view = self._cache.view(scope, lookups)
        if self.inner.is_embedded:  # it never waits, so it needs no task and no timeout
            found = await self._guard.run(Call("recall"), partial(self._look_up, view), waits=False)
        else:
            found = await self._look_up_within(view, budget)
        if found is None:
            return self._cache.stale(view)
        if budget.since is not None:
            budget.since = found.since
        return found.result

    def line(self, scope: bytes, conversation: bytes) -> object:
        """Return `IndexedTurns.line` of the local copy of a conversation; None without one."""
        return self._cache.line((scope, conversation))

    async def save(
        self,
        scope: bytes,
        conversation: bytes,
        records: Mapping[bytes, bytes],
        keys: Mapping[bytes, bool],
        budget: Budget,
    ) -> Saved:
        """
        Save records of a conversation; beyond the budget, the save continues in the background.

        Records and keys (-> whether they are certain) are those that are not saved yet, including
        those of failed saves.
        """
        name = (scope, conversation)
        if self.is_deleted(scope, conversation, budget):
            return Saved.DELETED
        if self.inner.is_embedded:
            return await self._save_embedded(name, records, keys)
        pending = self._saves.put(name, records, keys)
        if pending is None:
            return Saved.FAILED
        call, task = pending
        # While lookups fail, so do saves: three of them take three timeouts to fail.
        waits = all(one.is_closed for one in self._guard.breakers.values())
        if not await self._guard.wait(call, task, budget if waits else NO_TIME):
            return Saved.LATE
        if self.is_deleted(scope, conversation, budget):
            return Saved.DELETED
        return Saved.DONE if task.result() else Saved.FAILED

    def is_deleted(self, scope: bytes, conversation: bytes, budget: Budget) -> bool:
        """Return whether a conversation is known to be deleted since an exchange began."""
        return self._cache.deletions.are_after(budget.since, (scope, conversation))

    # For operators...

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Return a page as `Store.survey` does; raise StoreError on failure or after 10 s."""
        return await _for_operator(lambda: self.inner.survey(scope, cursor, limit))

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """
        Delete a conversation for good, whatever of it waits or is in flight.

        Returns:
            Whether it was stored, or this process would have stored it.

        Raises:
            StoreError: The store failed, or took over 10 s.
        """
        name = (scope, conversation)
        self._cache.deletions.note(name)
        saves = [task for task, saved in self._saves.tasks.items() if saved == name]
        if saves:  # a later save would create the conversation again
            # Each ends within two timeouts: an exchange waits for it, and then it has its own.
            await asyncio.wait(saves, timeout=2 * self._guard.timeout_s)
        was_unsaved = self._cache.discard(name)
        try:
            forget = partial(self.inner.forget, *name, is_final=True)
            return await _for_operator(forget) or was_unsaved
        finally:
            self._cache.discard(name)  # a lookup may have loaded it meanwhile

    async def forget_scope(self, scope: bytes) -> int:
        """
        Drop all of a scope that waits or is in flight, on every replica; what is stored stays.

        Returns:
            The number of conversations that only this process had.

        Raises:
            StoreError: The store failed, or took over 10 s. Nothing is dropped.
        """
        unsaved = self._cache.count_unsaved(scope)
        mark = await _for_operator(lambda: self.inner.mark(scope))
        self._cache.note_scope(scope, mark)
        return unsaved

    async def measure(self) -> None:
        """Update the metrics of the store's use; if it cannot be read, they are absent."""
        usage = None
        with contextlib.suppress(StoreError):
            usage = await self.inner.usage()
        self._guard.metrics.show_usage(usage)

    async def check(self) -> bool:
        """Return whether the store works; this also asks it while its breakers are open."""

        async def check() -> bool:
            await self.inner.check()
            return True

        async def save() -> None:
            name = (NO_SCOPE, secrets.token_bytes(len(NO_SCOPE)))
            await self.inner.save(name, {}, [])
            await self.inner.forget(*name)

        # What failed is tried here as well, where no exchange is involved.
        await self._try("recall", partial(self.inner.look_up, NO_SCOPE, NOTHING, {}))
        is_there = await self._guard.run(Call("check"), check)
        if is_there and self._saves.has_overdue:
            self._saves.put_overdue()
        elif is_there:
            await self._try("save", save)
        # A store that responds to PING may still fail its operations.
        return bool(is_there) and not self.is_degraded

    async def _try(self, operation: str, act: Callable[[], Awaitable[object]]) -> None:
        """Run an operation that failed, unless its breaker forbids that."""
        breaker = self._guard.breakers[operation]
        if operation in self._guard.failing and (permit := breaker.allow()) is not Permit.SKIP:
            useful_s = self._budget_s if operation == "recall" else float("inf")
            call = Call(operation, permit, self._clock(), useful_s)
            await self._guard.run(call, act)

    async def close(self) -> None:
        """Wait up to `timeout_s` for operations and for what is not saved, then close the store."""
        self._saves.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._guard.timeout_s):
                while tasks := [*self._tasks, *self._saves.tasks]:
                    await asyncio.wait(tasks)
        tasks = [*self._tasks, *self._saves.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.inner.close()

    # Looking up...

    async def _look_up(self, view: View) -> "_Found":
        held = Versions(view)
        result = await self.inner.look_up(view.scope, view.asked, held)
        while self._cache.note_deleted(view, result):
            view = self._cache.view(view.scope, view.lookups)
            held = Versions(view)
            result = await self.inner.look_up(view.scope, view.asked, held)
        if not view.held.keys() <= {one.conversation for one in result.conversations}:
            # One was deleted or has expired, so other conversations may match its items.
            result = await self.inner.look_up(view.scope, view.lookups, held)
        decode = partial(self._cache.decode, view, result)
        try:
            loaded = await self._offloader.run(decode, view.scope, is_long=_is_long(result))
        except Busy:
            raise StoreError("no thread was free to decode records", is_local=True) from None
        since = self._cache.deletions.count
        return _Found(self._cache.merge(view, result, loaded), since)

    async def _look_up_within(self, view: View, budget: Budget) -> "_Found | None":
        """Look up in a task; return None if that fails or exceeds the budget."""
        permit = self._guard.breakers["recall"].allow() if budget.left_s > 0 else Permit.SKIP
        if permit is Permit.SKIP:
            self._guard.count("recall", "skipped")
            return None
        self._budget_s = budget.whole_s
        is_probe = permit is Permit.PROBE
        call = Call("recall", permit, self._clock(), budget.whole_s, is_awaited=not is_probe)

        async def act() -> _Found:
            found = await self._look_up(view)
            self._answered_s = self._clock()
            self._usual_s += (self._answered_s - call.began_s - self._usual_s) / 8
            return found

        if is_probe:
            self._begin(self._guard.run(call, act))
            return None
        is_whole = budget.left_s == budget.whole_s
        if not await self._take_slot(budget):
            self._guard.count("recall", "late")
            if self._answered_s < call.began_s:  # else this process is busy, not the store
                self._guard.miss(call)
            return None
        is_whole = is_whole and budget.left_s == budget.whole_s
        task = self._begin(self._guard.run(call, act))
        task.add_done_callback(lambda _: self._lookup_slots.release())
        if await self._guard.wait(call, task, budget):
            return task.result()
        if is_whole:  # a part of the budget may be too short for a store that works
            self._guard.miss(call)
        return None

    async def _take_slot(self, budget: Budget) -> bool:
        """Wait for a free lookup slot; return False if too little of the budget is left."""
        if not self._lookup_slots.locked():
            return await self._lookup_slots.acquire()  # at once
        began_s = self._clock()
        try:
            async with asyncio.timeout(budget.left_s):
                await self._lookup_slots.acquire()
        except TimeoutError:
            budget.left_s = 0.0
            return False
        budget.left_s = max(0.0, budget.left_s - (self._clock() - began_s))
        # A lookup that begins too late delays the next one, which then begins too late as well.
        if budget.left_s <= self._usual_s:
            self._lookup_slots.release()
            budget.left_s = 0.0
            return False
        return True

    # Saving...

    async def _save_embedded(
        self, name: Name, records: Mapping[bytes, bytes], keys: Mapping[bytes, bool]
    ) -> Saved:
        """Save without a task; records of a failed save are not kept for a retry."""
        deletions, is_deleted = self._cache.deletions, False

        async def act() -> VersionChange | None:
            nonlocal is_deleted
            try:
                return await self.inner.save(name, records, keys, deletions.mark(name[0]))
            except Deleted:
                is_deleted = True
                return None

        change = await self._guard.run(Call("save"), act, waits=False)
        if is_deleted:
            return Saved.DELETED
        if change is None:
            return Saved.FAILED
        self._cache.note_saved(name, records, keys, change)
        return Saved.DONE

    def _begin(self, work: Coroutine[Any, Any, _Got]) -> asyncio.Task[_Got]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class _Found(NamedTuple):
    """Result of a lookup, with `Deletions.count` as of it."""

    result: LookupResult
    since: int


def _is_long(result: StoreResult) -> bool:
    """Return whether there are enough loaded records to decode them in a thread."""
    records = sum(len(one.records or ()) for one in result.conversations)
    return records > ON_LOOP_RECORDS


async def _for_operator(act: Callable[[], Awaitable[_Got]]) -> _Got:
    """Run an operation for an operator; every failure is a StoreError."""
    try:
        async with asyncio.timeout(OPERATOR_WAITS_S):
            return await act()
    except StoreError:
        raise
    except TimeoutError as error:
        raise StoreError(f"no response within {OPERATOR_WAITS_S:.0f} s") from error
    except Exception as error:
        raise StoreError(type(error).__name__) from error
