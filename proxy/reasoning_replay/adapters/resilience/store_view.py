"""
Store view: one look-up that the local table and its store answer together.

A look-up sends the versions of the rows to the store. The store returns the conversations that have
changed, and confirms the others; a row that it no longer has is dropped. While the store fails, the
rows are used without validation (stale-if-error).
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from typing_extensions import override

from reasoning_replay.adapters.resilience.conversation import Conversation, Standing
from reasoning_replay.adapters.resilience.local_table import Index, LocalTable, all_of
from reasoning_replay.adapters.stores.base import StoredConversation, StoreResult
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    id_keys_of_turn,
)
from reasoning_replay.core.history.records import prefix_of_records, turn_of_record, turns_of


class Versions(Mapping[bytes, int]):
    """
    Versions of rows as of now.

    A save of this process may change the version of a row during a look-up. Without this, the
    answer would look like a change by another replica, and the conversation would be loaded.
    """

    def __init__(self, rows: Mapping[bytes, Conversation]) -> None:
        self._rows = rows

    @override
    def __getitem__(self, conversation: bytes) -> int:
        return self._rows[conversation].known_version

    @override
    def __iter__(self) -> Iterator[bytes]:
        return iter(self._rows)

    @override
    def __len__(self) -> int:
        return len(self._rows)


class Loaded(NamedTuple):
    """
    A conversation that the store returned with its records, decoded.

    Attributes:
        turns: Turns from the store, including the unsaved records.
        read: The records of these turns.
        keys: The id keys of the turns; empty if the table holds only unsaved records.
    """

    stored: StoredConversation
    turns: IndexedTurns
    read: Mapping[bytes, bytes]
    keys: Sequence[bytes]


class StoreView:
    """
    Content of the table for one look-up, at the time when the look-up begins.

    Attributes:
        lookups: All lookups of the request.
        rows: Rows that id keys lead to, by conversation.
        stood: How each of them stood then, and at which version.
        held: Versions of the rows that the store may have: it also says if they were deleted.
        asked: Lookups for the store. If id keys of an item lead to one of those rows, its
            content keys are omitted; they are needed if the store has lost the conversation.
        unsaved: Records that the store may not have, by conversation.
    """

    def __init__(self, table: LocalTable, scope: bytes, lookups: Sequence[Lookup]) -> None:
        self.scope, self.lookups = scope, lookups
        self._table, self._drops = table, table.drops
        self.rows, self._crowded = table.choose(scope, lookups)
        self.stood = {one: (row.standing, row.version) for one, row in self.rows.items()}
        self.unsaved = {one: row.unsaved() for one, row in self.rows.items() if row.is_unsaved}
        known = {one: row for one, row in self.rows.items() if row.is_stored or row.is_unsaved}
        self.held = Versions(known)
        index = table.index(scope) if known else {}
        self.asked = [
            Lookup(item.place, item.id_keys) if _leads_to(index, known, item) else item
            for item in lookups
        ]

    def note_deleted(self, result: StoreResult) -> bool:
        """
        Drop what was deleted, as the store says; return whether that is news.

        Then the view is out of date, and the look-up begins again.
        """
        for conversation in result.deleted:
            self._table.note_deletion((self.scope, conversation))
        return self._table.note_scope(self.scope, result.mark) or bool(result.deleted)

    def is_whole(self, result: StoreResult) -> bool:
        """Return whether the store still has each conversation that it had."""
        stored = {one for one, (standing, _) in self.stood.items() if _is_stored(standing)}
        return stored <= {one.conversation for one in result.conversations}

    def decode(self, result: StoreResult) -> list[Loaded]:
        """Decode the returned conversations; this changes nothing, so it may run in a thread."""
        loaded = []
        for stored in result.conversations:
            if stored.records is None:
                continue
            records = {**stored.records, **self.unsaved.get(stored.conversation, {})}
            turns = IndexedTurns(turns_of(stored.conversation, records))
            indexed = turns if self._table.keeps_copies else []
            keys = [key for turn in indexed for key in id_keys_of_turn(turn)]
            kept = {prefix_of_records(turn) for turn in turns}
            read = {name: records[name] for name in records if turn_of_record(name) in kept}
            loaded.append(Loaded(stored, turns, read, keys))
        return loaded

    def merge(self, result: StoreResult, loaded: Sequence[Loaded]) -> LookupResult:
        """Take what the store returned, decoded, into the table; return it with what is unsaved."""
        found: dict[bytes, IndexedTurns] = {}
        sent = {one.stored.conversation: one for one in loaded}
        for conversation, _, _ in result.conversations:
            if conversation in sent:
                found[conversation] = self._take_in(sent[conversation])
            elif (row := self.rows.get(conversation)) is not None:
                found[conversation] = row.decoded()
        for conversation, row in self.rows.items():
            if conversation in found:
                continue
            if not _is_stored(self.stood[conversation][0]):
                if conversation in self.unsaved:  # created here, not saved yet
                    found[conversation] = row.decoded()
            elif (row.standing, row.version) == self.stood[conversation]:
                # It was deleted, or has expired.
                self._table.discard((self.scope, conversation))
        return LookupResult(all_of(found), result.crowded)

    def stale(self) -> LookupResult | None:
        """Return the rows for a look-up that failed in the store; None if there is none."""
        found = {
            one: row.decoded()
            for one, row in self.rows.items()
            if self._table.row(row.name) is row  # it may have been deleted meanwhile
        }
        if not any(found.values()):
            return None
        # An item that no id key leads to may also occur in conversations that are not here.
        index = self._table.index(self.scope)
        known = {item.place for item in self.lookups if any(key in index for key in item.id_keys)}
        by_content = {item.place for item in self.lookups if item.content_keys}
        return LookupResult(all_of(found), self._crowded | (by_content - known), is_stale=True)

    def _take_in(self, loaded: Loaded) -> IndexedTurns:
        """Add a loaded conversation to the table; return its current turns."""
        stored, turns, read, keys = loaded
        conversation, table = stored.conversation, self._table
        row = table.row((self.scope, conversation)) if table.keeps_copies else None
        stood = self.stood.get(conversation, (Standing.UNSENT, 0))
        if row is not None and (row.standing, row.version) == stood:
            row.load(stored.version, turns, read)
            turns = row.decoded()
        elif row is None and table.keeps_copies and self._drops == table.drops:
            asked = {key for item in self.lookups for key in item.id_keys}
            if not asked.isdisjoint(keys):  # not if only content keys found it
                row = table.begin((self.scope, conversation), Standing.CURRENT)
                row.load(stored.version, turns, read)
        if row is not None:
            table.lead(row, keys)
        return turns


def _is_stored(standing: Standing) -> bool:
    return standing in (Standing.OUTDATED, Standing.CURRENT)


def _leads_to(index: Index, known: Container[bytes], item: Lookup) -> bool:
    """Return whether an id key of an item leads to one of these conversations."""
    return any(one in known for key in item.id_keys for one in index.get(key, ()))
