"""
Reader: look-ups in the store of the local table, each within the budget of its exchange.

Several run at once, up to AT_ONCE. A look-up that takes longer than its budget continues in the
background for the timeout of a store operation.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple

from reasoning_replay.adapters.resilience.circuit_breaker import Permit
from reasoning_replay.adapters.resilience.local_table import LocalTable
from reasoning_replay.adapters.resilience.store_guard import AT_ONCE, Budget, Call, StoreGuard
from reasoning_replay.adapters.resilience.store_view import StoreView
from reasoning_replay.adapters.runtime.offload import Busy, Offloader
from reasoning_replay.adapters.stores.base import Store, StoreError, StoreResult
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult

# Most records that are decoded on the event loop; each takes about three microseconds.
ON_LOOP_RECORDS = 1024
# A probe looks up a key that is never stored.
NO_SCOPE = bytes(16)
NOTHING = (Lookup(0, [bytes(16)]),)


class Reader:
    """
    The one reader of a store, with the circuit breaker of look-ups.

    Attributes:
        tasks: Unfinished look-ups.
    """

    def __init__(
        self,
        store: Callable[[], Store],
        guard: StoreGuard,
        table: LocalTable,
        offloader: Offloader,
    ) -> None:
        self._store = store
        self._guard = guard
        self._clock = guard.clock
        self._breaker = guard.breakers["recall"]
        self._table = table
        self._offloader = offloader
        self._budget_s = float("inf")  # of the last look-up
        self._usual_s = 0.0  # duration of look-ups, averaged
        self._answered_s = float("-inf")
        self._slots = asyncio.Semaphore(AT_ONCE)
        self.tasks: set[asyncio.Task[_Found | None]] = set()

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], budget: Budget
    ) -> LookupResult | None:
        """Return what the store and the table have; what is here alone, if the store is late."""
        view = StoreView(self._table, scope, lookups)
        found = await self._look_up_within(view, budget)
        if found is None:
            stale = view.stale()
            if stale is not None:
                self._count("stale")
            return stale
        if budget.since is not None:
            budget.since = found.since
        return found.result

    async def probe(self) -> None:
        """Look up a key that is never stored, if look-ups fail and their breaker allows that."""
        if "recall" not in self._guard.failing or (permit := self._breaker.allow()) is Permit.SKIP:
            return
        call = Call("recall", permit, self._clock(), self._budget_s)
        await self._guard.run(call, lambda: self._store().look_up(NO_SCOPE, NOTHING, {}))

    async def _look_up(self, view: StoreView) -> "_Found":
        store = self._store()
        result = await store.look_up(view.scope, view.asked, view.held)
        while view.note_deleted(result):
            view = StoreView(self._table, view.scope, view.lookups)
            result = await store.look_up(view.scope, view.asked, view.held)
        if not view.is_whole(result):
            # One was deleted or has expired, so other conversations may match its items.
            result = await store.look_up(view.scope, view.lookups, view.held)
        decode = partial(view.decode, result)
        try:
            loaded = await self._offloader.run(decode, view.scope, is_long=_is_long(result))
        except Busy:
            raise StoreError("no thread was free to decode records", is_local=True) from None
        since = self._table.deletions.count
        found = view.merge(result, loaded)
        if found.turns or result.conversations:
            self._count("loaded" if loaded else "valid")
        return _Found(found, since)

    async def _look_up_within(self, view: StoreView, budget: Budget) -> "_Found | None":
        """Look up in a task; return None if that fails or exceeds the budget."""
        permit = self._breaker.allow() if budget.left_s > 0 else Permit.SKIP
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
            self._begin(call, act)
            return None
        is_whole = budget.left_s == budget.whole_s
        if not await self._take_slot(budget):
            self._guard.count("recall", "late")
            if self._answered_s < call.began_s:  # else this process is busy, not the store
                self._guard.miss(call)
            return None
        is_whole = is_whole and budget.left_s == budget.whole_s
        task = self._begin(call, act)
        task.add_done_callback(lambda _: self._slots.release())
        if await self._guard.wait(call, task, budget):
            return task.result()
        if is_whole:  # a part of the budget may be too short for a store that works
            self._guard.miss(call)
        return None

    def _begin(
        self, call: Call, act: Callable[[], Coroutine[Any, Any, "_Found"]]
    ) -> "asyncio.Task[_Found | None]":
        task = asyncio.ensure_future(self._guard.run(call, act))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def _take_slot(self, budget: Budget) -> bool:
        """Wait for a free slot; return False if too little of the budget is left."""
        if not self._slots.locked():
            return await self._slots.acquire()  # at once
        began_s = self._clock()
        try:
            async with asyncio.timeout(budget.left_s):
                await self._slots.acquire()
        except TimeoutError:
            budget.left_s = 0.0
            return False
        budget.left_s = max(0.0, budget.left_s - (self._clock() - began_s))
        # A look-up that begins too late delays the next one, which then begins too late as well.
        if budget.left_s <= self._usual_s:
            self._slots.release()
            budget.left_s = 0.0
            return False
        return True

    def _count(self, result: str) -> None:
        self._guard.metrics.inc(self._guard.metrics.cache_lookups, result)


class _Found(NamedTuple):
    """Result of a look-up, with `Deletions.count` as of it."""

    result: LookupResult
    since: int


def _is_long(result: StoreResult) -> bool:
    """Return whether there are enough loaded records to decode them in a thread."""
    records = sum(len(one.records or ()) for one in result.conversations)
    return records > ON_LOOP_RECORDS
