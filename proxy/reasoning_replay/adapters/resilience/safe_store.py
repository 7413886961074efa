"""
Safe store: the store interface for exchanges, which never raises, and for operators.

It makes the proxy fail open. An exchange waits for all of its operations together only as long as
its `Budget` lasts. An operation that takes longer continues in the background for `timeout_s`.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, TypeVar

from reasoning_replay.adapters.resilience.local_table import LocalTable, all_of
from reasoning_replay.adapters.resilience.reader import Reader
from reasoning_replay.adapters.resilience.store_guard import Budget, Call, StoreGuard
from reasoning_replay.adapters.resilience.writer import Writer
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import Page, Store, StoreError
from reasoning_replay.adapters.stores.trial import Trial
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.room import Room

__all__ = ["NO_TIME", "Budget", "SafeStore", "Saved"]

# Timeout of an operator's request, which may wait longer than an exchange.
OPERATOR_WAITS_S = 10.0

# For an exchange without a scope: a budget that is used up, which no operation changes.
NO_TIME = Budget(0.0)

_Got = TypeVar("_Got")


class Saved(Enum):
    """Result of a save."""

    DONE = "done"
    LATE = "late"  # not known yet: the save continues
    FAILED = (
        "failed"  # it is in the local table, and saved later if there is room for it until then
    )
    DELETED = "deleted"  # not saved: the conversation was deleted since the exchange began


class SafeStore:
    """
    The local table, and its store with one reader and one writer.

    Attributes:
        inner: The store itself; `close` closes it. None: the table is alone.
        room: Memory for what was decided about requests, and for the rows if there is a store.
    """

    def __init__(
        self,
        store: Store | None,
        guard: StoreGuard,
        table: LocalTable,
        room: Room,
        offloader: Offloader,
    ) -> None:
        self.inner = store
        self.room = room
        self._guard = guard
        self._table = table
        self._reader = Reader(self._behind, guard, table, offloader)
        self._writer = Writer(self._behind, guard, table)

    def _behind(self) -> Store:
        if self.inner is None:
            raise StoreError("there is no store")
        return self.inner

    @property
    def is_degraded(self) -> bool:
        """Whether the store failed within the last second, or has not worked since it failed."""
        return self._guard.is_degraded

    @property
    def fault(self) -> str:
        """Why it is degraded; "" while it is not."""
        return self._guard.fault

    @property
    def is_unreachable(self) -> bool:
        """Whether its last check failed. One that is full, or a replica, can still be read."""
        return "check" in self._guard.failing

    @property
    def has_failed_lately(self) -> bool:
        """As `StoreGuard.has_failed_lately`."""
        return self._guard.has_failed_lately

    @property
    def needs_check(self) -> bool:
        """Whether a check may end an outage, or save what the store did not take."""
        return self.is_degraded or self._writer.has_overdue

    # For exchanges...

    def budget(self, budget_s: float) -> Budget:
        """Return the budget of an exchange that begins now."""
        return Budget(budget_s, self._table.deletions.count)

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], budget: Budget
    ) -> LookupResult | None:
        """
        Return the stored turns for a request, within the budget of its exchange.

        If the store fails or is late, return what is here, or None if that is nothing.
        """
        if self.inner is not None:
            return await self._reader.look_up(scope, lookups, budget)

        async def find() -> LookupResult:
            rows, crowded = self._table.choose(scope, lookups)
            if rows:
                self._guard.metrics.inc(self._guard.metrics.cache_lookups, "valid")
            return LookupResult(all_of({one: rows[one].decoded() for one in rows}), crowded)

        found = await self._guard.run(Call("recall"), find, waits=False)
        if budget.since is not None and found is not None:
            budget.since = self._table.deletions.count
        return found

    def line(self, scope: bytes, conversation: bytes) -> object:
        """Return `IndexedTurns.line` of the row of a conversation; None without one."""
        return self._table.line((scope, conversation))

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

        Args:
            scope: Scope of the exchange.
            conversation: Id of the conversation.
            records: New records; those of earlier saves that failed are saved with them.
            keys: New keys -> whether they are of ids.
            budget: Budget of the exchange.
        """
        name = (scope, conversation)
        if self.is_deleted(scope, conversation, budget):
            return Saved.DELETED
        if self.inner is None:

            async def write() -> bool:
                return self._table.write(name, records, keys) is not None

            is_kept = await self._guard.run(Call("save"), write, waits=False)
            return Saved.FAILED if is_kept is None else Saved.DONE if is_kept else Saved.DELETED
        row = self._table.write(name, records, keys) if records else self._table.row(name)
        pending = self._writer.send(row, records) if row is not None else None
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
        return self._table.deletions.are_after(budget.since, (scope, conversation))

    # For operators...

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Return a page as `Store.survey` does; raise StoreError on failure or after 10 s."""
        kept = self.inner or self._table
        return await _for_operator(lambda: kept.survey(scope, cursor, limit))

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """
        Delete a conversation for good, whatever of it waits or is in flight.

        Returns:
            Whether it was stored, or this process would have stored it.

        Raises:
            StoreError: The store failed, or took over 10 s.
        """
        name = (scope, conversation)
        if self.inner is None:
            return self._table.note_deletion(name)
        self._table.deletions.note(name)
        await self._writer.settle(name)  # a later save would create the conversation again
        was_unsaved = self._table.discard(name)
        try:
            forget = partial(self.inner.forget, *name, is_final=True)
            return await _for_operator(forget) or was_unsaved
        finally:
            self._table.discard(name)  # a lookup may have loaded it meanwhile

    async def forget_scope(self, scope: bytes) -> int:
        """
        Drop all of a scope that waits or is in flight, on every replica; what is stored stays.

        Returns:
            The number of conversations that only this process had.

        Raises:
            StoreError: The store failed, or took over 10 s. Nothing is dropped.
        """
        if self.inner is None:
            return self._table.forget_scope(scope)
        unsaved = self._table.count_unsaved(scope)
        mark = await _for_operator(partial(self.inner.mark, scope))
        self._table.note_scope(scope, mark)
        return unsaved

    async def measure(self) -> None:
        """Update the metrics of the store's use; if it cannot be read, they are absent."""
        usage = None
        with contextlib.suppress(StoreError):
            usage = await (self.inner or self._table).usage()
        self._guard.metrics.show_usage(usage)

    async def check(self) -> bool:
        """Return whether the store works; this also asks it while its breakers are open."""
        if (store := self.inner) is None:
            return True

        # What failed is tried here as well, where no exchange is involved.
        await self._reader.probe()
        is_there = await self._guard.run(Call("check"), partial(_done, store.check))
        if is_there:
            await self._writer.probe()
        # A store that responds to PING may still fail its operations.
        return bool(is_there) and not self.is_degraded

    async def meet(self, own: bytes) -> Sequence[bytes]:
        """Return what `Store.meet` does; () if the store fails."""
        if self.inner is None:
            return ()
        with contextlib.suppress(StoreError):
            return await _for_operator(partial(self.inner.meet, own))
        return ()

    async def trial(self) -> str:
        """
        Save a test turn, look it up and delete it, with the operations of exchanges.

        Returns:
            Why the first of them failed; "" if all of them work.
        """
        if self.inner is None:
            return ""
        trial = Trial(self.inner)
        for operation, act in trial.steps.items():
            if await self._guard.run(Call(operation), partial(_done, act)) is None:
                return self._guard.fault
        with contextlib.suppress(StoreError, TimeoutError):  # then it expires
            async with asyncio.timeout(self._guard.timeout_s):
                await trial.delete()
        return ""

    async def close(self) -> None:
        """Wait up to `timeout_s` for operations and for what is not saved, then close the store."""
        self._writer.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._guard.timeout_s):
                while tasks := self.tasks:
                    await asyncio.wait(tasks)
        tasks = self.tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.inner is not None:
            await self.inner.close()

    @property
    def tasks(self) -> "list[asyncio.Task[Any]]":
        """Unfinished operations."""
        return [*self._reader.tasks, *self._writer.tasks]


async def _done(act: Callable[[], Awaitable[object]]) -> bool:
    """Run an operation of which only the success counts."""
    await act()
    return True


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
