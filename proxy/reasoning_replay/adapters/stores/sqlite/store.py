"""
SQLite store: a file that processes on one machine share.

One thread reads and one writes, so that the event loop never waits for a disk. A lookup writes
rarely: only to extend the expiry of its conversations, and only if it has moved far enough.
"""

import asyncio
import contextlib
import secrets
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from reasoning_replay.adapters.stores.base import (
    MET_S,
    SCOPE_ITSELF,
    VERSION_BITS,
    BadCursor,
    Bounds,
    Codec,
    ConversationInfo,
    Deleted,
    Name,
    Page,
    Store,
    StoredConversation,
    StoreError,
    StoreResult,
    StoreUsage,
    VersionChange,
    decoded,
    encoded,
)
from reasoning_replay.adapters.stores.sqlite.file import SqliteFile, transaction
from reasoning_replay.adapters.stores.sqlite.rows import (
    Row,
    add,
    begin,
    drop_expired,
    lead,
    led_to,
    make_room,
    marks_of,
    maybe_deleted,
    rows_of,
    trim,
    used_bytes,
)
from reasoning_replay.core.history.lookup_keys import Lookup, choose

T = TypeVar("T")

# A new expiry is written only if it is later by this, or by a hundredth of the TTL if that is less.
NOTICED_S = 60.0
# Limit on the write-ahead log, or a quarter of the limit on the store if that is more. sqlite
# empties the log by itself at 4 MiB, unless a program has a read transaction open.
LOG_MAX_BYTES = 32 << 20
# Most pending expiries, as while the file is locked; further ones are skipped.
NOTED_AT_ONCE = 1000
# In place of a scope, which has 16 bytes: the marks of processes.
PROCESSES = b"processes"
_MARK = "INSERT OR REPLACE INTO marks (scope, conversation, mark, expires_at) VALUES (?, ?, ?, ?)"


