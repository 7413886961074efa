"""
SQLite file: how it is opened, made and checked; one connection belongs to one thread.

Write-ahead logging lets processes read while one writes. What a process has committed survives
its end at any moment; a power cut may cost the last commits, and nothing before them.
"""

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from reasoning_replay.adapters.stores.base import StoreError

__all__ = ["SqliteFile", "transaction"]

T = TypeVar("T")

VERSION = 2
APPLICATION = 0x52525031  # "RRP1": whose file it is
_AGAIN_S = 0.02
# Held from where a file is made until it is open: what is made has not been opened by others here.
_MAKING = threading.Lock()

_SCHEMA = (
    """
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY,
        scope BLOB NOT NULL,
        conversation BLOB NOT NULL,
        expires_at REAL NOT NULL,            -- seconds since the epoch
        version INTEGER NOT NULL,
        turns INTEGER NOT NULL DEFAULT 0,
        record_bytes INTEGER NOT NULL DEFAULT 0,
        UNIQUE (scope, conversation)
    )""",
    "CREATE INDEX by_expiry ON conversations (expires_at)",
    """
    CREATE TABLE records (                   -- names sort by the age of the turn
        conversation_id INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
        name BLOB NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (conversation_id, name)
    )""",
    """
    CREATE TABLE leads (                     -- a key leads to a conversation; by id: oldest first
        id INTEGER PRIMARY KEY,
        scope BLOB NOT NULL,
        key BLOB NOT NULL,
        conversation_id INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
        UNIQUE (scope, key, conversation_id)
    )""",
    "CREATE INDEX by_conversation ON leads (conversation_id)",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
_OLD_TABLES = ("leads", "turns", "conversations")  # of version 1, which is not read any more


class SqliteFile:
    """A connection that is opened when it is needed, and again when its file was replaced."""

    def __init__(self, path: str, busy_s: float) -> None:
        """
        Open nothing yet.

        Args:
            path: Of the file, which is made if there is none; its folder is not.
            busy_s: How long to wait for another process that writes.
        """
        self._path = Path(path)
        self._busy_s = busy_s
        self._open: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """
        Do something with the connection, in the thread that all its work is done in.

        Raises:
            StoreError: It failed, in whatever way; the next call begins anew.
        """
        try:
            return work(self._connection())
        except sqlite3.DataError as error:
            raise StoreError(f"sqlite: {error}", is_local=True) from error
        except sqlite3.Error as error:
            if not _is_passing(error):
                self.close()
            raise StoreError(f"sqlite: {error}") from error
        except OSError as error:
            self.close()
            raise StoreError(f"sqlite: the file cannot be used: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._open is not None:
            with contextlib.suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _connection(self) -> sqlite3.Connection:
        if self._open is not None and self._identity != _identity(self._path):
            self.close()  # deleted or replaced: what is written to the old one is lost
        if self._open is None:
            with _MAKING:
                _make(self._path)
                self._identity = _identity(self._path)
                self._open = sqlite3.connect(
                    self._path, timeout=self._busy_s, isolation_level=None, cached_statements=64
                )
            self._prepare(self._open)
        return self._open

    def _prepare(self, db: sqlite3.Connection) -> None:
        _own(db, self._path)
        self._log_ahead(db)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("PRAGMA journal_size_limit = 67108864")
        if _version(db) < VERSION:
            with transaction(db):
                if _version(db) < VERSION:  # no other process was faster
                    for table in _OLD_TABLES:
                        db.execute(f"DROP TABLE IF EXISTS {table}")
                    for statement in _SCHEMA:
                        db.execute(statement)

    def _log_ahead(self, db: sqlite3.Connection) -> None:
        """Switch to a write-ahead log; for this alone sqlite does not wait for others itself."""
        deadline = time.monotonic() + self._busy_s
        while True:
            try:
                (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not _is_passing(error) or time.monotonic() > deadline:
                    raise
            else:
                if mode == "wal":
                    return
                raise sqlite3.OperationalError("its file system allows no write-ahead log")
            time.sleep(_AGAIN_S)


def _make(path: Path) -> None:
    """
    Make an empty file, for its owner alone, if there is none: sqlite gives its others its rights.

    One that is there is never opened here. A process that closes any descriptor of a file loses
    all its locks on it, those of sqlite's own connections too, and then another process may take
    the log away under them: https://www.sqlite.org/howtocorrupt.html, section 2.2.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


@contextlib.contextmanager
def transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Do all of it or nothing; IMMEDIATE to write, DEFERRED to read."""
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _own(db: sqlite3.Connection, path: Path) -> None:
    """Refuse what is another program's, or a newer version's."""
    with transaction(db, "DEFERRED"):  # both at one moment: somebody may be making it
        (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION and (application or objects):
        raise StoreError(f"sqlite: {path.name} is another program's database; name another file")
    if _version(db) > VERSION:
        raise StoreError(
            f"sqlite: {path.name} was written by a newer version of this program (format "
            f"{_version(db)}, this one knows {VERSION}); name another file, or use that version"
        )


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _is_passing(error: sqlite3.Error) -> bool:
    """Tell whether another process was in the way, and nothing is wrong with the connection."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
