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
from reasoning_replay.adapters.stores.sqlite.aside import (
    alone,
    check_all,
    has_header,
    identity,
    is_malformed,
    log_of,
    malformed,
    set_aside,
)

T = TypeVar("T")

VERSION = 2
APPLICATION = 0x52525031  # "RRP1": identifies the files of this program
_AGAIN_S = 0.02
# What the log keeps of the disk when it begins again.
LOG_KEPT_BYTES = 8 << 20
# Held while a file is created and opened: no other thread may have it open when `_make` closes it.
_MAKING = threading.Lock()

# Files of this format may lack these: an older version of the program ignores them.
_MARKS = (
    """
    CREATE TABLE IF NOT EXISTS marks (       -- of deletions; conversation X'': the whole scope
        scope BLOB NOT NULL,
        conversation BLOB NOT NULL,
        mark BLOB NOT NULL,
        expires_at REAL NOT NULL,
        PRIMARY KEY (scope, conversation)
    ) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS marks_by_expiry ON marks (expires_at)",
)
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
    writes, it waits up to `busy_s`. A malformed file of this program is set aside, and a new one
    is created.
    """

    def __init__(
        self, path: str, busy_s: float, on_aside: Callable[[Path, str], None] | None = None
    ) -> None:
        """
        Prepare the connection.

        Args:
            path: Path of the file.
            busy_s: Longest wait for other processes.
            on_aside: Called with the new path of a file that was set aside and the error, in the
                thread of the operation. None: a malformed file stays, and is an error.
        """
        self._path = Path(path)
        self._busy_s = busy_s
        self._on_aside = on_aside
        self._open: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._owned: tuple[int, int] | None = None  # the last file that was one of this program

    def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """
        Run a function with the connection; every call must come from the same thread.

        Raises:
            StoreError: The database or the file failed; the next call opens it again if needed.
        """
        try:
            try:
                return work(self._connection())
            except sqlite3.DatabaseError as error:
                if not (is_malformed(error) and self._sets_aside(error)):
                    raise
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

    def bound_log(self, db: sqlite3.Connection, max_bytes: int) -> None:
        """
        Empty the log if it exceeds a limit.

        Raises:
            StoreError: It cannot be emptied, because a program reads the file as it was before.
        """
        size = _size(log_of(self._path))
        if size <= max_bytes:
            return
        db.execute("PRAGMA busy_timeout = 0")
        try:
            (is_busy, *_) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            db.execute(f"PRAGMA busy_timeout = {int(1000 * self._busy_s)}")
        if is_busy:
            raise StoreError(
                f"sqlite: its log has {size >> 20} MiB, and cannot be emptied: a program has a"
                " read transaction open on the file"
            )

    def close(self) -> None:
        """Close the connection if it is open."""
        if self._open is not None:
            with contextlib.suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _connection(self) -> sqlite3.Connection:
        if self._open is not None and self._identity != identity(self._path):
            self.close()  # deleted or replaced: writes to the old file would be lost
        if self._open is None:
            with _MAKING, alone(self._path.parent, self._busy_s):
                _make(self._path)
                self._identity = identity(self._path)
                self._open = sqlite3.connect(
                    self._path, timeout=self._busy_s, isolation_level=None, cached_statements=64
                )
                had_log = _size(log_of(self._path)) > 0
                self._open.execute("PRAGMA user_version").fetchone()  # now sqlite opens the files
            self._prepare(self._open, had_log=had_log)
        return self._open

    def _sets_aside(self, error: sqlite3.DatabaseError) -> bool:
        """Set a malformed file aside; return whether the operation may be repeated."""
        self.close()
        is_own = self._identity == self._owned or has_header(self._path, APPLICATION, VERSION)
        if self._on_aside is None or not is_own:
            return False
        with _MAKING, alone(self._path.parent, self._busy_s):
            aside = set_aside(self._path, self._identity)
        if aside is not None:
            self._on_aside(aside, str(error))
        return True

    def _prepare(self, db: sqlite3.Connection, *, had_log: bool) -> None:
        _own(db, self._path)
        if _version(db):
            self._owned = self._identity
        elif self._owned == self._identity:  # other connections are open, so it cannot be created
            raise malformed("the file was emptied")
        if had_log or self._on_aside is None:
            check_all(db)
        self._log_ahead(db)
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute(f"PRAGMA journal_size_limit = {LOG_KEPT_BYTES}")
        if _version(db) < VERSION:
            with transaction(db):
                if _version(db) < VERSION:  # unless another process was faster
                    for statement in _SCHEMA:
                        db.execute(statement)
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'marks'").fetchone() is None:
            with transaction(db):
                for statement in _MARKS:
                    db.execute(statement)
        self._owned = self._identity

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
        (application,) = db.execute("PRAGMA application_id").fetchone()
        objects = 0
        if application != APPLICATION:  # the tables of a malformed file may not be readable
            (objects,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
