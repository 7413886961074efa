"""
Conversation cache: decoded copies of conversations, valid only at the version that the store has.

A lookup tells the store which versions are held here. The store answers with the conversations
that have changed, and confirms the others; one that it no longer has was deleted and is dropped.
Only while the store fails are copies used unvalidated (stale-if-error), found by certain keys.

Records that the store did not take stay in the entry of their conversation. They are part of every
answer, and go with the next save of that conversation.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.adapters.resilience.cache_entry import (
    ENTRY_BYTES,
    Batch,
    CacheEntry,
    memory_of,
)
from reasoning_replay.adapters.stores.base import StoredConversation, StoreResult
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    certain_keys_of_turn,
    choose,
)
from reasoning_replay.core.history.turns import Turn, turns_of

__all__ = ["ConversationCache", "Name", "View"]

Name = tuple[bytes, bytes]  # (scope, conversation)

# Held back for the store where `max_bytes` is 0.
UNSAVED_MAX_BYTES = 32 << 20
# Version of a copy of which it is only known that the store has the conversation.
OUTDATED = 0
# What a key in the index takes.
KEY_BYTES = 150


class View(NamedTuple):
    """
    What the cache holds for one lookup, when it begins.

    Attributes:
        lookups: All that the request can be looked up by.
        asked: What the store is asked for: an item whose certain keys lead to a conversation that
            is held needs no doubtful ones, as long as the store still has that conversation.
        entries: By conversation: those that certain keys lead to.
        held: Versions to tell the store, by conversation.
        unsaved: By conversation: records that the store may not have.
        crowded: As `LookupResult.crowded`, where these entries are all there is.
        discards: How many conversations had been deleted here by then.
    """

    scope: bytes
    lookups: Sequence[Lookup]
    asked: Sequence[Lookup]
    entries: Mapping[bytes, CacheEntry]
    held: Mapping[bytes, int]
    unsaved: Mapping[bytes, Mapping[bytes, bytes]]
    crowded: set[int]
    discards: int


class LoadedConversation(NamedTuple):
    """
    A conversation that the store had to send, decoded.

    Attributes:
        turns: Those that the store has, and what it may not have of them.
        turns_bytes: Memory that they take.
        keys: The certain ones, where the conversation may be held.
    """

    stored: StoredConversation
    turns: IndexedTurns
    turns_bytes: int
    keys: Sequence[bytes]


class ConversationCache:
    """Conversations by scope and id, bounded in bytes; the least recently used go first."""

    def __init__(self, max_bytes: int, metrics: Metrics) -> None:
        """
        Start empty.

        Args:
            max_bytes: Of all entries. 0: none is found, and only what is not saved yet is held.
            metrics: Counts lookups by how they were answered.
        """
        self._max_bytes = max_bytes
        self._metrics = metrics
        self._entries: OrderedDict[Name, CacheEntry] = OrderedDict()
        self._index: dict[bytes, tuple[bytes, ...]] = {}  # scope and key -> conversations
        self._discards = 0
        self.size_bytes = 0

    # Looking up...

    def view(self, scope: bytes, lookups: Sequence[Lookup]) -> View:
        """Return what is held for a lookup."""
        if not self._entries:
            return View(scope, lookups, lookups, {}, {}, {}, set(), self._discards)
        certain = [Lookup(item.place, item.certain) for item in lookups if item.certain]
        chosen, crowded = choose(certain, lambda key: self._index.get(scope + key, ()))
        entries = {one: self._entries[scope, one] for one in chosen}
        for one in chosen:
            self._entries.move_to_end((scope, one))
        held = {one: e.version for one, e in entries.items() if e.version is not None}
        unsaved = {one: e.unsaved() for one, e in entries.items() if e.is_unsaved}
        asked = [
            Lookup(item.place, item.certain) if self._leads_to(held, scope, item) else item
            for item in lookups
        ]
        return View(scope, lookups, asked, entries, held, unsaved, crowded, self._discards)

    def decode(self, view: View, result: StoreResult) -> list[LoadedConversation]:
        """Decode what the store had to send; this changes nothing, so a thread may do it."""
        loaded = []
        for stored in result.conversations:
            if stored.records is None:
                continue
            records = {**stored.records, **view.unsaved.get(stored.conversation, {})}
            turns = IndexedTurns(turns_of(stored.conversation, records))
            indexed = turns if self._max_bytes else []
            keys = [key for turn in indexed for key in certain_keys_of_turn(turn)]
            loaded.append(LoadedConversation(stored, turns, memory_of(records), keys))
        return loaded

    def merge(
        self, view: View, result: StoreResult, loaded: Sequence[LoadedConversation]
    ) -> LookupResult:
        """
        Return the store's answer to a lookup, with what is unsaved here; and take it in.

        Args:
            view: What was held when the lookup began.
            result: The store's answer.
            loaded: As `decode` gives it for both.
        """
        found: dict[bytes, IndexedTurns] = {}
        sent = {one.stored.conversation: one for one in loaded}
        for conversation, _, _ in result.conversations:
            if conversation in sent:
                found[conversation] = self._take_in(view, sent[conversation])
            elif conversation in view.held:
                found[conversation] = view.entries[conversation].decoded(conversation)
        for conversation, entry in view.entries.items():
            if conversation in found:
                continue
            if conversation not in view.held:
                if conversation in view.unsaved:  # it began here
                    found[conversation] = entry.decoded(conversation)
            elif entry.version == view.held[conversation]:  # it was deleted
                self.discard((view.scope, conversation))
        if found:
            self._count("loaded" if loaded else "valid")
        return LookupResult(_joined(found), result.crowded)

    def stale(self, view: View) -> LookupResult | None:
        """Return what is held for a lookup that the store did not answer; None: nothing."""
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
        return LookupResult(_joined(found), view.crowded | (doubtful - known), is_stale=True)

    # Saving...

    def add(self, name: Name, records: Mapping[bytes, bytes], keys: Iterable[bytes]) -> Batch:
        """Add records to a conversation; return the batch with which they go to the store."""
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = CacheEntry()
        self._entries.move_to_end(name)
        entry.add(records)
        batch = entry.waiting
        batch.add(records, keys)
        self._lead(name, entry, keys)
        return batch

    def note_saved(self, name: Name, records: Mapping[bytes, bytes], version: int) -> None:
        """Keep a copy current with records that the store has taken already."""
        entry = self._entries.get(name)
        if entry is None or entry.version is None or version != entry.version + 1:
            return
        entry.version = version
        entry.add(records)
        self._lead(name, entry, ())

    def saving(self, name: Name) -> Batch | None:
        """Return the batch of a conversation that is under way."""
        entry = self._entries.get(name)
        return entry.saving if entry is not None else None

    def begin_save(self, name: Name, batch: Batch) -> None:
        """Note that a batch is under way: what is added from now on goes with the next."""
        entry = self._entries.get(name)
        if entry is not None and entry.waiting is batch:
            entry.saving, entry.waiting = batch, Batch()

    def end_save(self, name: Name, batch: Batch, version: int | None) -> None:
        """Take the version that the store has with a batch; None: it did not take it."""
        entry = self._entries.get(name)
        if entry is None or entry.saving is not batch:
            return
        entry.saving = None
        if version is None:
            entry.waiting.add(batch.records, batch.keys)
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
        was_unsaved = entry is not None and entry.is_unsaved
        if entry is not None:
            entry.waiting.records.clear()
            entry.waiting.keys.clear()
        self._drop(name)
        return was_unsaved

    def _take_in(self, view: View, loaded: LoadedConversation) -> IndexedTurns:
        """Hold what the store has of a conversation; return its turns as they are now."""
        stored, turns, turns_bytes, keys = loaded
        conversation, name = stored.conversation, (view.scope, stored.conversation)
        entry = self._entries.get(name) if self._max_bytes else None
        if entry is not None and entry.version == view.held.get(conversation):
            entry.version = stored.version
            entry.replace(turns, turns_bytes)
            turns = entry.decoded(conversation)
        elif entry is None and self._max_bytes and view.discards == self._discards:
            asked = {key for item in view.lookups for key in item.certain}
            if not asked.isdisjoint(keys):  # what was found by its text alone is not held again
                entry = self._entries[name] = CacheEntry(stored.version)
                entry.replace(turns, turns_bytes)
        if entry is not None:
            self._lead(name, entry, keys)
        return turns

    def _lead(self, name: Name, entry: CacheEntry, keys: Iterable[bytes]) -> None:
        """Let keys lead to an entry, and make room for it."""
        scope, alone = name[0], (name[1],)
        for key in keys if self._max_bytes else ():
            if key not in entry.keys:
                entry.keys[key] = None
                others = self._index.get(scope + key)
                self._index[scope + key] = alone if others is None else others + alone
        self.size_bytes -= entry.size_bytes
        entry.size_bytes = ENTRY_BYTES + entry.turns_bytes + KEY_BYTES * len(entry.keys)
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

    def _leads_to(self, held: Container[bytes], scope: bytes, item: Lookup) -> bool:
        """Tell whether a certain key of an item leads to one of these conversations."""
        index = self._index
        return any(one in held for key in item.certain for one in index.get(scope + key, ()))

    def _count(self, result: str) -> None:
        self._metrics.inc(self._metrics.cache_lookups, result)


def _joined(found: Mapping[bytes, IndexedTurns]) -> Sequence[Turn]:
    """Return all turns; those of one conversation as they are, with the index of their items."""
    if len(found) == 1:
        return next(iter(found.values()))
    return [turn for turns in found.values() for turn in turns]
