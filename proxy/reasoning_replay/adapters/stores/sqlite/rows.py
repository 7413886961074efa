"""Rows of the SQLite file: conversations, what leads to them, their records, and their bounds."""

import secrets
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    SCOPE_ITSELF,
    VERSION_BITS,
    Bounds,
    Deleted,
    Name,
)
from reasoning_replay.adapters.stores.trimming import what_to_drop
from reasoning_replay.core.history.records import turn_of_record

# Each save drops at most this many expired conversations, and as many for lack of room.
DROPPED_AT_ONCE = 8


class Row(NamedTuple):
    """Row of a conversation."""

    id: int
    version: int
    expires_at: float


def led_to(
    db: sqlite3.Connection, scope: bytes, keys: Sequence[bytes], now: float
) -> tuple[dict[bytes, Row], dict[bytes, list[bytes]]]:
    """Return the rows that keys lead to, and the conversations of each key, newest last."""
    rows: dict[bytes, Row] = {}
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
        rows[conversation] = Row(*row)
    return rows, found


def rows_of(
    db: sqlite3.Connection, scope: bytes, conversations: Mapping[bytes, int], now: float
) -> dict[bytes, Row]:
    """Return the rows of the given conversations that are stored and have not expired."""
    columns = "conversation, id, version, expires_at FROM conversations"
    found = _live(db, columns, scope, conversations, now)
    return {conversation: Row(*row) for conversation, *row in found}


def marks_of(
    db: sqlite3.Connection, scope: bytes, conversations: Sequence[bytes], now: float
) -> dict[bytes, bytes]:
    """Return the marks of deletions, by conversation."""
    found = _live(db, "conversation, mark FROM marks", scope, conversations, now)
    return dict(found.fetchall())


def _live(
    db: sqlite3.Connection,
    columns: str,
    scope: bytes,
    conversations: Collection[bytes],
    now: float,
) -> sqlite3.Cursor:
    """Select columns, constants of this module, of these conversations if not expired."""
    return db.execute(
        f"SELECT {columns}"
        f" WHERE scope = ? AND conversation IN ({','.join('?' * len(conversations))})"
        " AND expires_at > ?",
        (scope, *conversations, now),
    )


def maybe_deleted(
    db: sqlite3.Connection, name: Name, mark: bytes | None, now: float
) -> Deleted | None:
    """Return the deletion that a save would undo; None if there is none. See `Store.save`."""
    scope, conversation = name
    if rows_of(db, scope, {conversation: 0}, now):
        return None  # a deletion would have dropped it
    marks = marks_of(db, scope, [SCOPE_ITSELF, conversation], now)
    of_scope = marks.get(SCOPE_ITSELF, b"")
    if conversation in marks:
        return Deleted()
    return Deleted(of_scope) if of_scope and mark not in (None, of_scope) else None


def begin(db: sqlite3.Connection, name: Name, expires_at: float, now: float) -> tuple[int, int]:
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


def add(db: sqlite3.Connection, kept: int, values: Mapping[bytes, bytes], version: int) -> None:
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


def lead(db: sqlite3.Connection, scope: bytes, key: bytes, kept: int, now: float) -> None:
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


def used_bytes(db: sqlite3.Connection) -> int:
    """Return the size of the file without its free pages."""
    pages, free, page_bytes = (
        db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * page_bytes)


def drop_expired(db: sqlite3.Connection, table: str, now: float) -> None:
    """Drop up to DROPPED_AT_ONCE expired rows of a table: conversations or marks of deletions."""
    db.execute(
        f"DELETE FROM {table} WHERE (scope, conversation) IN (SELECT scope, conversation"  # noqa: S608 - a constant
        f" FROM {table} WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
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
