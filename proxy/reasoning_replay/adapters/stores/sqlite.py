"""
A file, as the store that processes on one machine share.

One thread reads and one writes, so that the event loop never waits for a disk. A recall writes
nothing but, once in a while, that its conversations were used.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from reasoning_replay.adapters.stores.base import Bounds, ConversationInfo, Page, StoreError
from reasoning_replay.adapters.stores.codec import Codec, PlainCodec
from reasoning_replay.adapters.stores.sqlite_file import SqliteFile, transaction
from reasoning_replay.adapters.stores.sqlite_rows import (
    DROPPED_AT_ONCE,
    drop_expired,
    lead,
    put,
    row_of,
)
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult, choose
from reasoning_replay.core.history.turns import Turn

__all__ = ["SqliteStore"]

T = TypeVar("T")

# A later expiry is written down when it is later by a hundredth of the TTL, or by this.
NOTICED_S = 60.0
# While so many uses wait to be noted, as they may while the file is locked, others go unnoted.
NOTED_AT_ONCE = 1000


class SqliteStore:
    """Turns in a file; every failure is a StoreError."""

    def __init__(  # noqa: PLR0913 - each is one fact of the file
        self,
        path: str,
        bounds: Bounds,
        max_bytes: int,
        timeout_s: float,
        clock: Callable[[], float],
        *,
        codec: Codec | None = None,
    ) -> None:
        """
        Open the file on first use.

        Args:
            path: Of the file, which is made if there is none; its folder is not.
            bounds: Of one conversation.
            max_bytes: Of all that is kept; the file may have free room besides.
            timeout_s: Half of this is waited for another process that writes.
            clock: Seconds since the epoch: processes share it.
            codec: How turns are written; None: as they are.
        """
        self._bounds = bounds
        self._max_bytes = max_bytes
        self._clock = clock
        self._codec = codec or PlainCodec()
        self._read_file = SqliteFile(path, timeout_s / 2)
        self._write_file = SqliteFile(path, timeout_s / 2)
        self._noting: set[int] = set()  # rows whose use is about to be noted
        self._reader = ThreadPoolExecutor(1, "sqlite-reader")
        self._writer = ThreadPoolExecutor(1, "sqlite-writer")

    async def recall(self, scope: bytes, asked: Sequence[Lookup]) -> LookupResult:
        """As `Store.recall`."""
        keys = list(dict.fromkeys(key for item in asked for key in item.keys))
        if not keys:
            return LookupResult()
        now = self._clock()

        def read(db: sqlite3.Connection) -> tuple[LookupResult, list[int]]:
            with transaction(db, "DEFERRED"):
                return self._recall(db, scope, asked, keys, now)

        recalled, used = await self._reads(read)
        used = [row for row in used if row not in self._noting]
        if used and len(self._noting) < NOTED_AT_ONCE:
            # Nobody waits for that, and where it fails they expire a little earlier.
            self._noting.update(used)
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._writer.submit(self._note, used, now)
        return recalled

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """As `Store.save`."""
        value = self._codec.encode(scope, turn)
        now = self._clock()

        def write(db: sqlite3.Connection) -> None:
            with transaction(db):
                drop_expired(db, now)
                kept = row_of(db, scope, turn.conversation, now + self._bounds.ttl_s, now)
                put(db, kept, turn, value)
                self._bound(db, kept)
                for key in keys:
                    lead(db, scope, key, kept)
                self._make_room(db)

        await self._writes(write)

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As `Store.survey`; the cursor is the last row of the page before."""
        if not (cursor == "" or (cursor.isascii() and cursor.isdigit())):
            raise StoreError("the cursor is none of this store's", is_local=True)
        now = self._clock()

        def read(db: sqlite3.Connection) -> Page:
            rows = db.execute(
                "SELECT id, scope, conversation, turns, turn_bytes, expires_at FROM conversations"
                " WHERE id > ? AND expires_at > ? AND (? IS NULL OR scope = ?) ORDER BY id LIMIT ?",
                (min(int(cursor or 0), 2**63 - 1), now, scope, scope, limit),
            ).fetchall()
            kept = [
                ConversationInfo(a, b, turns, size, int(ends - now))
                for _, a, b, turns, size, ends in rows
            ]
            return Page(kept, str(rows[-1][0]) if rows and len(rows) == limit else "")

        return await self._reads(read)

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As `Store.forget`; what was deleted is overwritten, in the log too where it can be."""

        def write(db: sqlite3.Connection) -> bool:
            db.execute("PRAGMA secure_delete = ON")
            try:
                with transaction(db):
                    gone = db.execute(
                        "DELETE FROM conversations WHERE scope = ? AND conversation = ?",
                        (scope, conversation),
                    ).rowcount
            finally:
                db.execute("PRAGMA secure_delete = OFF")
            # Not where somebody reads just now; the log is written over later.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            return gone > 0

        return await self._writes(write)

    async def check(self) -> None:
        """As `Store.check`."""
        await self._reads(lambda db: db.execute("SELECT 1 FROM conversations LIMIT 1").fetchone())

    async def close(self) -> None:
        """As `Store.close`; what was begun is finished."""
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

    def _recall(
        self,
        db: sqlite3.Connection,
        scope: bytes,
        asked: Sequence[Lookup],
        keys: Sequence[bytes],
        now: float,
    ) -> tuple[LookupResult, list[int]]:
        """Return what is found, and the rows of conversations to be noted as used."""
        found: dict[bytes, list[bytes]] = {key: [] for key in keys}
        rows: dict[bytes, tuple[int, float]] = {}
        # The `+` keeps sqlite on the index of the keys, whatever it thinks of the other one.
        for key, conversation, row, expires_at in db.execute(
            "SELECT leads.key, conversation, conversations.id, expires_at FROM leads"  # noqa: S608 - question marks alone
            " JOIN conversations ON conversations.id = leads.conversation_id"
            f" WHERE leads.scope = ? AND leads.key IN ({','.join('?' * len(keys))})"
            " AND +expires_at > ? ORDER BY leads.id",
            (scope, *keys, now),
        ):
            found[key].append(conversation)
            rows[conversation] = row, expires_at
        choice = choose(asked, found.__getitem__)
        turns: list[Turn] = []
        used: list[int] = []
        for conversation in choice.conversations:
            row, expires_at = rows[conversation]
            for turn_id, value in db.execute(
                "SELECT turn, value FROM turns WHERE conversation_id = ? ORDER BY id", (row,)
            ):
                turn = self._codec.decode(scope, conversation, turn_id, value)
                if turn is not None:
                    turns.append(turn)
            later_s = now + self._bounds.ttl_s - expires_at
            if later_s > min(NOTICED_S, self._bounds.ttl_s / 100):
                used.append(row)
        return LookupResult(turns, choice.crowded), used

    def _note(self, used: Sequence[int], now: float) -> None:
        """Note that conversations were used."""
        expires_at = now + self._bounds.ttl_s

        def write(db: sqlite3.Connection) -> None:
            with transaction(db):
                db.executemany(
                    "UPDATE conversations SET expires_at = max(expires_at, ?) WHERE id = ?",
                    [(expires_at, row) for row in used],
                )

        try:
            self._write_file.do(write)
        finally:
            self._noting.difference_update(used)

    def _bound(self, db: sqlite3.Connection, kept: int) -> None:
        """Drop the oldest turns of a conversation until it is inside its bounds."""
        turns, turn_bytes = db.execute(
            "SELECT turns, turn_bytes FROM conversations WHERE id = ?", (kept,)
        ).fetchone()
        if turns <= self._bounds.max_turns and turn_bytes <= self._bounds.max_bytes:
            return
        oldest_first = db.execute(
            "SELECT id, length(value) FROM turns WHERE conversation_id = ? ORDER BY created_ms, id",
            (kept,),
        ).fetchall()
        drop = []
        for row, size in oldest_first[:-1]:
            if turns <= self._bounds.max_turns and turn_bytes <= self._bounds.max_bytes:
                break
            turns, turn_bytes = turns - 1, turn_bytes - size
            drop.append((row,))
        db.executemany("DELETE FROM turns WHERE id = ?", drop)
        db.execute(
            "UPDATE conversations SET turns = ?, turn_bytes = ? WHERE id = ?",
            (turns, turn_bytes, kept),
        )

    def _make_room(self, db: sqlite3.Connection) -> None:
        """Drop the conversations that expire first, which are those unused for longest."""
        for _ in range(DROPPED_AT_ONCE):
            pages, free, page_bytes = (
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            if (pages - free) * page_bytes <= self._max_bytes:
                return
            db.execute(
                "DELETE FROM conversations WHERE id ="
                " (SELECT id FROM conversations ORDER BY expires_at, id LIMIT 1)"
            )
