"""
Writer: sends what is unsaved in the local table to the store, one batch of a row at a time.

It holds no records: a row says itself what the store may lack. Records that are added while a batch
is written are in the next one. Those of a failed save are written with the next save of their
conversation, or when the store is back.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from reasoning_replay.adapters.resilience.circuit_breaker import Permit
from reasoning_replay.adapters.resilience.conversation import Batch, Conversation, Standing
from reasoning_replay.adapters.resilience.local_table import LocalTable
from reasoning_replay.adapters.resilience.reader import NO_SCOPE
from reasoning_replay.adapters.resilience.store_guard import AT_ONCE, Call, StoreGuard
from reasoning_replay.adapters.stores.base import Deleted, Name, Store, VersionChange

# A save is skipped while this many saves or bytes of saves are unfinished.
SAVES_MAX = 1024
SAVES_MAX_BYTES = 32 << 20
# When the store is back, this many conversations at once are saved that it did not take before.
OVERDUE_AT_ONCE = 4


class Writer:
    """
    The one writer of a store, with the circuit breaker of saves.

    Attributes:
        tasks: Unfinished saves, with their conversations.
    """

    def __init__(self, store: Callable[[], Store], guard: StoreGuard, table: LocalTable) -> None:
        self._store = store
        self._guard = guard
        self._breaker = guard.breakers["save"]
        self._table = table
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._unsaved_bytes = 0
        self._overdue_saves = 0
        self._is_closing = False
        # May have records for which no save is pending. One that the table has evicted leaves.
        self._overdue: WeakValueDictionary[Name, Conversation] = WeakValueDictionary()
        self.tasks: dict[asyncio.Task[bool], Name] = {}

    @property
    def has_overdue(self) -> bool:
        """Whether `send_overdue` may find something to save."""
        return bool(self._overdue)

    def send(
        self, row: Conversation, records: Mapping[bytes, bytes]
    ) -> tuple[Call, asyncio.Task[bool]] | None:
        """
        Begin the save of a row to which these records were added, if none is pending.

        Returns:
            The save; None if too many are unfinished, or the store fails: a later one has them.
        """
        batch = row.waiting
        size = sum(map(len, records.values()))
        is_full = len(self.tasks) >= SAVES_MAX or self._unsaved_bytes + size > SAVES_MAX_BYTES
        if is_full or not self._breaker.is_due:
            self._guard.count("save", "skipped")
            self._note_overdue(row)
            return None
        task = batch.task or self._begin(row)
        batch.new_bytes += size
        self._unsaved_bytes += size
        batch.call.is_awaited, batch.call.is_late, batch.is_overdue = True, False, False
        return batch.call, task

    def send_overdue(self) -> None:
        """Begin to save what the store did not take before, a few conversations at once."""
        at_once = OVERDUE_AT_ONCE if self._breaker.is_closed or self._is_closing else 1  # a probe
        if not (self._breaker.is_due or self._is_closing):
            return
        while self._overdue_saves < at_once and self._overdue:
            row = self._overdue.pop(next(iter(self._overdue)))
            if row.waiting and row.waiting.task is None:
                row.waiting.is_overdue = row.waiting.call.is_late = True
                self._overdue_saves += 1
                self._begin(row).add_done_callback(self._overdue_ended)

    async def probe(self) -> None:
        """Save what is overdue, or else nothing, if saves fail and their breaker allows that."""
        if self._overdue:
            self.send_overdue()
            return
        if "save" not in self._guard.failing or (permit := self._breaker.allow()) is Permit.SKIP:
            return

        async def save() -> None:
            name = (NO_SCOPE, secrets.token_bytes(len(NO_SCOPE)))
            await self._store().save(name, {}, [])
            await self._store().forget(*name)

        await self._guard.run(Call("save", permit, self._guard.clock()), save)

    async def settle(self, name: Name) -> None:
        """Wait until no save of a conversation is unfinished, or they take too long."""
        saves = [task for task, saved in self.tasks.items() if saved == name]
        if saves:
            # Each ends within two timeouts: an exchange waits for it, and then it has its own.
            await asyncio.wait(saves, timeout=2 * self._guard.timeout_s)

    def close(self) -> None:
        """Begin to save all that is not saved, also while the breaker is open."""
        self._is_closing = True
        self.send_overdue()

    def _note_overdue(self, row: Conversation) -> None:
        if row.waiting and row.waiting.task is None:
            self._overdue[row.name] = row

    def _begin(self, row: Conversation) -> asyncio.Task[bool]:
        task = row.waiting.task = asyncio.ensure_future(self._send(row, row.waiting))
        self.tasks[task] = row.name
        task.add_done_callback(self.tasks.pop)
        return task

    def _overdue_ended(self, task: asyncio.Task[bool]) -> None:
        self._overdue_saves -= 1
        if not task.cancelled() and task.result():
            self.send_overdue()  # else the next check begins again, with another conversation

    async def _send(self, row: Conversation, batch: Batch) -> bool:
        """Save a batch after the previous save of its row has ended."""
        try:
            if row.saving is not None and row.saving.task is not None:
                await asyncio.wait([row.saving.task])
            async with self._slots:
                if not batch:  # its conversation was deleted, or another save had all of it
                    return row.is_stored
                permit = Permit.GO if self._is_closing else self._breaker.allow()
                if permit is Permit.SKIP:
                    self._guard.count("save", "skipped")
                    return False
                batch.call.permit, batch.call.began_s = permit, self._guard.clock()
                is_saved = await self._write(row)
                if is_saved and permit is Permit.PROBE:
                    self.send_overdue()
                return is_saved
        finally:
            self._unsaved_bytes -= batch.new_bytes
            batch.task, batch.call, batch.new_bytes = None, Call("save"), 0
            self._note_overdue(row)

    async def _write(self, row: Conversation) -> bool:
        """Write a batch, unless it is overdue and its conversation was deleted meanwhile."""
        batch, is_gone = row.begin_save(), False
        deleted: Deleted | None = None

        async def act() -> VersionChange | None:
            nonlocal is_gone, deleted
            scope, conversation = row.name
            if batch.is_overdue and row.is_stored:
                held = {conversation: row.known_version}
                is_gone = not (await self._store().look_up(scope, (), held)).conversations
            if is_gone or row.standing is Standing.DELETED:
                return None
            mark, is_stored = self._table.deletions.mark(scope), row.is_stored
            try:
                saved = await self._store().save(
                    row.name, batch.records, batch.keys, mark, is_stored=is_stored
                )
                return VersionChange(*saved)  # a bug in a store may also be what it returns
            except Deleted as told:
                deleted = told
                return None

        change: VersionChange | None = None
        try:
            change = await self._guard.run(batch.call, act)
        finally:
            self._table.end_save(row, change)
        if is_gone:
            self._table.discard(row.name)
        if deleted is not None:
            self._table.note_deletion(row.name)
            self._table.note_scope(row.name[0], deleted.mark)
        return change is not None or is_gone or deleted is not None
