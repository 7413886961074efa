"""
Safe store: what exchanges and operators use of a store. For exchanges it never raises.

This is promise 2, fail open. One operation may take `timeout_s`; then it has failed. An exchange
waits only as long as its `Budget` lasts, for all its operations together; an operation that takes
longer goes on in the background. It is not cancelled, as that would cost its connection.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import TypeVar

from reasoning_replay.adapters.resilience.cache_entry import Batch
from reasoning_replay.adapters.resilience.circuit_breaker import Permit
from reasoning_replay.adapters.resilience.conversation_cache import ConversationCache, Name, View
from reasoning_replay.adapters.resilience.store_guard import Call, StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import Page, Store, StoreError, StoreResult
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult

__all__ = ["NO_TIME", "Budget", "SafeStore", "Saved"]

# Lookups under way at once, and saves. One loop does all the work: with more, each finds its time
# passed while it waits for the others; with fewer, a Redis that is some ms away is not made use of.
# (30 clients on a busy machine, 0 to 15 ms away: 4 is best at 0, 16 at 15.) A lookup in Redis is
# two round trips: one that is 20 ms away gives 16 / (2 * 20 ms) = 400 a second, and not more.
AT_ONCE = 16
# Saves that are not finished, waiting ones included.
SAVES_MAX = 1024
SAVES_MAX_BYTES = 32 << 20
# Decoded on the event loop; each takes some three microseconds.
ON_LOOP_RECORDS = 1024
# An operator may wait longer than an exchange.
OPERATOR_WAITS_S = 10.0
# A probe looks up what is never stored.
NO_SCOPE = bytes(16)
NOTHING = (Lookup(0, [bytes(16)]),)

_Got = TypeVar("_Got")


class Budget:
    """
    How long one exchange may still wait for the store.

    Attributes:
        left_s: Reduced by each wait, and 0 from the first that was in vain.
        whole_s: Its initial value.
    """

    __slots__ = ("left_s", "whole_s")

    def __init__(self, left_s: float) -> None:
        """Start with all of it."""
        self.left_s = self.whole_s = left_s

    @property
    def is_used_up(self) -> bool:
        """Whether the exchange waits no longer: a late result counts as none."""
        return self.left_s <= 0


# For an exchange without a scope: a budget that is used up, which no operation changes.
NO_TIME = Budget(0.0)


class Saved(Enum):
    """Result of a save."""

    DONE = "done"
    LATE = "late"  # not known yet: it goes on
    FAILED = "failed"


class SafeStore:
    """
    A store behind a circuit breaker, deadlines, and a cache.

    Attributes:
        inner: The store itself.
    """

    def __init__(self, store: Store, guard: StoreGuard, cache: ConversationCache) -> None:
        """
        Guard a store.

        Args:
            store: Owned from here on; `close` closes it.
            guard: Runs its operations.
            cache: Empty.
        """
        self.inner = store
        self._guard = guard
        self._clock = guard.clock
        self._cache = cache
        self._budget_s = float("inf")  # of the last lookup
        self._usual_s = 0.0  # duration of lookups, averaged
        self._answered_s = float("-inf")
        self._lookup_slots = asyncio.Semaphore(AT_ONCE)
        self._save_slots = asyncio.Semaphore(AT_ONCE)
        self._tasks: dict[asyncio.Task[object], Name | None] = {}
        self._unsaved_bytes = 0
        self._offloader = Offloader()

    @property
    def is_degraded(self) -> bool:
        """Whether the store failed within the last second or has not worked since it did."""
        return self._guard.is_degraded

    # For exchanges...

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], budget: Budget
    ) -> LookupResult | None:
        """
        Return what is stored; None when the store did not answer and no local copy helps.

        Args:
            scope: Whose.
            lookups: As `keys_of_request` gives them.
            budget: Reduced by the time this takes.
        """
        view = self._cache.view(scope, lookups)
        if self.inner.is_embedded:  # it never waits: a task and a timeout would only cost
            found = await self._guard.run(Call("recall"), partial(self._look_up, view), waits=False)
        else:
            found = await self._look_up_within(view, budget)
        return found if found is not None else self._cache.stale(view)

    async def save(
        self,
        scope: bytes,
        conversation: bytes,
        records: Mapping[bytes, bytes],
        keys: Sequence[bytes],
        budget: Budget,
    ) -> Saved:
        """
        Add records to a conversation: now, or later where that takes longer than the budget.

        Args:
            scope: Whose.
            conversation: Which.
            records: Those that were not saved before, by name; also those whose save failed.
            keys: Those that shall lead to the conversation, in the same way.
            budget: Reduced by the time this takes.
        """
        name = (scope, conversation)
        if self.inner.is_embedded:
            return await self._save_embedded(name, records, keys)
        batch = self._cache.add(name, records, keys)
        breaker = self._guard.breakers["save"]
        is_probe = not breaker.is_closed
        size = sum(map(len, records.values()))
        is_full = len(self._tasks) >= SAVES_MAX or self._unsaved_bytes + size > SAVES_MAX_BYTES
        if is_full or not breaker.is_due:
            self._guard.count("save", "skipped")
            return Saved.FAILED
        if batch.task is None:
            batch.task = self._begin(self._save_behind(name, batch), name)
        batch.size_bytes += size
        self._unsaved_bytes += size
        batch.is_late = False
        task = batch.task
        if not is_probe and await self._wait(task, budget):
            return Saved.DONE if task.result() else Saved.FAILED
        batch.is_late = True
        return Saved.LATE

    def forget_soon(self, scope: bytes, conversation: bytes) -> None:
        """Delete a conversation whose turns another one has now; if that fails, it expires."""

        async def forget() -> None:
            with contextlib.suppress(StoreError):
                await self.forget(scope, conversation)

        self._begin(forget())

    # For operators...

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As `Store.survey`; raises StoreError within 10 seconds."""
        return await _for_operator(lambda: self.inner.survey(scope, cursor, limit))

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As `Store.forget`; raises StoreError within 10 seconds."""
        name = (scope, conversation)
        saves = [task for task, saved in self._tasks.items() if saved == name]
        if saves:  # what is saved after the deletion would be a conversation again
            await asyncio.wait(saves, timeout=self._guard.timeout_s)
        was_unsaved = self._cache.discard(name)
        try:
            return await _for_operator(lambda: self.inner.forget(*name)) or was_unsaved
        finally:
            self._cache.discard(name)  # what was loaded meanwhile

    async def check(self) -> bool:
        """Tell whether the store is well; also while its breakers are open."""

        async def check() -> bool:
            await self.inner.check()
            return True

        # A due probe of lookups is done here, where no exchange is concerned.
        if self._guard.breakers["recall"].allow() is Permit.PROBE:
            probe = Call("recall", Permit.PROBE, useful_s=self._budget_s)
            look_up = partial(self.inner.look_up, NO_SCOPE, NOTHING, {})
            await self._guard.run(probe, look_up)
        is_there = await self._guard.run(Call("check"), check)
        # A store that answers a PING while it fails at its work is not well.
        return bool(is_there) and not self.is_degraded

    async def close(self) -> None:
        """Finish what is under way, for `timeout_s` at most, and close the store."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._guard.timeout_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.inner.close()

    # Looking up...

    async def _look_up(self, view: View) -> LookupResult:
        result = await self.inner.look_up(view.scope, view.asked, view.held)
        if not view.held.keys() <= {one.conversation for one in result.conversations}:
            # One was deleted or has expired, so what it says may be found elsewhere.
            result = await self.inner.look_up(view.scope, view.lookups, view.held)
        loaded = await self._offloader.run(
            partial(self._cache.decode, view, result), is_long=_is_long(result)
        )
        return self._cache.merge(view, result, loaded)

    async def _look_up_within(self, view: View, budget: Budget) -> LookupResult | None:
        """Look up in a task; None when it fails, or is not done within the budget."""
        permit = self._guard.breakers["recall"].allow() if budget.left_s > 0 else Permit.SKIP
        if permit is Permit.SKIP:
            self._guard.count("recall", "skipped")
            return None
        self._budget_s = budget.whole_s
        call = Call("recall", permit, self._clock(), useful_s=budget.whole_s)

        async def act() -> LookupResult:
            found = await self._look_up(view)
            self._answered_s = self._clock()
            self._usual_s += (self._answered_s - call.began_s - self._usual_s) / 8
            return found

        if permit is Permit.PROBE:
            self._begin(self._guard.run(call, act))
            return None
        is_whole = budget.left_s == budget.whole_s
        if not await self._take_slot(budget):
            self._guard.count("recall", "late")
            if self._answered_s < call.began_s:  # else it is this process that is busy
                self._guard.miss(call)
            return None
        is_whole = is_whole and budget.left_s == budget.whole_s
        task = self._begin(self._guard.run(call, act))
        task.add_done_callback(lambda _: self._lookup_slots.release())
        if await self._wait(task, budget):
            return task.result()
        call.is_late = True
        if is_whole:  # half a budget may be too little for a store that is well
            self._guard.miss(call)
        return None

    async def _take_slot(self, budget: Budget) -> bool:
        """Wait until one more lookup may be under way; False when there is no time left for it."""
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
        # A lookup that begins too late keeps the next from beginning in time, and so on.
        if budget.left_s <= self._usual_s:
            self._lookup_slots.release()
            budget.left_s = 0.0
            return False
        return True

    # Saving...

    async def _save_embedded(
        self, name: Name, records: Mapping[bytes, bytes], keys: Sequence[bytes]
    ) -> Saved:
        """Save at once; what such a store does not take is not held back for it."""
        act = partial(self.inner.save, *name, records, keys)
        version = await self._guard.run(Call("save"), act, waits=False)
        if version is None:
            return Saved.FAILED
        self._cache.note_saved(name, records, version)
        return Saved.DONE

    async def _save_behind(self, name: Name, batch: Batch) -> bool:
        """Save a batch once the save before it has ended: one at a time for each conversation."""
        try:
            if (before := self._cache.saving(name)) and before.task is not None:
                await asyncio.wait([before.task])
            async with self._save_slots:
                permit = self._guard.breakers["save"].allow()
                if permit is not Permit.SKIP:
                    return await self._save(name, batch, Call("save", permit, self._clock()))
            self._guard.count("save", "skipped")
            return False
        finally:
            self._unsaved_bytes -= batch.size_bytes
            batch.task, batch.size_bytes = None, 0

    async def _save(self, name: Name, batch: Batch, call: Call) -> bool:
        async def act() -> int:
            version = int(await self.inner.save(*name, batch.records, [*batch.keys]))
            call.is_late = batch.is_late
            return version

        if not batch:  # its conversation was deleted
            return False
        version: int | None = None
        self._cache.begin_save(name, batch)
        try:
            version = await self._guard.run(call, act)
        finally:
            self._cache.end_save(name, batch, version)
        return version is not None

    # Waiting...

    def _begin(self, work: Awaitable[_Got], name: Name | None = None) -> asyncio.Task[_Got]:
        task = asyncio.ensure_future(work)
        self._tasks[task] = name
        task.add_done_callback(self._tasks.pop)
        return task

    async def _wait(self, task: asyncio.Task[_Got], budget: Budget) -> bool:
        """Wait for as long as the budget lasts; tell whether the task is done."""
        if budget.left_s > 0:
            began_s = self._clock()
            await asyncio.wait([task], timeout=budget.left_s)
            budget.left_s = max(0.0, budget.left_s - (self._clock() - began_s))
        if not task.done():
            budget.left_s = 0.0
        return task.done()


def _is_long(result: StoreResult) -> bool:
    """Tell whether what was loaded is to be decoded in a thread."""
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
        raise StoreError(f"no answer within {OPERATOR_WAITS_S:.0f} s") from error
    except Exception as error:
        raise StoreError(type(error).__name__) from error
