"""
Conversation cache: decoded copies of conversations, valid only at the version that the store has.

A lookup sends the versions of the local copies to the store. The store returns the conversations
that have changed, and confirms the others; a copy that it no longer has is dropped. While the store
fails, copies that `certain` keys lead to are used without validation (stale-if-error).

Records of a failed save stay in the entry of their conversation. They are part of every lookup
result, and are written by the next save of that conversation, or when the store is back.
"""

from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from typing_extensions import override

from reasoning_replay.adapters.resilience.cache_entry import (
    ENTRY_BYTES,
    NOT_STORED,
    CacheEntry,
    memory_of,
)
from reasoning_replay.adapters.resilience.deletions import Deletions
from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    Name,
    StoredConversation,
    StoreResult,
    VersionChange,
)
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.item_index import FoundTurns, IndexedTurns
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    certain_keys_of_turn,
    choose,
)
from reasoning_replay.core.history.records import prefix_of_records, turn_of_record, turns_of
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.history.turns import Turn

# Memory of a key with its place in the index; measured.
KEY_BYTES = 150

Index = dict[bytes, tuple[bytes, ...]]  # key -> conversations, the newest last
_NO_INDEX: Index = {}


class View(NamedTuple):
    """
    Content of the cache for one lookup, at the time when the lookup begins.

    Attributes:
        lookups: All lookups of the request.
        asked: Lookups for the store. If `certain` keys of an item lead to a conversation that is
            held or unsaved, its `doubtful` ones are omitted; they are needed if the store has lost
            the conversation.
        entries: Entries that `certain` keys lead to, by conversation.
        held: Versions of the entries that the store may confirm, by conversation.
        asked_for: Those, and the entries that the store may not have: it says if they were deleted.
        unsaved: Records that the store may not have, by conversation.
        crowded: As `LookupResult.crowded`, for these entries alone.
        discards: Number of deletions in this cache until then.
    """

    scope: bytes
    lookups: Sequence[Lookup]
    asked: Sequence[Lookup]
    entries: Mapping[bytes, CacheEntry]
    held: Mapping[bytes, int]
    asked_for: Mapping[bytes, CacheEntry]
    unsaved: Mapping[bytes, Mapping[bytes, bytes]]
    crowded: set[int]
    discards: int


class Versions(Mapping[bytes, int]):
    """
    Versions of the copies of a view, as of now.

    A save of this process may change the version of a copy during a lookup. Without this, the
    answer would look like a change by another replica, and the conversation would be loaded.
    """

    def __init__(self, view: View) -> None:
        self._entries = view.asked_for

    @override
    def __getitem__(self, conversation: bytes) -> int:
        return self._entries[conversation].version

    @override
    def __iter__(self) -> Iterator[bytes]:
        return iter(self._entries)

    @override
    def __len__(self) -> int:
        return len(self._entries)


class LoadedConversation(NamedTuple):
    """
    A conversation that the store returned with its records, decoded.

    Attributes:
        turns: Turns from the store, including the unsaved records.
        turns_bytes: Estimated memory of the turns.
        keys: The `certain` keys of the turns; empty if the cache holds only unsaved records.
    """

    stored: StoredConversation
    turns: IndexedTurns
    turns_bytes: int
    keys: Sequence[bytes]


