"""Conversation: one row of the local table, with what its store may lack."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import ClassVar

from reasoning_replay.adapters.resilience.store_guard import Call
from reasoning_replay.adapters.stores.base import Bounds, Name, VersionChange
from reasoning_replay.adapters.stores.trimming import what_to_drop
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.records import (
    prefix_of_records,
    records_of,
    turn_id_of_record,
    turn_of_record,
    turns_of,
)
from reasoning_replay.core.history.turns import Turn

# Memory in addition to the values. Measured with the keys: 99 to 103 % of it, for 10 to 600 turns.
ROW_BYTES = 1500
RECORD_BYTES = 550
KEY_BYTES = 190


class Standing(Enum):
    """
    Relation of a row to the copy of its conversation in the store.

        (absent) --write--> UNSENT --saved--> OUTDATED --loaded--> CURRENT
        (absent) --loaded--> CURRENT --saved at its version--> CURRENT at the next version
        UNSENT, OUTDATED, CURRENT --gone from the store, or deleted--> DELETED, and then absent
        any --evicted--> absent; what is being saved is still saved
        (absent) --write, no store--> OWN --deleted or expired--> DELETED, and then absent

    While a row has a batch that waits or is being saved, the store may lack that.
    """

    OWN = "own"  # there is no store: the row is all there is
    UNSENT = "unsent"  # the store may not have the conversation
    OUTDATED = "outdated"  # the store has it, but its version there is unknown
    CURRENT = "current"  # the row matches `version` of the store's copy
    DELETED = "deleted"  # nothing more of it is saved


@dataclass(slots=True, eq=False)
class Batch:
    """
    Records and keys of one conversation that one save writes to the store.

    Attributes:
        record_bytes: Size of the records.
        task: The pending or running save, or None.
        call: The operation of that save.
        new_bytes: Size of the records that were added since the task was created.
        is_overdue: Whether all of it is of earlier saves that failed.
    """

    records: dict[bytes, bytes] = field(default_factory=dict)
    keys: dict[bytes, None] = field(default_factory=dict)
    record_bytes: int = 0
    task: asyncio.Task[bool] | None = None
    call: Call = field(default_factory=partial(Call, "save"))
    new_bytes: int = 0
    is_overdue: bool = False

    def add(self, records: Mapping[bytes, bytes], keys: Iterable[bytes]) -> None:
        """Add records and keys to the batch."""
        for name, value in records.items():
            self.record_bytes += len(value) - len(self.records.get(name, b""))
            self.records[name] = value
        self.keys |= dict.fromkeys(keys)

    def __bool__(self) -> bool:
        """Whether there is anything to save."""
        return bool(self.records or self.keys)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Conversation:
    """
    What this process knows of one conversation.

    Attributes:
        leaving: Where the row goes once the room has evicted it.
        version: Version in the store that it matches while it is CURRENT.
        turns: Decoded turns, oldest first, including those of `saving` and `waiting`.
        older: All of `turns` except the newest; None if not built yet.
        added: Records that are not decoded yet, by turn.
        records, record_bytes: Number and size of the records of `turns` and `added`.
        sizes: The size of each turn's records, if it is OWN.
        keys: Keys that lead to this row.
        alone: What a key leads to that leads to this row alone.
        saving: Batch that is being saved.
        waiting: Next batch: records added in the meantime, and those of failed saves.
        expires_at, slot: Of an OWN row: when it expires, by the clock, and its place in a survey.
    """

    is_decision: ClassVar[bool] = False

    name: Name
    leaving: deque["Conversation"]
    standing: Standing
    version: int = 0
    turns: IndexedTurns = field(default_factory=lambda: IndexedTurns(()))
    older: IndexedTurns | None = None
    added: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    records: int = 0
    record_bytes: int = 0
    sizes: dict[bytes, int] = field(default_factory=dict)
    keys: dict[bytes, None] = field(default_factory=dict)
    alone: tuple[bytes, ...] = ()
    saving: Batch | None = None
    waiting: Batch = field(default_factory=Batch)
    expires_at: float = 0.0
    slot: int = 0

    def __post_init__(self) -> None:
        self.alone = (self.name[1],)

    @property
    def size_bytes(self) -> int:
        """Estimated memory, with its keys; what is not saved yet is held as records, too."""
        values = self.record_bytes + self.waiting.record_bytes
        values += self.saving.record_bytes if self.saving is not None else 0
        return ROW_BYTES + values + RECORD_BYTES * self.records + KEY_BYTES * len(self.keys)

    @property
    def is_stored(self) -> bool:
        """Whether the store has the conversation, as far as this process knows."""
        return self.standing in (Standing.OUTDATED, Standing.CURRENT)

    @property
    def is_unsaved(self) -> bool:
        """Whether there are records or keys that the store may not have."""
        return bool(self.saving or self.waiting)

    @property
    def known_version(self) -> int:
        """The version that the store may confirm; 0, which no conversation has, without one."""
        return self.version if self.standing is Standing.CURRENT else 0

    def evict(self) -> None:
        """Leave the table at its next use: another thread may have needed the room."""
        self.leaving.append(self)

    def unsaved(self) -> dict[bytes, bytes]:
        """Return the records that the store may not have."""
        saving = self.saving.records if self.saving is not None else {}
        return saving | self.waiting.records

    # Transitions...

    def begin_save(self) -> Batch:
        """Return the batch to save; records that are added from now on are in the next one."""
        self.saving, self.waiting = self.waiting, Batch()
        return self.saving

    def end_save(self, change: VersionChange | None) -> None:
        """End the save, with what the store returned; None: it failed."""
        batch, self.saving = self.saving, None
        if self.standing is Standing.DELETED:
            return
        if change is None:
            if batch is not None:
                self.waiting.add(batch.records, batch.keys)
        elif self.standing is Standing.UNSENT:
            self.standing = Standing.OUTDATED  # other replicas may have saved, too
        elif self.standing is Standing.CURRENT and change.before == self.version:
            self.version = change.after

    def load(self, version: int, turns: IndexedTurns, read: Mapping[bytes, bytes]) -> None:
        """Take the turns of the store, of these records; what it may lack is added again."""
        self.standing, self.version = Standing.CURRENT, version
        self.turns, self.older = turns, None
        self.records, self.record_bytes = len(read), sum(map(len, read.values()))
        self.added.clear()
        self.add(self.unsaved())

    def delete(self) -> None:
        """Save nothing more of it."""
        self.standing = Standing.DELETED
        self.waiting.records.clear()
        self.waiting.keys.clear()
        self.waiting.record_bytes = 0

    # Turns...

    def add(self, records: Mapping[bytes, bytes]) -> None:
        """Add records, which are decoded later."""
        for name, value in records.items():
            this = turn_of_record(name)
            of_turn = self.added.setdefault(this, {})
            self._count(this, 0 if name in of_turn else 1, len(value) - len(of_turn.get(name, b"")))
            of_turn[name] = value

    def decoded(self) -> IndexedTurns:
        """Return the turns, oldest first; decode only the added records."""
        for this in sorted(self.added):
            records = self.added[this]
            known = self.turns.names.turns.get(turn_id_of_record(this))
            if known is not None:
                held, before = records_of(known), prefix_of_records(known)
                if before == this:
                    self._uncount(this, [held[name] for name in held.keys() & records])
                    records = held | records
                elif before < this:  # two responses have the same id: the later one is kept
                    self._uncount(before, held.values(), is_gone=True)
                else:
                    self._uncount(this, records.values(), is_gone=True)
                    continue
            for turn in turns_of(self.name[1], records):
                self._put(turn)
        self.added.clear()
        return self.turns

    def trim(self, bounds: Bounds) -> None:
        """Drop the oldest turns of an OWN row that exceeds its bounds; a single one stays."""
        count = len(self.sizes)
        if count <= 1 or (count <= bounds.max_turns and self.record_bytes <= bounds.max_bytes):
            return
        turns = self.decoded()  # so that the sizes are exact
        gone = {*what_to_drop(self.sizes, bounds)}
        if not gone:
            return
        for turn in turns:
            if (this := prefix_of_records(turn)) in gone:
                self._uncount(this, records_of(turn).values(), is_gone=True)
        left = [turn for turn in turns if prefix_of_records(turn) not in gone]
        self.turns, self.older = IndexedTurns(left), None

    def _count(self, this: bytes, records: int, size: int) -> None:
        self.records += records
        self.record_bytes += size
        if self.standing is Standing.OWN:
            self.sizes[this] = self.sizes.get(this, 0) + size

    def _uncount(self, this: bytes, values: Iterable[bytes], *, is_gone: bool = False) -> None:
        """Count values of a turn no more: others are kept in their place, or all of it is gone."""
        for value in values:
            self._count(this, -1, -len(value))
        if is_gone:
            self.record_bytes -= self.sizes.pop(this, 0)

    def _put(self, turn: Turn) -> None:
        """Add a turn, or replace the one with its id; fast for the newest turn, the usual case."""
        turns, names = self.turns, self.turns.names.turns
        newest = turns[-1] if turns else None
        if newest is not None and turn.id == newest.id and _goes_on(newest, turn):
            older = self.older if self.older is not None else IndexedTurns(turns[:-1])
        elif newest is None or (turn.created_ms > newest.created_ms and turn.id not in names):
            older = turns
        else:
            others = [one for one in turns if one.id != turn.id]
            by_age = sorted([*others, turn], key=lambda one: (one.created_ms, one.id))
            self.turns, self.older = IndexedTurns(by_age), None
            return
        self.turns, self.older = IndexedTurns([*older, turn], older), older


def _goes_on(turn: Turn, later: Turn) -> bool:
    """Return whether a later state of a turn has all of it; its response may come again."""
    if later.created_ms != turn.created_ms:
        return later.items == turn.items[: len(later.items)]
    return not any(
        now.withheld > was.withheld for was, now in zip(turn.items, later.items, strict=False)
    )
