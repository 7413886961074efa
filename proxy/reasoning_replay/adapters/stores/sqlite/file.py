"""
SQLite file: opens, creates and checks the database; one connection belongs to one thread.

With write-ahead logging, processes can read while one writes. A commit survives a crash of the
process at any moment. A power cut may lose the last commits, but no earlier ones.

The store is a cache, so a malformed file is set aside, and a new one begun: what it had is missed
once. A file is malformed after a fault of the disk, or if an older copy took its place next to the
log. Such a mixture need not be an error of the next query, so a file that is opened next to a log
is checked as a whole.
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
# What the log keeps of the disk when it begins again.
LOG_KEPT_BYTES = 8 << 20
# Appended to the name of a malformed file. Only the last one is kept, so it takes no more disk.
SUFFIX = ".malformed"
COMPANIONS = ("-shm", "-wal")
# Longest check of a file. Measured: 0.3 s for 256 MiB; a longer one ends without a result.
CHECKED_S = 1.0
_STEPS = 10_000  # of sqlite's machine, between two looks at the clock
_AGAIN_S = 0.01
_MAGIC = b"SQLite format 3\0"
_MALFORMED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)  # the connection is still usable
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
                if _code(error) not in _MALFORMED or not self._sets_aside(error):
                    raise
                return work(self._connection())
        except sqlite3.DataError as error:
            raise StoreError(f"sqlite: {error}", is_local=True) from error
        except sqlite3.Error as error:
            if _code(error) not in _PASSING:
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
        size = _log_size(self._path)
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
        if self._open is not None and self._identity != _identity(self._path):
            self.close()  # deleted or replaced: writes to the old file would be lost
        if self._open is None:
            self._open = self._connect()
        return self._open

    def _connect(self) -> sqlite3.Connection:
        """Open the file; a connection that is not ready, as while the file is locked, is closed."""
        with contextlib.ExitStack() as unready:
            # Another process may create the file, and wait for a disk meanwhile.
            with _MAKING, _alone(self._path.parent, 2 * self._busy_s):
                _make(self._path)
                self._identity = _identity(self._path)
                db = sqlite3.connect(
                    self._path, timeout=self._busy_s, isolation_level=None, cached_statements=64
                )
                unready.callback(db.close)
                had_log = _log_size(self._path) > 0
                self._prepare(db)
            if had_log or self._on_aside is None:
                _check_all(db)
            unready.pop_all()
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        """
        Create what the file lacks.

        Raises:
            StoreError: It belongs to another program or to a newer version, and is unchanged.
        """
        (version,) = db.execute("PRAGMA user_version").fetchone()
        (application,) = db.execute("PRAGMA application_id").fetchone()
        is_own = application == APPLICATION  # the tables of a malformed file may not be readable
        if not is_own and (application or _has_tables(db)):
            raise StoreError(
                f"sqlite: {self._path.name} is another program's database; name another file"
            )
        if version > VERSION:
            raise StoreError(
                f"sqlite: {self._path.name} was written by a newer version of this program (format"
                f" {version}, this one reads {VERSION}); name another file, or use that version"
            )
        if not version and self._owned == self._identity:  # other connections are open
            raise _malformed("the file was emptied")
        if version:
            self._owned = self._identity
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise sqlite3.OperationalError("its file system does not support a write-ahead log")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute(f"PRAGMA journal_size_limit = {LOG_KEPT_BYTES}")
        lacking: tuple[str, ...] = () if version == VERSION else _SCHEMA
        if not _has_tables(db, "WHERE name = 'marks'"):
            lacking += _MARKS
        if lacking:  # else it waits for no other process that writes
            with transaction(db):
                for statement in lacking:
                    db.execute(statement)
        self._owned = self._identity

    def _sets_aside(self, error: sqlite3.DatabaseError) -> bool:
        """Set a malformed file aside; return whether the operation may be repeated."""
        self.close()
        is_own = self._identity == self._owned or _has_header(self._path)
        if self._on_aside is None or not is_own:
            return False
        with _MAKING, _alone(self._path.parent, self._busy_s):
            aside = _set_aside(self._path, self._identity)
        if aside is not None:
            self._on_aside(aside, str(error))
        return True


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


def _make(path: Path) -> None:
    """
    Create an empty file with mode 0600 if it is missing; sqlite copies the mode to its other files.

    An existing file is never opened here. A process that closes any descriptor of a file loses
    all its locks on it, including those of sqlite's own connections. Another process may then
    delete the log while they use it: https://www.sqlite.org/howtocorrupt.html, section 2.2.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _has_tables(db: sqlite3.Connection, which: str = "") -> bool:
    query = f"SELECT 1 FROM sqlite_master {which} LIMIT 1"  # noqa: S608 - constants
    return db.execute(query).fetchone() is not None


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code of sqlite; 0 without one."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _log_size(path: Path) -> int:
    """Return the size of the write-ahead log of a file."""
    try:
        return path.with_name(path.name + "-wal").stat().st_size
    except FileNotFoundError:
        return 0


def _check_all(db: sqlite3.Connection) -> None:
    """
    Check the whole file, for at most CHECKED_S.

    Raises:
        sqlite3.DatabaseError: It is malformed.
    """
    ends_at = time.monotonic() + CHECKED_S
    db.set_progress_handler(lambda: int(time.monotonic() > ends_at), _STEPS)
    try:
        (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if _code(error) != sqlite3.SQLITE_INTERRUPT:
            raise
        return
    finally:
        db.set_progress_handler(None, 0)
    if found != "ok":
        raise _malformed("database disk image is malformed")


def _malformed(reason: str) -> sqlite3.DatabaseError:
    """Return the error of a malformed file, as sqlite raises it."""
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _has_header(path: Path) -> bool:
    """
    Return whether a malformed file begins as one of this program, in a format that it reads.

    Call this only if sqlite cannot read the file any more: it ends this process's locks on it.
    """
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    numbers = (int.from_bytes(head[at : at + 4], "big") for at in (68, 60))
    return head.startswith(_MAGIC) and next(numbers) == APPLICATION and next(numbers) <= VERSION


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells this file from one that replaces it; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _set_aside(path: Path, which: tuple[int, int] | None) -> Path | None:
    """
    Rename a malformed file and its companions, in place of those that were set aside before.

    The caller holds `_alone`, so that no other process opens the file halfway.

    Args:
        path: Path of the file.
        which: Identity of the malformed file.

    Returns:
        Its new path; None if another process has replaced the file already.
    """
    if which is None or _identity(path) != which:
        return None
    aside = path.with_name(path.name + SUFFIX)
    # The file last: as long as it has its name, no process creates a new one next to its log.
    for end in (*COMPANIONS, ""):
        target = aside.with_name(aside.name + end)
        target.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + end).rename(target)
    return aside


@contextlib.contextmanager
def _alone(folder: Path, wait_s: float) -> Iterator[None]:
    """
    Keep other processes from opening or setting aside a file in this folder.

    Raises:
        OSError: There is no such folder, or another process is in its block for too long.
    """
    with contextlib.ExitStack() as stack:
        # Not on Windows, and not if this user may not list the folder.
        with contextlib.suppress(ImportError, PermissionError):
            import fcntl  # noqa: PLC0415 (as above)

            at = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, at)
            deadline = time.monotonic() + wait_s
            while True:
                try:
                    fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(_AGAIN_S)
        yield
