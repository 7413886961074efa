"""
Local table: what this process knows of conversations, by scope and id.

A look-up reads it first, and its store confirms each row; a save writes here first. A row says how
it stands to the store's copy (`Standing`), and what the store may lack. With `memory://` there is
no store: the table is all there is.

Rows are bounded by a room. One that the store lacks something of is evicted after those that it has
completely; what is being saved is still saved.
"""

import asyncio
import re
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.adapters.resilience.conversation import Conversation, Standing
from reasoning_replay.adapters.resilience.deletions import Deletions
from reasoning_replay.adapters.resilience.slots import Slots
from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    BadCursor,
    Bounds,
    ConversationInfo,
    Name,
    Page,
    StoreUsage,
    VersionChange,
)
from reasoning_replay.core.history.item_index import FoundTurns, IndexedTurns
from reasoning_replay.core.history.lookup_keys import ConversationChoice, Lookup, choose
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.history.turns import Turn

# Most rows that one call drops because they have expired, and that a survey looks at in one go.
EXPIRED_AT_ONCE = 64
SURVEYED_AT_ONCE = 1000

Index = Mapping[bytes, tuple[bytes, ...]]  # key -> conversations, the newest last
_NO_INDEX: Index = {}
_NO_CHOICE = ConversationChoice([], set())


class Alone(NamedTuple):
    """
    What a table needs that has no store.

    Attributes:
        bounds: Limits of each conversation.
        clock: Monotonic clock, in seconds.
    """

    bounds: Bounds
    clock: Callable[[], float]


class Chosen(NamedTuple):
    """
    Rows that a request may continue.

    Attributes:
        rows: The rows, by conversation.
        crowded: As `LookupResult.crowded`, for these rows alone.
    """

    rows: Mapping[bytes, Conversation]
    crowded: set[int]


