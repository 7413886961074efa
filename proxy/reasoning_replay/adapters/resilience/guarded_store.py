"""
A store that cannot hurt: waiting is bounded, failures are swallowed, and left alone for a while.

This is promise 2, fail open: whatever happens in a store, the exchange goes on without it.

Two times bound it. One operation may take `timeout_s`; then it has failed. An exchange waits only
as long as its `Budget` lasts, all in all; what takes longer goes on without it. An operation is
never cancelled because nobody waits any more: that would cost it its connection.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from reasoning_replay.adapters.resilience.circuit_breaker import Permit
from reasoning_replay.adapters.resilience.safe_store import Budget, Saved
from reasoning_replay.adapters.resilience.store_calls import StoreCall, StoreCalls
from reasoning_replay.adapters.resilience.write_behind import SaveQueue, Snapshot
from reasoning_replay.adapters.stores.base import Page, Store, StoreError
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.turns import Turn

__all__ = ["Budget", "GuardedStore", "Saved"]

# Recalls under way at once, and saves. One loop does all the work: with more, each finds its time
# passed while it waits for the others; with fewer, a Redis that is some ms away is not made use of.
# (30 clients on a busy machine, 0 to 15 ms away: 4 is best at 0, 16 at 15.) A recall from Redis is
# two round trips: one that is 20 ms away gives 16 / (2 * 20 ms) = 400 a second, and not more.
AT_ONCE = 16
# An operator may wait longer than an exchange.
OPERATOR_WAITS_S = 10.0
# What nothing is ever kept under.
NOBODY = bytes(16)
NOTHING = (Lookup(0, [bytes(16)]),)

_Got = TypeVar("_Got")


class GuardedStore:
    """
    Does what the store does, in time, or nothing.

    Attributes:
        inner: The store itself.
        tell: Told of each save that ended, and whether the turn is kept; for one listener.
    """

    def __init__(
        self,
        store: Store,
        timeout_s: float,
        metrics: Metrics,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        """
        Guard a store.

        Args:
            store: Owned from here on; `close` closes it.
            timeout_s: For each operation, once it is its turn.
            metrics: Counts operations by outcome.
            log: Told once when the store fails, and once when it is back.
            clock: Seconds, never going backwards.
        """
        self.inner = store
        self.tell: Callable[[bytes, Turn, bool], None] = _nobody
        self._timeout_s = timeout_s
        self._trials = StoreCalls(metrics, log, clock)
        self._clock = clock
        self._allowed_s: float | None = None
        self._usual_s = 0.0  # what recalls took lately
        self._came_at = float("-inf")
        self._recalls = asyncio.Semaphore(AT_ONCE)
        self._recalling: set[asyncio.Task[LookupResult | None]] = set()
        self._saves = SaveQueue(self._save, self._told, asyncio.Semaphore(AT_ONCE), timeout_s)

    async def recall(
        self, scope: bytes, asked: Sequence[Lookup], budget: Budget
    ) -> LookupResult | None:
        """As `SafeStore.recall`."""
        if self._is_embedded:
            return await self._trials.run(
                StoreCall("recall"), lambda: self.inner.recall(scope, asked), None
            )

        async def act() -> LookupResult:
            began = self._clock()
            found = await self.inner.recall(scope, asked)
            self._came_at = self._clock()
            self._usual_s += (self._came_at - began - self._usual_s) / 8
            return found

        how = self._trials.breakers["recall"].ask() if budget.left_s > 0 else Permit.SKIP
        if how is Permit.SKIP:
            self._trials.count("recall", "skipped")
            return None
        self._allowed_s = budget.whole_s
        trial = StoreCall("recall", how, self._clock(), self._allowed_s)
        if how is Permit.PROBE:
            self._begin(trial, act)  # nobody waits to hear that the store is still away
            trial.is_late = True
            return None
        if not await self._turn_comes(budget):
            self._trials.count("recall", "late")
            # While others came back we were busy, which says nothing of the store.
            self._trials.miss(trial, is_whole=self._came_at < trial.began)
            return None
        is_whole = budget.left_s == budget.whole_s
        task = self._begin(trial, act)
        task.add_done_callback(lambda _: self._recalls.release())
        if await self._wait(task, budget):
            return task.result()
        trial.is_late = True
        self._trials.miss(trial, is_whole=is_whole)
        return None

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes], budget: Budget) -> Saved:
        """As `SafeStore.save`."""
        if self._is_embedded:
            trial = StoreCall("save")
            await self._trials.run(trial, lambda: self.inner.save(scope, turn, keys), None)
            return Saved.FAILED if trial.has_failed else Saved.DONE
        snapshot = self.begin_save(scope, turn, keys)
        if snapshot is None:
            return Saved.FAILED
        # The one that tries for all is not waited for.
        is_tried = self._trials.breakers["save"].is_closed
        if is_tried and await self._wait(snapshot.kept, budget):
            return Saved.DONE if snapshot.kept.result() else Saved.FAILED
        snapshot.is_late = True
        return Saved.LATE

    def begin_save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> Snapshot | None:
        """Save a turn in the background; None when that is not even tried."""
        if self._trials.breakers["save"].is_due:
            snapshot = self._saves.add(scope, turn, keys)
        else:
            snapshot = None
            self._saves.lose(scope, turn, keys)
        if snapshot is None:
            self._trials.count("save", "skipped")
        return snapshot

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As `SafeStore.survey`."""
        return await _for_operator(lambda: self.inner.survey(scope, cursor, limit))

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As `SafeStore.forget`."""
        # What is about to be saved would make it anew.
        await self._saves.withdraw(scope, conversation, self._timeout_s)
        return await _for_operator(lambda: self.inner.forget(scope, conversation))

    def drop(self, scope: bytes, conversation: bytes) -> None:
        """As `SafeStore.drop`: what is still to be saved."""
        self._saves.drop(scope, conversation)

    async def check(self) -> bool:
        """As `SafeStore.check`."""

        async def check() -> bool:
            await self.inner.check()
            return True

        # Where it is time to try a recall again, this is what no client has to wait for.
        if self._trials.breakers["recall"].ask() is Permit.PROBE:
            trial = StoreCall("recall", Permit.PROBE, allowed_s=self._allowed_s)
            await self._trials.run(
                trial, lambda: self.inner.recall(NOBODY, NOTHING), self._timeout_s
            )
        is_there = await self._trials.run(StoreCall("check"), check, self._timeout_s)
        # A store that answers a PING while it fails at its work is not well.
        return bool(is_there) and not self.is_degraded

    async def close(self) -> None:
        """As `SafeStore.close`."""
        self._saves.hurry()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_s):
                while under_way := [*self._recalling, *self._saves.tasks]:
                    await asyncio.wait(under_way)
        left = [*self._recalling, *self._saves.tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self.inner.close()

    @property
    def is_degraded(self) -> bool:
        """As `SafeStore.is_degraded`."""
        return self._trials.is_degraded

    @property
    def _is_embedded(self) -> bool:
        """Whether the store never waits: then neither a task nor a timeout is worth its cost."""
        return isinstance(self.inner, MemoryStore)

    # Waiting...

    async def _turn_comes(self, budget: Budget) -> bool:
        """Wait until one more may be under way; False when the budget was used up before."""
        if not self._recalls.locked():
            return await self._recalls.acquire()  # at once
        began = self._clock()
        try:
            async with asyncio.timeout(budget.left_s):
                await self._recalls.acquire()
        except TimeoutError:
            budget.left_s = 0.0
            return False
        budget.left_s = max(0.0, budget.left_s - (self._clock() - began))
        # To begin what will be late would keep the next from beginning in time, and so on.
        if budget.left_s <= self._usual_s:
            self._recalls.release()
            budget.left_s = 0.0
            return False
        return True

    async def _wait(self, under_way: asyncio.Future[_Got], budget: Budget) -> bool:
        """Wait for as long as the budget lasts; tell whether it is done."""
        if budget.left_s > 0:
            began = self._clock()
            await asyncio.wait([under_way], timeout=budget.left_s)
            budget.left_s = max(0.0, budget.left_s - (self._clock() - began))
        if not under_way.done():
            budget.left_s = 0.0
        return under_way.done()

    # Trying...

    def _begin(
        self, trial: StoreCall, act: Callable[[], Awaitable[LookupResult]]
    ) -> asyncio.Task[LookupResult | None]:
        task = asyncio.ensure_future(self._trials.run(trial, act, self._timeout_s))
        self._recalling.add(task)
        task.add_done_callback(self._recalling.discard)
        return task

    async def _save(self, snapshot: Snapshot) -> bool:
        how = self._trials.breakers["save"].ask()
        if how is Permit.SKIP:
            self._trials.count("save", "skipped")
            return False
        trial = StoreCall("save", how)
        snapshot.is_tried = True

        async def act() -> bool:
            kept = await self._save_in(snapshot.scope, snapshot.turn, [*snapshot.keys])
            trial.is_late = snapshot.is_late
            return kept

        return bool(await self._trials.run(trial, act, self._timeout_s))

    def _told(self, scope: bytes, turn: Turn, is_kept: bool) -> None:  # noqa: FBT001
        self.tell(scope, turn, is_kept)

    async def _save_in(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> bool:
        await self.inner.save(scope, turn, keys)
        return True


def _nobody(scope: bytes, turn: Turn, is_kept: bool) -> None:  # noqa: FBT001
    """Listen to nothing."""


async def _for_operator(act: Callable[[], Awaitable[_Got]]) -> _Got:
    """Let an operator ask something; every failure is a StoreError."""
    try:
        async with asyncio.timeout(OPERATOR_WAITS_S):
            return await act()
    except StoreError:
        raise
    except TimeoutError as error:
        raise StoreError(f"no answer within {OPERATOR_WAITS_S:.0f} s") from error
    except Exception as error:
        raise StoreError(type(error).__name__) from error
