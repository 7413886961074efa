"""
Malformed SQLite file: found, and set aside so that the store begins with a new one.

The store is a cache: what a malformed file had is missed once. A file is malformed after a fault of
the disk, or if an older copy took its place next to the log. Such a mixture need not be an error of
the next query, so a file that is opened next to a log is checked as a whole.
"""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

# Appended to the name of the file. Only the last one is kept, so that it takes no more disk.
SUFFIX = ".malformed"
COMPANIONS = ("-shm", "-wal")
# Longest check of a file. Measured: 0.3 s for 256 MiB; a longer one ends without a result.
CHECKED_S = 1.0
_MAGIC = b"SQLite format 3\0"
_STEPS = 10_000  # of sqlite's machine, between two looks at the clock
_AGAIN_S = 0.01
_MALFORMED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_malformed(error: sqlite3.Error) -> bool:
    """Return whether an error shows that the content of the file is wrong."""
    return (getattr(error, "sqlite_errorcode", 0) & 0xFF) in _MALFORMED


def check_all(db: sqlite3.Connection) -> None:
    """
    Check the whole file, for at most CHECKED_S.

    Raises:
        sqlite3.DatabaseError: It is malformed, as `is_malformed` says.
    """
    ends_at = time.monotonic() + CHECKED_S
    db.set_progress_handler(lambda: int(time.monotonic() > ends_at), _STEPS)
    try:
        (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_INTERRUPT:
            raise
        return
    finally:
        db.set_progress_handler(None, 0)
    if found != "ok":
        raise malformed("database disk image is malformed")


def malformed(reason: str) -> sqlite3.DatabaseError:
    """Return the error of a malformed file, as sqlite raises it."""
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def has_header(path: Path, application: int, newest: int) -> bool:
    """
    Return whether a malformed file begins as one of this application, in a format up to `newest`.

    Call this only if sqlite cannot read the file any more: it ends this process's locks on it.
    """
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except OSError:
        return False
    numbers = (int.from_bytes(head[at : at + 4], "big") for at in (68, 60))
    return head.startswith(_MAGIC) and next(numbers) == application and next(numbers) <= newest


def log_of(path: Path) -> Path:
    """Return the path of the write-ahead log of a file."""
    return path.with_name(path.name + "-wal")


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells this file from one that replaces it; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def set_aside(path: Path, which: tuple[int, int] | None) -> Path | None:
    """
    Rename a malformed file and its companions, in place of those that were set aside before.

    The caller holds `alone`, so that no other process opens the file halfway.

    Args:
        path: Path of the file.
        which: Identity of the malformed file.

    Returns:
        Its new path; None if another process has replaced the file already.
    """
    if which is None or identity(path) != which:
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
def alone(folder: Path, wait_s: float) -> Iterator[None]:
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
