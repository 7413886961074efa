"""Room in the SQLite file: what a save drops because it expired or exceeds a limit."""

import sqlite3

from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.trimming import what_to_drop
from reasoning_replay.core.history.records import turn_of_record

# Each save drops at most this many expired conversations, and as many for lack of room.
DROPPED_AT_ONCE = 8


def used_bytes(db: sqlite3.Connection) -> int:
    """Return the size of the file without its free pages."""
    pages, free, page_bytes = (
        db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * page_bytes)


def drop_expired(db: sqlite3.Connection, now: float) -> None:
    """Drop up to DROPPED_AT_ONCE expired conversations."""
    db.execute(
        "DELETE FROM conversations WHERE id IN (SELECT id FROM conversations"
        " WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
        (now, DROPPED_AT_ONCE),
    )


def drop_expired_marks(db: sqlite3.Connection, now: float) -> None:
    """Drop up to DROPPED_AT_ONCE expired marks of deletions."""
    db.execute(
        "DELETE FROM marks WHERE (scope, conversation) IN (SELECT scope, conversation FROM marks"
        " WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
        (now, DROPPED_AT_ONCE),
    )


def trim(db: sqlite3.Connection, kept: int, bounds: Bounds) -> bool:
    """
    Drop the oldest turns of a conversation that exceeds its bounds; a single one stays.

    Returns:
        Whether a turn was dropped. The caller gives the conversation a new version in any case.
    """
    turns, record_bytes = db.execute(
        "SELECT turns, record_bytes FROM conversations WHERE id = ?", (kept,)
    ).fetchone()
    if turns <= 1 or (turns <= bounds.max_turns and record_bytes <= bounds.max_bytes):
        return False
    sizes = dict(
        db.execute(
            "SELECT name, length(value) FROM records WHERE conversation_id = ?", (kept,)
        ).fetchall()
    )
    drop = what_to_drop(sizes, bounds)
    if not drop:
        return False
    db.executemany(
        "DELETE FROM records WHERE conversation_id = ? AND name = ?",
        [(kept, name) for name in drop],
    )
    turns -= len({turn_of_record(name) for name in drop})
    record_bytes -= sum(sizes[name] for name in drop)
    db.execute(
        "UPDATE conversations SET turns = ?, record_bytes = ? WHERE id = ?",
        (turns, record_bytes, kept),
    )
    return True


def make_room(db: sqlite3.Connection, max_bytes: int, now: float) -> int:
    """
    Drop the conversations that expire first, which are the least recently used ones.

    Returns:
        The number of dropped conversations that had not expired.
    """
    evicted = 0
    for _ in range(DROPPED_AT_ONCE):
        if used_bytes(db) <= max_bytes:
            break
        first = db.execute(
            "SELECT id, expires_at > ? FROM conversations ORDER BY expires_at, id LIMIT 1", (now,)
        ).fetchone()
        if first is None:
            break
        db.execute("DELETE FROM conversations WHERE id = ?", first[:1])
        evicted += first[1]
    return evicted
