"""
SQLite store: a file that processes on one machine share.

One thread reads and one writes, so that the event loop never waits for a disk. A lookup writes
rarely: only to extend the expiry of its conversations, and only if it has moved far enough.
"""

import asyncio
import contextlib
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from typing_extensions import override

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
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
from reasoning_replay.adapters.stores.sqlite_file import SqliteFile, transaction
from reasoning_replay.adapters.stores.sqlite_room import (
    drop_expired,
    drop_expired_marks,
    make_room,
    trim,
    used_bytes,
)
from reasoning_replay.core.history.lookup_keys import Lookup, choose
from reasoning_replay.core.history.records import turn_of_record

T = TypeVar("T")

# A new expiry is written only if it is later by this, or by a hundredth of the TTL if that is less.
NOTICED_S = 60.0
# Limit on the write-ahead log, or a quarter of the limit on the store if that is more. sqlite
# empties the log by itself at 4 MiB, unless a program has a read transaction open.
LOG_MAX_BYTES = 32 << 20
# Most pending expiries, as while the file is locked; further ones are skipped.
NOTED_AT_ONCE = 1000


class _Row(NamedTuple):
    """Row of a conversation."""

    id: int
    version: int
    expires_at: float


class SqliteStore(Store):
    """Store in a SQLite file; every failure is a StoreError."""

    is_embedded = False

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

        def read(db: sqlite3.Connection) -> tuple[StoreResult, list[_Row]]:
            with transaction(db, "DEFERRED"):
                rows, found = _led_to(db, scope, keys, now)
                choice = choose(lookups, found.__getitem__)
                rows |= _rows_of(db, scope, held, now)
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
                marks = _marks_of(db, scope, [SCOPE_ITSELF, *held], now)
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
        keys: Sequence[bytes],
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
                drop_expired(db, now)
                if (deleted := _maybe_deleted(db, name, mark, now)) is not None:
                    return deleted
                kept, before = _begin(db, name, now + self._bounds.ttl_s, now)
                _add(db, kept, values, after)
                is_trimmed = trim(db, kept, self._bounds)
                for key in keys:
                    _lead(db, name[0], key, kept, now)
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
                    was_there = _rows_of(db, scope, {conversation: 0}, now)
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

    def _records(self, db: sqlite3.Connection, name: Name, row: _Row) -> dict[bytes, bytes]:
        kept = db.execute("SELECT name, value FROM records WHERE conversation_id = ?", (row.id,))
        return decoded(self.codec, name, dict(kept))

    def _add_mark(self, db: sqlite3.Connection, name: Name, now: float) -> bytes:
        """Mark a deletion, and return the mark."""
        drop_expired_marks(db, now)
        mark = secrets.token_bytes(16)
        db.execute(
            "INSERT OR REPLACE INTO marks (scope, conversation, mark, expires_at)"
            " VALUES (?, ?, ?, ?)",
            (*name, mark, now + self._bounds.marked_s),
        )
        return mark

    def _note_use(self, used: Sequence[_Row], now: float) -> None:
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


def _led_to(
    db: sqlite3.Connection, scope: bytes, keys: Sequence[bytes], now: float
) -> tuple[dict[bytes, _Row], dict[bytes, list[bytes]]]:
    """Return the rows that keys lead to, and the conversations of each key, newest last."""
    rows: dict[bytes, _Row] = {}
    found: dict[bytes, list[bytes]] = {key: [] for key in keys}
    # The `+` makes sqlite use the index of the keys, and not the one of the expiry.
    for key, conversation, *row in db.execute(
        "SELECT leads.key, conversation, conversations.id, version, expires_at FROM leads"  # noqa: S608 - placeholders only
        " JOIN conversations ON conversations.id = leads.conversation_id"
        f" WHERE leads.scope = ? AND leads.key IN ({','.join('?' * len(keys))})"
        " AND +expires_at > ? ORDER BY leads.id",
        (scope, *keys, now),
    ):
        found[key].append(conversation)
        rows[conversation] = _Row(*row)
    return rows, found


