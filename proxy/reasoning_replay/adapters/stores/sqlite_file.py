"""
SQLite file: opens, creates and checks the database; one connection belongs to one thread.

With write-ahead logging, processes can read while one writes. A commit survives a crash of the
process at any moment. A power cut may lose the last commits, but no earlier ones.
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

T = TypeVar("T")

VERSION = 2
APPLICATION = 0x52525031  # "RRP1": identifies the files of this program
_AGAIN_S = 0.02
# Held while a file is created and opened: no other thread may have it open when `_make` closes it.
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


class SqliteFile:
    """
    A connection that is opened on first use, and again after its file was replaced.

    The file is created if it does not exist; its directory must exist. For another process that
    writes, it waits up to `busy_s`.
    """

    def __init__(self, path: str, busy_s: float) -> None:
        self._path = Path(path)
        self._busy_s = busy_s
        self._open: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """
        Run a function with the connection; every call must come from the same thread.

        Raises:
            StoreError: The database or the file failed; the next call opens it again if needed.
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
        """Close the connection if it is open."""
        if self._open is not None:
            with contextlib.suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _connection(self) -> sqlite3.Connection:
        if self._open is not None and self._identity != _identity(self._path):
            self.close()  # deleted or replaced: writes to the old file would be lost
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
                if _version(db) < VERSION:  # unless another process was faster
                    for statement in _SCHEMA:
                        db.execute(statement)

    def _log_ahead(self, db: sqlite3.Connection) -> None:
        """Switch to a write-ahead log; this retries, as sqlite does not wait for others here."""
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
                raise sqlite3.OperationalError("its file system does not support a write-ahead log")
            time.sleep(_AGAIN_S)


def _make(path: Path) -> None:
    """
    Create an empty file with mode 0600 if it is missing; sqlite copies the mode to its other files.

    An existing file is never opened here. A process that closes any descriptor of a file loses
    all its locks on it, including those of sqlite's own connections. Another process may then
    delete the log while they use it: https://www.sqlite.org/howtocorrupt.html, section 2.2.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


@contextlib.contextmanager
def transaction(db: sqlite3.Connection, kind: str = "IMMEDIATE") -> Iterator[None]:
    """Run the block in one transaction: IMMEDIATE to write, DEFERRED to read."""
    db.execute(f"BEGIN {kind}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _own(db: sqlite3.Connection, path: Path) -> None:
    """Raise StoreError if the file belongs to another program or to a newer version."""
    with transaction(db, "DEFERRED"):  # one snapshot: another process may be creating it
        (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION and (application or objects):
        raise StoreError(f"sqlite: {path.name} is another program's database; name another file")
    if _version(db) > VERSION:
        raise StoreError(
            f"sqlite: {path.name} was written by a newer version of this program (format "
            f"{_version(db)}, this one reads {VERSION}); name another file, or use that version"
        )


def _version(db: sqlite3.Connection) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    return int(version)


def _is_passing(error: sqlite3.Error) -> bool:
    """Return whether the file was only busy or locked, so that the connection is still usable."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