class SqliteStore(Store):
    """Store in a SQLite file; every failure is a StoreError."""

    def __init__(  # noqa: PLR0913 - each is one fact of the file
        self,
        path: str,
        bounds: Bounds,
        max_bytes: int,
        timeout_s: float,
        clock: Callable[[], float],
        *,
        codec: Codec | None = None,
        on_aside: Callable[[Path, str], None] | None = None,
    ) -> None:
        """
        Prepare the store; the file is opened on first use.

        Args:
            path: Path of the file, which is created if it does not exist. Its directory must exist.
            bounds: Limits of each conversation.
            max_bytes: Limit on the stored data; the file may contain free pages in addition.
            timeout_s: Half of it is the longest wait for another process that writes.
            clock: Seconds since the epoch, as processes share the file.
            codec: Stored form of values; None: plain.
            on_aside: As for `SqliteFile`.
        """
        self._bounds = bounds
        self._max_bytes = max_bytes
        self._clock = clock
        self.codec = codec
        self._log_max_bytes = max(LOG_MAX_BYTES, max_bytes // 4)
        self._read_file = SqliteFile(path, timeout_s / 2, on_aside)
        self._write_file = SqliteFile(path, timeout_s / 2, on_aside)
        self._evicted = 0  # written by the writer's thread
        self._noted: dict[int, float] = {}  # rows whose expiry is to be written
        self._is_noting = False  # whether the writer's thread has yet to take them
        self._reader = ThreadPoolExecutor(1, "sqlite-reader")
        self._writer = ThreadPoolExecutor(1, "sqlite-writer")

    @override
    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        keys = list(dict.fromkeys(key for item in lookups for key in item.keys))
        if not (keys or held):
            return StoreResult()
        now = self._clock()
        before = dict(held)

        def read(db: sqlite3.Connection) -> tuple[StoreResult, list[Row]]:
            with transaction(db, "DEFERRED"):
                rows, found = led_to(db, scope, keys, now)
                choice = choose(lookups, found.__getitem__)
                rows |= rows_of(db, scope, held, now)
                chosen = dict.fromkeys([*choice.conversations, *held])
                used = {name: rows[name] for name in chosen if name in rows}
                kept = [
                    StoredConversation(
                        name,
                        row.version,
                        None
                        if row.version in (before.get(name), held.get(name))
                        else self._records(db, (scope, name), row),
                    )
                    for name, row in used.items()
                ]
                marks = marks_of(db, scope, [SCOPE_ITSELF, *held], now)
                of_scope = marks.pop(SCOPE_ITSELF, b"")
                result = StoreResult(kept, choice.crowded, marks.keys(), of_scope)
                return result, list(used.values())

        result, used = await self._reads(read)
        self._note_use(used, now)
        return result

    @override
    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        values = encoded(self.codec, name, records)
        now = self._clock()

        def write(db: sqlite3.Connection) -> VersionChange | Deleted:
            after = secrets.randbits(VERSION_BITS)
            self._write_file.bound_log(db, self._log_max_bytes)
            with transaction(db):
                drop_expired(db, "conversations", now)
                if (deleted := maybe_deleted(db, name, mark, now)) is not None:
                    return deleted
                kept, before = begin(db, name, now + self._bounds.ttl_s, now)
                add(db, kept, values, after)
                is_trimmed = trim(db, kept, self._bounds)
                for key in keys:
                    lead(db, name[0], key, kept, now)
                evicted = make_room(db, self._max_bytes, now)
            self._evicted += evicted
            return VersionChange(None if is_trimmed else before, after)

        saved = await self._writes(write)
        if isinstance(saved, Deleted):
            raise saved
        return saved

    @override
    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        # The cursor is the last row of the previous page.
        if not (cursor == "" or (cursor.isascii() and cursor.isdigit())):
            raise BadCursor
        now = self._clock()

        def read(db: sqlite3.Connection) -> Page:
            rows = db.execute(
                "SELECT id, scope, conversation, turns, record_bytes, expires_at"
                " FROM conversations"
                " WHERE id > ? AND expires_at > ? AND (? IS NULL OR scope = ?) ORDER BY id LIMIT ?",
                (min(int(cursor or 0), 2**63 - 1), now, scope, scope, limit),
            ).fetchall()
            kept = [
                ConversationInfo(a, b, turns, size, int(ends - now))
                for _, a, b, turns, size, ends in rows
            ]
            return Page(kept, str(rows[-1][0]) if rows and len(rows) == limit else "")

        return await self._reads(read)

    @override
    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        # Overwrite deleted data, and truncate the log if possible.
        now = self._clock()

        def write(db: sqlite3.Connection) -> bool:
            db.execute("PRAGMA secure_delete = ON")
            try:
                with transaction(db):
                    if is_final:
                        self._add_mark(db, (scope, conversation), now)
                    was_there = rows_of(db, scope, {conversation: 0}, now)
                    db.execute(
                        "DELETE FROM conversations WHERE scope = ? AND conversation = ?",
                        (scope, conversation),
                    )
            finally:
                db.execute("PRAGMA secure_delete = OFF")
            # While another connection reads, the log is not truncated; it is overwritten later.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return bool(was_there)

        return await self._writes(write)

    @override
    async def mark(self, scope: bytes) -> bytes:
        now = self._clock()

        def write(db: sqlite3.Connection) -> bytes:
            with transaction(db):
                return self._add_mark(db, (scope, SCOPE_ITSELF), now)

        return await self._writes(write)

    @override
    async def meet(self, own: bytes) -> Sequence[bytes]:
        # A mark of a process has its bytes in place of a conversation's id.
        now = self._clock()

        def write(db: sqlite3.Connection) -> list[bytes]:
            with transaction(db):
                drop_expired(db, "marks", now)
                db.execute(_MARK, (PROCESSES, own, b"", now + MET_S))
                met = db.execute(
                    "SELECT conversation FROM marks WHERE scope = ? AND expires_at > ?",
                    (PROCESSES, now),
                )
                return [mark for (mark,) in met]

        return await self._writes(write)

    @override
    async def usage(self) -> StoreUsage:
        # The size includes expired conversations that are not dropped yet.
        # Cost: some milliseconds of the reader's thread for each 100,000 conversations.
        now = self._clock()

        def read(db: sqlite3.Connection) -> StoreUsage:
            (count,) = db.execute(
                "SELECT count(*) FROM conversations WHERE expires_at > ?", (now,)
            ).fetchone()
            return StoreUsage(used_bytes(db), self._max_bytes, count, self._evicted)

        return await self._reads(read)

    @override
    async def check(self) -> None:
        await self._reads(lambda db: db.execute("SELECT 1 FROM conversations LIMIT 1").fetchone())

    @override
    async def close(self) -> None:
        # Running operations finish first.
        for thread, file in ((self._reader, self._read_file), (self._writer, self._write_file)):
            with contextlib.suppress(RuntimeError):  # it was closed before
                thread.submit(file.close)
            await asyncio.to_thread(thread.shutdown)

    async def _reads(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(self._reader, self._read_file, work)

    async def _writes(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(self._writer, self._write_file, work)

    async def _run(
        self, thread: ThreadPoolExecutor, file: SqliteFile, work: Callable[[sqlite3.Connection], T]
    ) -> T:
        try:
            future = thread.submit(file.do, work)
        except RuntimeError:
            raise StoreError("sqlite: the store is closed") from None
        return await asyncio.wrap_future(future)

    def _records(self, db: sqlite3.Connection, name: Name, row: Row) -> dict[bytes, bytes]:
        kept = db.execute("SELECT name, value FROM records WHERE conversation_id = ?", (row.id,))
        return decoded(self.codec, name, dict(kept))

    def _add_mark(self, db: sqlite3.Connection, name: Name, now: float) -> bytes:
        """Mark a deletion, and return the mark."""
        drop_expired(db, "marks", now)
        mark = secrets.token_bytes(16)
        db.execute(_MARK, (*name, mark, now + self._bounds.marked_s))
        return mark

    def _note_use(self, used: Sequence[Row], now: float) -> None:
        """Extend the expiry of used conversations in the background, all in one write."""
        expires_at = now + self._bounds.ttl_s
        noticed_s = min(NOTICED_S, self._bounds.ttl_s / 100)
        for row in used:
            if expires_at - row.expires_at > noticed_s and len(self._noted) < NOTED_AT_ONCE:
                self._noted[row.id] = expires_at
        if self._noted and not self._is_noting:
            self._is_noting = True
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._writer.submit(self._extend)

    def _extend(self) -> None:
        """Write the noted expiries; if that fails, these conversations expire a little earlier."""
        self._is_noting = False  # before they are taken: one that is noted meanwhile is not lost
        noted, self._noted = self._noted, {}
        rows = [(expires_at, row) for row, expires_at in list(noted.items())]

        def write(db: sqlite3.Connection) -> None:
            self._write_file.bound_log(db, self._log_max_bytes)
            with transaction(db):
                db.executemany(
                    "UPDATE conversations SET expires_at = max(expires_at, ?) WHERE id = ?", rows
                )

        self._write_file.do(write)