def _rows_of(
    db: sqlite3.Connection, scope: bytes, conversations: Mapping[bytes, int], now: float
) -> dict[bytes, _Row]:
    """Return the rows of the given conversations that are stored and have not expired."""
    found = db.execute(
        "SELECT conversation, id, version, expires_at FROM conversations"  # noqa: S608 - placeholders only
        f" WHERE scope = ? AND conversation IN ({','.join('?' * len(conversations))})"
        " AND expires_at > ?",
        (scope, *conversations, now),
    )
    return {conversation: _Row(*row) for conversation, *row in found}


def _marks_of(
    db: sqlite3.Connection, scope: bytes, conversations: Sequence[bytes], now: float
) -> dict[bytes, bytes]:
    """Return the marks of deletions, by conversation."""
    found = db.execute(
        "SELECT conversation, mark FROM marks"  # noqa: S608 - placeholders only
        f" WHERE scope = ? AND conversation IN ({','.join('?' * len(conversations))})"
        " AND expires_at > ?",
        (scope, *conversations, now),
    )
    return dict(found.fetchall())


def _maybe_deleted(
    db: sqlite3.Connection, name: Name, mark: bytes | None, now: float
) -> Deleted | None:
    """Return the deletion that a save would undo; None if there is none. See `Store.save`."""
    scope, conversation = name
    if _rows_of(db, scope, {conversation: 0}, now):
        return None  # a deletion would have dropped it
    marks = _marks_of(db, scope, [SCOPE_ITSELF, conversation], now)
    of_scope = marks.get(SCOPE_ITSELF, b"")
    if conversation in marks:
        return Deleted()
    return Deleted(of_scope) if of_scope and mark not in (None, of_scope) else None


def _begin(db: sqlite3.Connection, name: Name, expires_at: float, now: float) -> tuple[int, int]:
    """
    Extend the expiry of a conversation; create it if it is missing or has expired.

    Returns:
        Its row and its version.
    """
    db.execute(
        "DELETE FROM conversations WHERE scope = ? AND conversation = ? AND expires_at <= ?",
        (*name, now),
    )
    db.execute(
        "INSERT INTO conversations (scope, conversation, expires_at, version) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (scope, conversation)"
        " DO UPDATE SET expires_at = max(expires_at, excluded.expires_at)",
        (*name, expires_at, secrets.randbits(VERSION_BITS)),
    )
    row, version = db.execute(
        "SELECT id, version FROM conversations WHERE scope = ? AND conversation = ?", name
    ).fetchone()
    return int(row), int(version)


def _add(db: sqlite3.Connection, kept: int, values: Mapping[bytes, bytes], version: int) -> None:
    """Write records, each of which replaces one of the same name, and the new version."""
    turns, added_bytes = 0, 0
    for name, value in values.items():
        before = db.execute(
            "SELECT length(value) FROM records WHERE conversation_id = ? AND name = ?", (kept, name)
        ).fetchone()
        turn = turn_of_record(name)
        is_known = db.execute(
            "SELECT 1 FROM records WHERE conversation_id = ? AND name BETWEEN ? AND ? LIMIT 1",
            (kept, turn, turn + b"\xff"),
        ).fetchone()
        db.execute(
            "INSERT INTO records (conversation_id, name, value) VALUES (?, ?, ?)"
            " ON CONFLICT (conversation_id, name) DO UPDATE SET value = excluded.value",
            (kept, name, value),
        )
        turns += is_known is None
        added_bytes += len(value) - (before[0] if before else 0)
    db.execute(
        "UPDATE conversations SET version = ?, turns = turns + ?,"
        " record_bytes = record_bytes + ? WHERE id = ?",
        (version, turns, added_bytes, kept),
    )


def _lead(db: sqlite3.Connection, scope: bytes, key: bytes, kept: int, now: float) -> None:
    """Add a conversation to a key; the key keeps its newest CONVERSATIONS_PER_KEY."""
    db.execute(
        "INSERT OR IGNORE INTO leads (scope, key, conversation_id) VALUES (?, ?, ?)",
        (scope, key, kept),
    )
    db.execute(
        "DELETE FROM leads WHERE id IN (SELECT leads.id FROM leads"
        " JOIN conversations ON conversations.id = leads.conversation_id"
        " WHERE leads.scope = ? AND leads.key = ?"
        " ORDER BY +expires_at > ? DESC, leads.id DESC LIMIT -1 OFFSET ?)",
        (scope, key, now, CONVERSATIONS_PER_KEY),
    )
