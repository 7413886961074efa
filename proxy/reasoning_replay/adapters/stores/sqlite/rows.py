"""Rows of the SQLite file: conversations, what leads to them, their records, and deletions."""

import secrets
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    MET_S,
    SCOPE_ITSELF,
    VERSION_BITS,
    Deleted,
    Name,
)
from reasoning_replay.core.history.records import turn_of_record

# In place of a scope, which has 16 bytes: the marks of processes.
PROCESSES = b"processes"


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


def meet(db: sqlite3.Connection, own: bytes, now: float) -> list[bytes]:
    """Note a mark of a process, in place of a conversation, and return all that count."""
    db.execute(
        "INSERT OR REPLACE INTO marks (scope, conversation, mark, expires_at) VALUES (?, ?, ?, ?)",
        (PROCESSES, own, b"", now + MET_S),
    )
    found = db.execute(
        "SELECT conversation FROM marks WHERE scope = ? AND expires_at > ?", (PROCESSES, now)
    )
    return [mark for (mark,) in found]


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