class ConversationCache:
    """
    Cache of conversations by scope and id, in the room that all of a process share.

    Without `keeps_copies`, no lookup finds a conversation, and only unsaved records are held.

    Attributes:
        room: The room.
        deletions: Deletions that this process knows.
    """

    def __init__(self, room: Room, metrics: Metrics, *, keeps_copies: bool = True) -> None:
        self.room = room
        self._keeps_copies = keeps_copies
        self._metrics = metrics
        self._entries: dict[Name, CacheEntry] = {}
        self._leaving: deque[CacheEntry] = deque()  # evicted by the room
        self._index: dict[bytes, Index] = {}  # by scope
        self._discards = 0
        self.deletions = Deletions()

    # Looking up...

    def view(self, scope: bytes, lookups: Sequence[Lookup]) -> View:
        """Return the view for a lookup; its entries count as used."""
        self._let_go()
        index = self._index.get(scope, _NO_INDEX)
        asked_by = [key for item in lookups for key in item.certain]
        if index.keys().isdisjoint(asked_by):
            return View(scope, lookups, lookups, {}, {}, {}, {}, set(), self._discards)
        certain = [Lookup(item.place, item.certain) for item in lookups if item.certain]
        chosen, crowded = choose(certain, index.get)
        entries = {one: self._entries[scope, one] for one in chosen}
        for entry in entries.values():
            self.room.use(entry)
        held = {one: e.version for one, e in entries.items() if e.is_stored}
        unsaved = {one: e.unsaved() for one, e in entries.items() if e.is_unsaved}
        known = held.keys() | unsaved.keys()
        asked_for = {one: entries[one] for one in known}
        asked = [
            Lookup(item.place, item.certain) if _leads_to(index, known, item) else item
            for item in lookups
        ]
        return View(
            scope, lookups, asked, entries, held, asked_for, unsaved, crowded, self._discards
        )

    def note_deleted(self, view: View, result: StoreResult) -> bool:
        """
        Drop what was deleted, as the store says; return whether that is news.

        Then the view is out of date, and the lookup begins again.
        """
        for conversation in result.deleted:
            self.note_deletion((view.scope, conversation))
        return self.note_scope(view.scope, result.mark) or bool(result.deleted)

    def decode(self, view: View, result: StoreResult) -> list[LoadedConversation]:
        """Decode the returned conversations; this changes nothing, so it may run in a thread."""
        loaded = []
        for stored in result.conversations:
            if stored.records is None:
                continue
            records = {**stored.records, **view.unsaved.get(stored.conversation, {})}
            turns = IndexedTurns(turns_of(stored.conversation, records))
            indexed = turns if self._keeps_copies else []
            keys = [key for turn in indexed for key in certain_keys_of_turn(turn)]
            kept = {prefix_of_records(turn) for turn in turns}
            read = {name: records[name] for name in records if turn_of_record(name) in kept}
            loaded.append(LoadedConversation(stored, turns, memory_of(read), keys))
        return loaded

    def merge(
        self, view: View, result: StoreResult, loaded: Sequence[LoadedConversation]
    ) -> LookupResult:
        """Add a result of the store, decoded, to the cache; return it with the unsaved records."""
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
                if conversation in view.unsaved:  # created here, not saved yet
                    found[conversation] = entry.decoded(conversation)
            elif entry.version == view.held[conversation]:  # it was deleted, or has expired
                self.discard((view.scope, conversation))
        if found:
            self._count("loaded" if loaded else "valid")
        return LookupResult(_all_of(found), result.crowded)

    def stale(self, view: View) -> LookupResult | None:
        """Return the local copies for a lookup that failed in the store; None if it has none."""
        found = {
            one: entry.decoded(one)
            for one, entry in view.entries.items()
            if self._entries.get((view.scope, one)) is entry  # it may have been deleted meanwhile
        }
        if not any(found.values()):
            return None
        self._count("stale")
        # An item that no `certain` key leads to may also occur in conversations that are not here.
        index = self._index.get(view.scope, _NO_INDEX)
        known = {item.place for item in view.lookups if any(key in index for key in item.certain)}
        doubtful = {item.place for item in view.lookups if item.doubtful}
        return LookupResult(_all_of(found), view.crowded | (doubtful - known), is_stale=True)

    def line(self, name: Name) -> object:
        """Return `IndexedTurns.line` of the copy of a conversation; None without a copy."""
        entry = self._entries.get(name)
        return entry.turns.line if entry is not None else None

    # Saving...

    def entry(self, name: Name) -> CacheEntry | None:
        """Return the entry of a conversation, or None."""
        return self._entries.get(name)

    def add(
        self, name: Name, records: Mapping[bytes, bytes], keys: Mapping[bytes, bool]
    ) -> CacheEntry:
        """Add records and keys to a conversation, and to what its next save writes."""
        self._let_go()
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = self._new(name)
        entry.add(records)
        entry.waiting.add(records, keys)
        self._lead(name, entry, _certain(keys))
        return entry

    def note_saved(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Mapping[bytes, bool],
        change: VersionChange,
    ) -> None:
        """Add records and keys that are already saved to the local copy, if it is current."""
        entry = self._entries.get(name)
        if entry is None or not entry.is_stored or entry.version != change.before:
            return
        entry.version = change.after
        entry.add(records)
        self._lead(name, entry, _certain(keys))

    def end_save(self, name: Name, entry: CacheEntry, change: VersionChange | None) -> None:
        """End the save of an entry, with what the store returned; None: it failed."""
        entry.end_save(change)
        if not self._keeps_copies and not entry.is_unsaved and self._entries.get(name) is entry:
            self._drop(name)

    def discard(self, name: Name) -> bool:
        """Drop a deleted conversation; return whether it had unsaved records."""
        self._discards += 1
        entry = self._entries.get(name)
        was_unsaved = entry is not None and entry.is_unsaved
        if entry is not None:
            entry.waiting.records.clear()
            entry.waiting.keys.clear()
        self._drop(name)
        self.room.clear(name)  # and what was decided about its requests
        return was_unsaved

    def note_deletion(self, name: Name) -> bool:
        """Drop a conversation that was deleted for good; return whether it had unsaved records."""
        self.deletions.note(name)
        return self.discard(name)

    def note_scope(self, scope: bytes, mark: bytes) -> bool:
        """
        Drop all of a scope that was deleted with this mark; b"": none.

        Returns:
            Whether the mark is new.

        Cost: a walk over all entries, once for each deletion.
        """
        is_new = self.deletions.note_scope(scope, mark)
        if is_new:
            for name in [name for name in self._entries if name[0] == scope]:
                self.discard(name)
        return is_new

    def count_unsaved(self, scope: bytes) -> int:
        """Return how many conversations of a scope the store may not have."""
        entries = [entry for name, entry in self._entries.items() if name[0] == scope]
        return sum([entry.is_unsaved and not entry.is_stored for entry in entries])

    def _take_in(self, view: View, loaded: LoadedConversation) -> IndexedTurns:
        """Add a loaded conversation to the cache; return its current turns."""
        stored, turns, turns_bytes, keys = loaded
        conversation, name = stored.conversation, (view.scope, stored.conversation)
        entry = self._entries.get(name) if self._keeps_copies else None
        if entry is not None and entry.version == view.held.get(conversation, NOT_STORED):
            entry.version = stored.version
            entry.replace(turns, turns_bytes)
            turns = entry.decoded(conversation)
        elif entry is None and self._keeps_copies and view.discards == self._discards:
            asked = {key for item in view.lookups for key in item.certain}
            if not asked.isdisjoint(keys):  # not if only `doubtful` keys found it
                entry = self._entries[name] = self._new(name, stored.version)
                entry.replace(turns, turns_bytes)
        if entry is not None:
            self._lead(name, entry, keys)
        return turns

    def _lead(self, name: Name, entry: CacheEntry, keys: Sequence[bytes]) -> None:
        """
        Add certain keys to an entry, update its size, and evict entries to make room.

        As in a store, each key keeps its newest CONVERSATIONS_PER_KEY.
        """
        scope, conversation = name
        if keys and self._keeps_copies:
            index = self._index.setdefault(scope, {})
            for key in keys:
                others = index.get(key, ())
                if conversation not in others:
                    entry.keys.append(key)
                    newest = others[1 - CONVERSATIONS_PER_KEY :]
                    index[key] = newest + entry.alone if newest else entry.alone
        entry.size_bytes = ENTRY_BYTES + entry.turns_bytes + KEY_BYTES * len(entry.keys)
        self.room.keep(entry, scope, name, entry.size_bytes)
        self._let_go()

    def _new(self, name: Name, version: int = NOT_STORED) -> CacheEntry:
        return CacheEntry(version, name=name, alone=(name[1],), leaving=self._leaving)

    def _let_go(self) -> None:
        """Drop the entries that the room has evicted."""
        while self._leaving:
            entry = self._leaving.popleft()
            if self._entries.get(entry.name) is entry:
                self._drop(entry.name)

    def _drop(self, name: Name) -> None:
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self.room.leave(entry)
        scope, conversation = name
        index = self._index.get(scope, {})
        for key in entry.keys:
            others = tuple([one for one in index.pop(key, ()) if one != conversation])
            if others:
                index[key] = others
        if not index:
            self._index.pop(scope, None)

    def _count(self, result: str) -> None:
        self._metrics.inc(self._metrics.cache_lookups, result)


def _certain(keys: Mapping[bytes, bool]) -> Sequence[bytes]:
    """Return the certain keys; the local copies are found by no others."""
    return [key for key, is_certain in keys.items() if is_certain]


def _leads_to(index: Index, known: Container[bytes], item: Lookup) -> bool:
    """Return whether a `certain` key of an item leads to one of these conversations."""
    return any(one in known for key in item.certain for one in index.get(key, ()))


def _all_of(found: Mapping[bytes, IndexedTurns]) -> Sequence[Turn]:
    """Return all turns; for a single conversation, its own list, which has an index of items."""
    if len(found) == 1:
        return next(iter(found.values()))
    return FoundTurns(found)