class LocalTable:
    """
    Rows by scope and conversation; with `memory://`, the least recently used first.

    Without `keeps_copies`, no look-up finds a row, and only rows with unsaved records are held.

    Attributes:
        room: Memory of the rows.
        deletions: Deletions that this process knows.
        drops: Number of conversations that were deleted, or were gone from the store.
    """

    def __init__(
        self,
        room: Room,
        *,
        keeps_copies: bool = True,
        alone: Alone | None = None,
        decisions: Room | None = None,
    ) -> None:
        """
        Create an empty table.

        Args:
            room: Memory of the rows.
            keeps_copies: Whether it keeps what the store has, too.
            alone: Set if it has no store.
            decisions: Memory of what was decided about requests, if that is another one.
        """
        self.room = room
        self.deletions = Deletions()
        self.drops = 0
        self.keeps_copies = keeps_copies
        self._alone = alone
        self._rooms = (room,) if decisions is None else (room, decisions)
        self._rows: OrderedDict[Name, Conversation] = OrderedDict()
        self._leaving: deque[Conversation] = deque()  # evicted by the room
        # By scope, then by key: containers of bytes alone cost the garbage collector nothing.
        self._index: dict[bytes, dict[bytes, tuple[bytes, ...]]] = {}
        self._slots = Slots()

    # Looking up...

    def index(self, scope: bytes) -> Index:
        """Return the keys of a scope with the conversations that they lead to."""
        return self._index.get(scope, _NO_INDEX)

    def row(self, name: Name) -> Conversation | None:
        """Return the row of a conversation, or None."""
        return self._rows.get(name)

    def line(self, name: Name) -> object:
        """Return `IndexedTurns.line` of a row; None without one."""
        row = self._rows.get(name)
        return row.turns.line if row is not None else None

    def choose(self, scope: bytes, lookups: Sequence[Lookup]) -> Chosen:
        """
        Return the rows that a request may continue; they count as used.

        With a store, only id keys lead to rows: there may be others with
        the same text.
        """
        now = self._tidy()
        index = self.index(scope)
        if self._alone is None:
            lookups = [Lookup(one.place, one.id_keys) for one in lookups if one.id_keys]
            asked = (key for one in lookups for key in one.id_keys)
            choice = _NO_CHOICE if index.keys().isdisjoint(asked) else choose(lookups, index.get)
        elif self._is_expired(
            next(iter(self._rows.values()), None), now
        ):  # more than `_tidy` drops
            choice = choose(lookups, lambda key: self._live(scope, index.get(key, ()), now))
        else:
            choice = choose(lookups, index.get)
        rows = {one: self._rows[scope, one] for one in choice.conversations}
        for row in rows.values():
            self._use(row, now)
        return Chosen(rows, choice.crowded)

    # Saving...

    def write(
        self, name: Name, records: Mapping[bytes, bytes], keys: Mapping[bytes, bool]
    ) -> Conversation | None:
        """
        Add records, and keys (-> whether they are of ids), to a conversation.

        With a store, they are a part of what the next save of it writes.

        Returns:
            The row; None if there is no store, and the conversation was deleted for good.
        """
        now = self._tidy()
        row = self._rows.get(name)
        if self._alone is None:
            row = row or self.begin(name, Standing.UNSENT)
            row.add(records)
            row.waiting.add(records, keys)
            self.lead(row, [key for key, is_of_id in keys.items() if is_of_id])
            return row
        if row is not None and self._is_expired(row, now):
            self._drop(row)
            row = None
        if row is None:
            if self.deletions.is_known(name):
                return None
            row = self.begin(name, Standing.OWN)
            row.slot = self._slots.take(name)
        self._use(row, now)
        row.add(records)
        row.trim(self._alone.bounds)
        self.lead(row, keys)
        return row

    def end_save(self, row: Conversation, change: VersionChange | None) -> None:
        """End the save of a row, with what the store returned; None: it failed."""
        row.end_save(change)
        if self._rows.get(row.name) is not row:
            return
        if self.keeps_copies or row.is_unsaved:
            self.lead(row, ())
        else:
            self._drop(row)

    def begin(self, name: Name, standing: Standing) -> Conversation:
        """Add a row without turns."""
        row = self._rows[name] = Conversation(name, self._leaving, standing)
        return row

    def lead(self, row: Conversation, keys: Iterable[bytes]) -> None:
        """
        Add keys to a row, and make room for what has changed of it.

        As in a store, each key keeps its newest CONVERSATIONS_PER_KEY.
        """
        scope, conversation = row.name
        if keys and self.keeps_copies:
            index = self._index.setdefault(scope, {})
            for key in keys:
                others = index.get(key)
                if others is None:
                    index[key] = row.alone  # the usual case
                elif conversation in others:
                    continue
                else:
                    if len(others) == CONVERSATIONS_PER_KEY:
                        others = self._without_oldest(scope, key, others)
                    index[key] = others + row.alone
                row.keys[key] = None
        self.room.keep(row, scope, row.name, row.size_bytes, is_unsaved=row.is_unsaved)
        self._let_go()

    # Deleting...

    def discard(self, name: Name) -> bool:
        """Drop a conversation that is gone; return whether it was here, and the store lacked it."""
        self.drops += 1
        row = self._rows.get(name)
        was_lacking = row is not None and (row.is_unsaved or row.standing is Standing.OWN)
        if row is not None:
            was_lacking = was_lacking and not self._is_expired(row, self._now())
            row.delete()
            self._drop(row)
        for room in self._rooms:
            room.clear(name)  # and what was decided about its requests
        return was_lacking

    def note_deletion(self, name: Name) -> bool:
        """Drop a conversation that was deleted for good; return as `discard`."""
        self.deletions.note(name)
        return self.discard(name)

    def note_scope(self, scope: bytes, mark: bytes) -> bool:
        """
        Drop all of a scope that was deleted with this mark; b"": none.

        Returns:
            Whether the mark is new.

        Cost: a walk over all rows, once for each deletion.
        """
        is_new = self.deletions.note_scope(scope, mark)
        if is_new:
            for name in [name for name in self._rows if name[0] == scope]:
                self.discard(name)
        return is_new

    def forget_scope(self, scope: bytes) -> int:
        """Delete all of a scope; it has no store. Return how many there were."""
        count = self.count_unsaved(scope)
        self.note_scope(scope, secrets.token_bytes(16))
        return count

    def count_unsaved(self, scope: bytes) -> int:
        """Return how many conversations of a scope are here alone."""
        now = self._now()
        rows = [row for name, row in self._rows.items() if name[0] == scope]
        return sum([not (row.is_stored or self._is_expired(row, now)) for row in rows])

    # For operators, without a store...

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """Return a page as `Store.survey` does; the cursor is the slot at which it begins."""
        if not re.fullmatch(r"[0-9]{0,18}", cursor):
            raise BadCursor
        page: list[ConversationInfo] = []
        slot = int(cursor or 0)
        while slot < len(self._slots):
            now = self._now()
            for name in self._slots.some(slot, SURVEYED_AT_ONCE):
                slot += 1
                row = self._rows.get(name) if name is not None else None
                if row is None or scope not in (None, row.name[0]) or self._is_expired(row, now):
                    continue
                turns, left_s = len(row.sizes), int(row.expires_at - now)
                page.append(ConversationInfo(*row.name, turns, row.record_bytes, left_s))
                if len(page) == limit:
                    return Page(page, str(slot) if slot < len(self._slots) else "")
            await asyncio.sleep(0)
        return Page(page)

    async def usage(self) -> StoreUsage:
        """Drop all that has expired, and return the use of the room."""
        has_more = True
        while has_more:
            now = self._tidy()
            has_more = self._is_expired(next(iter(self._rows.values()), None), now)
            await asyncio.sleep(0)
        room = self.room
        return StoreUsage(room.size_bytes, room.max_bytes, len(self._rows), room.evictions)

    # Rows...

    def _now(self) -> float:
        return self._alone.clock() if self._alone is not None else 0.0

    def _use(self, row: Conversation, now: float) -> None:
        self.room.use(row)
        if self._alone is not None:
            self._rows.move_to_end(row.name)
            row.expires_at = now + self._alone.bounds.ttl_s

    def _is_expired(self, row: Conversation | None, now: float) -> bool:
        """Return whether a row is still here, but counts as absent."""
        return row is not None and row.standing is Standing.OWN and row.expires_at <= now

    def _live(self, scope: bytes, found: Sequence[bytes], now: float) -> Sequence[bytes]:
        return [one for one in found if not self._is_expired(self._rows[scope, one], now)]

    def _tidy(self) -> float:
        """
        Drop what the room has evicted, and a few rows that have expired.

        Returns:
            The current time by the clock.
        """
        self._let_go()
        now = self._now()
        for _ in range(EXPIRED_AT_ONCE if self._alone is not None else 0):
            first = next(iter(self._rows.values()), None)  # the least recently used expires first
            if first is None or not self._is_expired(first, now):
                break
            self.discard(first.name)
        return now

    def _let_go(self) -> None:
        while self._leaving:
            row = self._leaving.popleft()
            if self._rows.get(row.name) is row:
                self._drop(row)

    def _without_oldest(
        self, scope: bytes, key: bytes, found: tuple[bytes, ...]
    ) -> tuple[bytes, ...]:
        """Take a key from the oldest row that it leads to, or from one that has expired."""
        now = self._now()
        gone = (one for one in found if self._is_expired(self._rows[scope, one], now))
        oldest = next(gone, found[0])
        row = self._rows[scope, oldest]
        row.keys.pop(key, None)
        return tuple([one for one in found if one != oldest])

    def _drop(self, row: Conversation) -> None:
        del self._rows[row.name]
        self.room.leave(row)
        if self._alone is not None:
            self._slots.free(row.slot)
        scope, conversation = row.name
        index = self._index.get(scope, {})
        for key in row.keys:
            others = tuple([one for one in index.pop(key, ()) if one != conversation])
            if others:
                index[key] = others
        if not index:
            self._index.pop(scope, None)


def all_of(found: Mapping[bytes, IndexedTurns]) -> Sequence[Turn]:
    """Return all turns; for a single conversation, its own list, which has an index of items."""
    return next(iter(found.values())) if len(found) == 1 else FoundTurns(found)
