"""Cache entry: a local copy of one conversation, with the records that may not be saved yet."""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from reasoning_replay.adapters.resilience.store_guard import Call
from reasoning_replay.adapters.stores.base import Name, VersionChange
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.records import (
    prefix_of_records,
    records_of,
    turn_id_of_record,
    turn_of_record,
    turns_of,
)
from reasoning_replay.core.history.turns import Turn

# States of a copy that matches no version: the store may not have the conversation; it has it, but
# its version there is unknown.
NOT_STORED = -1
OUTDATED = 0

# Memory in addition to the values. Measured with the keys: 99 to 103 % of it, for 10 to 600 turns.
ENTRY_BYTES = 1500
RECORD_BYTES = 550


@dataclass(slots=True, eq=False)
class Batch:
    """
    Records and keys of one conversation that one save writes to the store.

    Attributes:
        keys: The keys -> whether they are certain.
        task: The pending or running save, or None.
        call: The operation of that save.
        size_bytes: Bytes of the records that were added since the task was created.
        is_overdue: Whether all of it is of earlier saves that failed.
    """

    records: dict[bytes, bytes] = field(default_factory=dict)
    keys: dict[bytes, bool] = field(default_factory=dict)
    task: asyncio.Task[bool] | None = None
    call: Call = field(default_factory=partial(Call, "save"))
    size_bytes: int = 0
    is_overdue: bool = False

    def add(self, records: Mapping[bytes, bytes], keys: Mapping[bytes, bool]) -> None:
        """Add records and keys to the batch."""
        self.records |= records
        self.keys |= keys

    def __bool__(self) -> bool:
        """Whether there is anything to save."""
        return bool(self.records or self.keys)


@dataclass(slots=True, eq=False, weakref_slot=True)
class CacheEntry:
    """
    Local copy of one conversation.

    Attributes:
        version: Version in the store that this copy matches, or NOT_STORED, or OUTDATED.
        turns: Decoded turns, oldest first, including those of `saving` and `waiting`.
        older: All of `turns` except the newest; None if not built yet.
        added: Records that are not decoded yet, by turn.
        turns_bytes: Estimated memory of `turns` and `added`.
        keys: Certain keys that lead to this entry.
        alone: What a key leads to that leads to this entry alone.
        saving: Batch that is being saved.
        waiting: Next batch: records added in the meantime, and those of failed saves.
        size_bytes: Estimated memory of the entry, with its keys.
        name: Its conversation.
        leaving: Where an entry goes that the room has evicted.
    """

    is_decision: ClassVar[bool] = False

    version: int = NOT_STORED
    turns: IndexedTurns = field(default_factory=lambda: IndexedTurns(()))
    older: IndexedTurns | None = None
    added: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    turns_bytes: int = 0
    keys: list[bytes] = field(default_factory=list)
    alone: tuple[bytes, ...] = ()
    saving: Batch | None = None
    waiting: Batch = field(default_factory=Batch)
    size_bytes: int = 0
    name: Name = (b"", b"")
    leaving: deque["CacheEntry"] = field(default_factory=deque)

    def evict(self) -> None:
        """Leave the cache at its next use: another thread may have needed the room."""
        self.leaving.append(self)

    @property
    def is_stored(self) -> bool:
        """Whether the store has the conversation, as far as this process knows."""
        return self.version != NOT_STORED

    @property
    def is_unsaved(self) -> bool:
        """Whether there are records or keys that the store may not have."""
        return bool(self.saving or self.waiting)

    def unsaved(self) -> dict[bytes, bytes]:
        """Return the records that the store may not have."""
        saving = self.saving.records if self.saving is not None else {}
        return saving | self.waiting.records

    def begin_save(self) -> Batch:
        """Return the batch to save; records that are added from now on are in the next one."""
        self.saving, self.waiting = self.waiting, Batch()
        return self.saving

    def end_save(self, change: VersionChange | None) -> None:
        """End the save, with what the store returned; None: it failed."""
        batch, self.saving = self.saving, None
        if change is None:
            if batch is not None:
                self.waiting.add(batch.records, batch.keys)
        elif not self.is_stored:
            self.version = OUTDATED  # other replicas may have saved, too
        elif change.before == self.version:
            self.version = change.after

    def add(self, records: Mapping[bytes, bytes]) -> None:
        """Add records, which are decoded later."""
        for name, value in records.items():
            of_turn = self.added.setdefault(turn_of_record(name), {})
            self.turns_bytes += 0 if name in of_turn else len(value) + RECORD_BYTES
            of_turn[name] = value

    def replace(self, turns: IndexedTurns, turns_bytes: int) -> None:
        """Replace all turns, and add the unsaved records again."""
        self.turns, self.older, self.turns_bytes = turns, None, turns_bytes
        self.added.clear()
        self.add(self.unsaved())

    def decoded(self, conversation: bytes) -> IndexedTurns:
        """Return the turns, oldest first; decode only the added records."""
        for this in sorted(self.added):
            records = self.added[this]
            known = self.turns.names.turns.get(turn_id_of_record(this))
            if known is not None:
                held, before = records_of(known), prefix_of_records(known)
                if before == this:
                    gone = {name: held[name] for name in held.keys() & records}
                    records = held | records
                else:  # two responses have the same id: the later one is kept
                    gone = held if before < this else records
                self.turns_bytes -= memory_of(gone)
                if before > this:
                    continue
            for turn in turns_of(conversation, records):
                self._put(turn)
        self.added.clear()
        return self.turns

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


def memory_of(records: Mapping[bytes, bytes]) -> int:
    """Return the estimated memory of decoded records, in bytes."""
    return sum(map(len, records.values())) + RECORD_BYTES * len(records)
