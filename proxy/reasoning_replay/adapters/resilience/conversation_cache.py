"""
Conversation cache: decoded copies of conversations, valid only at the version that the store has.

A lookup tells the store which versions are held here. The store answers with the conversations
that have changed, and confirms the others; one that it no longer has was deleted and is dropped.
Only while the store fails are copies used unvalidated (stale-if-error), found by certain keys.

Records that the store did not take stay in the entry of their conversation. They are part of every
answer, and go with the next save of that conversation.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from reasoning_replay.adapters.stores.base import StoredConversation, StoreResult
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    certain_keys_of_turn,
    choose,
)
from reasoning_replay.core.history.turns import Turn, turn_of_record, turns_of

__all__ = ["Batch", "ConversationCache", "Name", "View"]

Name = tuple[bytes, bytes]  # (scope, conversation)

# Held back for the store where `max_bytes` is 0.
UNSAVED_MAX_BYTES = 32 << 20
# Version of a copy of which it is only known that the store has the conversation.
OUTDATED = 0
# Memory besides the values, which are held once as bytes and once decoded.
RECORD_BYTES = 1000
KEY_BYTES = 150


@dataclass(slots=True, eq=False)
class Batch:
    """Records and keys that go to the store in one save."""

    records: dict[bytes, bytes] = field(default_factory=dict)
    keys: dict[bytes, None] = field(default_factory=dict)

    def add(self, other: "Batch") -> None:
        """Take those of another batch, too."""
        self.records |= other.records
        self.keys |= other.keys


@dataclass(slots=True, eq=False)
class _Entry:
    """
    One conversation.

    Attributes:
        version: Of the store's records that are in `records`; None: the store may have none.
        records: By name; those of `saving` and `failed` are among them.
        keys: Those that lead here in the index.
        saving: Batches that are on their way to the store.
        failed: What the store did not take.
        turns: Decoded, but for the turns of `changed`; None: not yet.
        changed: Turns to decode anew, by what the names of their records begin with.
    """

    version: int | None = None
    records: dict[bytes, bytes] = field(default_factory=dict)
    keys: dict[bytes, None] = field(default_factory=dict)
    saving: list[Batch] = field(default_factory=list)
    failed: Batch = field(default_factory=Batch)
    turns: IndexedTurns | None = None
    changed: set[bytes] = field(default_factory=set)
    size_bytes: int = 0

    @property
    def is_unsaved(self) -> bool:
        return bool(self.saving or self.failed.records or self.failed.keys)

    def unsaved(self) -> dict[bytes, bytes]:
        """Return the records that the store may not have."""
        unsaved = dict(self.failed.records)
        for batch in self.saving:
            unsaved |= batch.records
        return unsaved

    def decoded(self, conversation: bytes) -> IndexedTurns:
        """Return its turns, oldest first; new ones alone are decoded."""
        turns = self.turns
        if turns is not None and self.changed:
            some = {n: v for n, v in self.records.items() if turn_of_record(n) in self.changed}
            for turn in turns_of(conversation, some):
                is_newest = not turns or turn.created_ms > turns[-1].created_ms
                if not is_newest or turn.id in turns.names.turns:
                    turns = None
                    break
                turns = IndexedTurns([*turns, turn], turns)
        if turns is None:
            turns = IndexedTurns(turns_of(conversation, self.records))
        self.turns = turns
        self.changed.clear()
        return turns


class View(NamedTuple):
    """
    What the cache holds for one lookup, when it begins.

    Attributes:
        entries: By conversation: those that certain keys lead to.
        held: Versions to tell the store, by conversation.
        unsaved: By conversation: records that the store may not have.
        crowded: As `LookupResult.crowded`, where these entries are all there is.
        discards: How many conversations had been deleted here by then.
    """

    scope: bytes
    lookups: Sequence[Lookup]
    entries: Mapping[bytes, _Entry]
    held: Mapping[bytes, int]
    unsaved: Mapping[bytes, Mapping[bytes, bytes]]
    crowded: set[int]
    discards: int


class ConversationCache:
    """Conversations by scope and id, bounded in bytes; the least recently used go first."""

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        """
        Start empty.

        Args:
            max_bytes: Of all entries. 0: only what is not saved yet is held.
            metrics: Counts lookups by how they were answered.
        """
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._entries: OrderedDict[Name, _Entry] = OrderedDict()
        self._index: dict[bytes, tuple[bytes, ...]] = {}  # scope and key -> conversations
        self._discards = 0
        self.size_bytes = 0

    # Looking up...

    def view(self, scope: bytes, lookups: Sequence[Lookup]) -> View:
        """Return what is held for a lookup."""
        certain = [Lookup(item.place, item.certain) for item in lookups if item.certain]
        chosen, crowded = choose(certain, lambda key: self._index.get(scope + key, ()))
        entries = {one: self._entries[scope, one] for one in chosen}
        for one in chosen:
            self._entries.move_to_end((scope, one))
        held = {one: e.version for one, e in entries.items() if e.version is not None}
        unsaved = {one: e.unsaved() for one, e in entries.items() if e.is_unsaved}
        return View(scope, lookups, entries, held, unsaved, crowded, self._discards)

    def merge(self, view: View, result: StoreResult) -> LookupResult:
        """Return the store's answer to a lookup, with what is unsaved here; and take it in."""
        found: dict[bytes, IndexedTurns] = {}
        is_loaded = False
        for stored in result.conversations:
            if stored.records is not None:
                is_loaded = True
                found[stored.conversation] = self._load(view, stored)
            elif stored.conversation in view.held:
                entry = view.entries[stored.conversation]
                found[stored.conversation] = entry.decoded(stored.conversation)
        for conversation, entry in view.entries.items():
            if conversation in found:
                continue
            if conversation not in view.held:
                if conversation in view.unsaved:  # it began here
                    found[conversation] = entry.decoded(conversation)
            elif entry.version == view.held[conversation]:
                self._drop((view.scope, conversation))
        if found:
            self._count("loaded" if is_loaded else "valid")
        return LookupResult(_joined(found), result.crowded)

    def stale(self, view: View) -> LookupResult | None:
        """Return what is held for a lookup that the store did not answer; None: nothing."""
        if not self._max_bytes:
            return None
        found = {one: entry.decoded(one) for one, entry in view.entries.items()}
        if not any(found.values()):
            return None
        self._count("stale")
        # Who else may have said what no certain key leads to here is not known.
        index = self._index
        known = {
            item.place
            for item in view.lookups
            if any(view.scope + key in index for key in item.certain)
        }
        doubtful = {item.place for item in view.lookups if item.doubtful}
        return LookupResult(_joined(found), view.crowded | (doubtful - known))

    # Saving...

    def begin_save(
        self, name: Name, records: Mapping[bytes, bytes], keys: Sequence[bytes]
    ) -> Batch:
        """Add records; return them with those that the store did not take before."""
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _Entry()
        entry.changed.update(map(turn_of_record, records.keys() - entry.records.keys()))
        entry.records |= records
        batch, entry.failed = entry.failed, Batch()
        batch.add(Batch(dict(records), dict.fromkeys(keys)))
        entry.saving.append(batch)
        self._lead(name, entry, keys)
        return batch

    def end_save(self, name: Name, batch: Batch, version: int | None) -> None:
        """Take the version that the store has with a batch; None: it did not take it."""
        entry = self._entries.get(name)
        if entry is None or batch not in entry.saving:
            return
        entry.saving.remove(batch)
        if version is None:
            entry.failed.add(batch)
        elif entry.version is None:
            entry.version = OUTDATED  # others may have saved, too
        elif version == entry.version + 1:
            entry.version = version
        if not self._max_bytes and not entry.is_unsaved:
            self._drop(name)

    def discard(self, name: Name) -> bool:
        """Drop a conversation that is deleted; False when nothing of it was held for the store."""
        self._discards += 1
        entry = self._entries.get(name)
        self._drop(name)
        return entry is not None and entry.is_unsaved

    def _load(self, view: View, stored: StoredConversation) -> IndexedTurns:
        """Take in what the store has of a conversation."""
        conversation, name = stored.conversation, (view.scope, stored.conversation)
        entry = self._entries.get(name)
        records = {**(stored.records or {}), **view.unsaved.get(conversation, {})}
        if entry is not None and entry.version == view.held.get(conversation):
            entry.version, entry.records = stored.version, records | entry.unsaved()
            entry.turns = None
            turns = entry.decoded(conversation)
        else:
            turns = IndexedTurns(turns_of(conversation, records))
        keys = [key for turn in turns for key in certain_keys_of_turn(turn)]
        if entry is None and self._max_bytes and view.discards == self._discards:
            asked = {key for item in view.lookups for key in item.certain}
            if not asked.isdisjoint(keys):  # what was found by its text alone is not held again
                entry = self._entries[name] = _Entry(stored.version, records, turns=turns)
        if entry is not None:
            self._lead(name, entry, keys)
        return turns

    def _lead(self, name: Name, entry: _Entry, keys: Sequence[bytes]) -> None:
        """Let keys lead to an entry, and make room for it."""
        scope, conversation = name
        for key in keys:
            if key not in entry.keys:
                entry.keys[key] = None
                at = scope + key
                self._index[at] = (*self._index.get(at, ()), conversation)
        self.size_bytes -= entry.size_bytes
        values = 2 * sum(map(len, entry.records.values()))
        entry.size_bytes = values + RECORD_BYTES * len(entry.records) + KEY_BYTES * len(entry.keys)
        self.size_bytes += entry.size_bytes
        while self.size_bytes > (self._max_bytes or UNSAVED_MAX_BYTES):
            self._drop(next(iter(self._entries)))

    def _drop(self, name: Name) -> None:
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self.size_bytes -= entry.size_bytes
        scope, conversation = name
        for key in entry.keys:
            others = tuple([one for one in self._index.pop(scope + key) if one != conversation])
            if others:
                self._index[scope + key] = others

    def _count(self, result: str) -> None:
        self._metrics.cache_lookups.labels(result).inc()


def _joined(found: Mapping[bytes, IndexedTurns]) -> Sequence[Turn]:
    """Return all turns; those of one conversation as they are, with the index of their items."""
    if len(found) == 1:
        return next(iter(found.values()))
    return [turn for turns in found.values() for turn in turns]
