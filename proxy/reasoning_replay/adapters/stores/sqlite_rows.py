"""The rows of `sqlite_store`, written one statement after the other inside a transaction."""

import sqlite3

from reasoning_replay.adapters.stores.base import CONVERSATIONS_PER_KEY
from reasoning_replay.core.history.turns import Turn

__all__ = ["DROPPED_AT_ONCE", "drop_expired", "lead", "put", "row_of"]

# So many conversations go at once, expired or for want of room: small steps, at each save.
DROPPED_AT_ONCE = 8


def drop_expired(db: sqlite3.Connection, now: float) -> None:
    """Drop some of the conversations that have expired."""
    db.execute(
        "DELETE FROM conversations WHERE id IN (SELECT id FROM conversations"
        " WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
        (now, DROPPED_AT_ONCE),
    )


def row_of(
    db: sqlite3.Connection, scope: bytes, conversation: bytes, expires_at: float, now: float
) -> int:
    """Return the row of a conversation, used just now; one that has expired begins anew."""
    db.execute(
        "DELETE FROM conversations WHERE scope = ? AND conversation = ? AND expires_at <= ?",
        (scope, conversation, now),
    )
    db.execute(
        "INSERT INTO conversations (scope, conversation, expires_at) VALUES (?, ?, ?)"
        " ON CONFLICT (scope, conversation)"
        " DO UPDATE SET expires_at = max(expires_at, excluded.expires_at)",
        (scope, conversation, expires_at),
    )
    (row,) = db.execute(
        "SELECT id FROM conversations WHERE scope = ? AND conversation = ?", (scope, conversation)
    ).fetchone()
    return int(row)


def put(db: sqlite3.Connection, kept: int, turn: Turn, value: bytes) -> None:
    """Write a turn, in place of an earlier form of it."""
    before = db.execute(
        "SELECT length(value) FROM turns WHERE conversation_id = ? AND turn = ?", (kept, turn.id)
    ).fetchone()
    db.execute(
        "INSERT INTO turns (conversation_id, turn, created_ms, value) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (conversation_id, turn)"
        " DO UPDATE SET created_ms = excluded.created_ms, value = excluded.value",
        (kept, turn.id, turn.created_ms, value),
    )
    db.execute(
        "UPDATE conversations SET turns = turns + ?, turn_bytes = turn_bytes + ? WHERE id = ?",
        (before is None, len(value) - (before[0] if before else 0), kept),
    )


def lead(db: sqlite3.Connection, scope: bytes, key: bytes, kept: int) -> None:
    """Let a key lead to a conversation, and to the newest few alone."""
    db.execute(
        "INSERT OR IGNORE INTO leads (scope, key, conversation_id) VALUES (?, ?, ?)",
        (scope, key, kept),
    )
    db.execute(
        "DELETE FROM leads WHERE id IN (SELECT id FROM leads WHERE scope = ? AND key = ?"
        " ORDER BY id DESC LIMIT -1 OFFSET ?)",
        (scope, key, CONVERSATIONS_PER_KEY),
    )
