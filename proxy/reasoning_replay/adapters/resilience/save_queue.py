"""
Save queue: writes records to the store in the background, one batch of a conversation at a time.

Records that are added while a batch is written are in the next one. Those of a failed save are
written with the next save of their conversation, or when the store is back.
"""

import asyncio
from collections.abc import Callable, Mapping
from weakref import WeakValueDictionary

from reasoning_replay.adapters.resilience.cache_entry import Batch, CacheEntry
from reasoning_replay.adapters.resilience.circuit_breaker import Permit
from reasoning_replay.adapters.resilience.conversation_cache import ConversationCache
from reasoning_replay.adapters.resilience.store_guard import AT_ONCE, Call, StoreGuard
from reasoning_replay.adapters.stores.base import Deleted, Name, Store, VersionChange

# A save is skipped while this many saves or bytes of saves are unfinished.
SAVES_MAX = 1024
SAVES_MAX_BYTES = 32 << 20
# When the store is back, this many conversations at once are saved that it did not take before.
OVERDUE_AT_ONCE = 4


class SaveQueue:
    """
    Queue of saves; the records are in the cache, so they are found before they are saved.

    Attributes:
        tasks: Unfinished saves, with their conversations.
    """

    def __init__(
        self, store: Callable[[], Store], guard: StoreGuard, cache: ConversationCache
    ) -> None:
        self._store = store
        self._guard = guard
        self._breaker = guard.breakers["save"]
        self._cache = cache
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._unsaved_bytes = 0
        self._overdue_saves = 0
        self._is_closing = False
        # May have records for which no save is pending. One that the cache has evicted leaves.
        self._overdue: WeakValueDictionary[Name, CacheEntry] = WeakValueDictionary()
        self.tasks: dict[asyncio.Task[bool], Name] = {}

    @property
    def has_overdue(self) -> bool:
        """Whether `put_overdue` may find something to save."""
        return bool(self._overdue)

    def put(
        self, name: Name, records: Mapping[bytes, bytes], keys: Mapping[bytes, bool]
    ) -> tuple[Call, asyncio.Task[bool]] | None:
        """
        Add records to the next batch of a conversation, and begin its save if none is pending.

        Returns:
            The save; None if the queue is full, or the store fails. A later save has the records.
        """
        entry = self._cache.add(name, records, keys)
        batch = entry.waiting
        size = sum(map(len, records.values()))
        is_full = len(self.tasks) >= SAVES_MAX or self._unsaved_bytes + size > SAVES_MAX_BYTES
        if is_full or not self._breaker.is_due:
            self._guard.count("save", "skipped")
            self._note_overdue(name, entry)
            return None
        task = batch.task or self._begin(name, entry)
        batch.size_bytes += size
        self._unsaved_bytes += size
        batch.call.is_awaited, batch.call.is_late, batch.is_overdue = True, False, False
        return batch.call, task

    def put_overdue(self) -> None:
        """Begin to save what the store did not take before, a few conversations at once."""
        at_once = OVERDUE_AT_ONCE if self._breaker.is_closed or self._is_closing else 1  # a probe
        if not (self._breaker.is_due or self._is_closing):
            return
        while self._overdue_saves < at_once and self._overdue:
            name = next(iter(self._overdue))
            del self._overdue[name]
            entry = self._cache.entry(name)
            if entry is not None and entry.waiting and entry.waiting.task is None:
                entry.waiting.is_overdue = entry.waiting.call.is_late = True
                self._overdue_saves += 1
                self._begin(name, entry).add_done_callback(self._overdue_ended)

    def close(self) -> None:
        """Begin to save what is not saved, also while the breaker is open."""
        self._is_closing = True
        self.put_overdue()

    def _note_overdue(self, name: Name, entry: CacheEntry) -> None:
        if entry.waiting and entry.waiting.task is None:
            self._overdue[name] = entry

    def _begin(self, name: Name, entry: CacheEntry) -> asyncio.Task[bool]:
        task = entry.waiting.task = asyncio.ensure_future(self._save(name, entry, entry.waiting))
        self.tasks[task] = name
        task.add_done_callback(self.tasks.pop)
        return task

    def _overdue_ended(self, task: asyncio.Task[bool]) -> None:
        self._overdue_saves -= 1
        if not task.cancelled() and task.result():
            self.put_overdue()  # else the next check begins again, with another conversation

    async def _save(self, name: Name, entry: CacheEntry, batch: Batch) -> bool:
        """Save a batch after the previous save of its conversation has ended."""
        try:
            if entry.saving is not None and entry.saving.task is not None:
                await asyncio.wait([entry.saving.task])
            async with self._slots:
                if not batch:  # its conversation was deleted
                    return False
                permit = Permit.GO if self._is_closing else self._breaker.allow()
                if permit is Permit.SKIP:
                    self._guard.count("save", "skipped")
                    return False
                batch.call.permit, batch.call.began_s = permit, self._guard.clock()
                is_saved = await self._write(name, entry)
                if is_saved and permit is Permit.PROBE:
                    self.put_overdue()
                return is_saved
        finally:
            self._unsaved_bytes -= batch.size_bytes
            batch.task, batch.call, batch.size_bytes = None, Call("save"), 0
            self._note_overdue(name, entry)

    async def _write(self, name: Name, entry: CacheEntry) -> bool:
        """Write a batch, unless it is overdue and its conversation was deleted meanwhile."""
        batch, is_deleted = entry.begin_save(), False
        deleted: Deleted | None = None

        async def act() -> VersionChange | None:
            nonlocal is_deleted, deleted
            if batch.is_overdue and entry.is_stored:
                held = {name[1]: entry.version}
                found = await self._store().look_up(name[0], (), held)
                is_deleted = not found.conversations
            if is_deleted:
                return None
            mark, is_stored = self._cache.deletions.mark(name[0]), entry.is_stored
            try:
                saved = await self._store().save(
                    name, batch.records, batch.keys, mark, is_stored=is_stored
                )
                return VersionChange(*saved)  # a bug in a store may also be what it returns
            except Deleted as told:
                deleted = told
                return None

        change: VersionChange | None = None
        try:
            change = await self._guard.run(batch.call, act)
        finally:
            self._cache.end_save(name, entry, change)
        if is_deleted:
            self._cache.discard(name)
        if deleted is not None:
            self._cache.note_deletion(name)
            self._cache.note_scope(name[0], deleted.mark)
        return change is not None or is_deleted or deleted is not None
