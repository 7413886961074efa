"""Memory store: the embedded store, bounded in bytes and lost when its process ends."""

import asyncio
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from types import MappingProxyType

import msgspec
from typing_extensions import override

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    SCOPE_ITSELF,
    BadCursor,
    Bounds,
    Codec,
    ConversationInfo,
    Deleted,
    Name,
    Page,
    Store,
    StoredConversation,
    StoreResult,
    StoreUsage,
    VersionChange,
    decoded,
    encoded,
)
from reasoning_replay.adapters.stores.trimming import what_to_drop
from reasoning_replay.core.history.lookup_keys import Lookup, choose
from reasoning_replay.core.history.records import turn_of_record

# Estimated overhead of Python in addition to the stored bytes. Measured by tracemalloc: 0.7 to 0.9
# of these values, for 5,000 turns of 0.1 and 3 KB with 3 and 8 keys, in conversations of 1 to 100
# turns.
CONVERSATION_OVERHEAD_BYTES = 600
TURN_OVERHEAD_BYTES = 150
RECORD_OVERHEAD_BYTES = 250
KEY_OVERHEAD_BYTES = 200

# Most marks of deletions; each takes about 300 bytes.
MARKS_MAX = 10_000
# Most conversations that are dropped, or looked at, before the event loop gets its turn.
DROPPED_AT_ONCE = 64
SURVEYED_AT_ONCE = 1000

_NOWHERE: Mapping[bytes, tuple[bytes, ...]] = MappingProxyType({})


class _Conversation(msgspec.Struct, gc=False):
    """One stored conversation; gc=False, as there are many and none is part of a cycle."""

    expires_at: float
    version: int
    slot: int
    records: dict[bytes, bytes] = msgspec.field(default_factory=dict)
    # As `turn_of_record`. A dict: the garbage collector visits every set, but no dict of bytes.
    turns: dict[bytes, None] = msgspec.field(default_factory=dict)
    keys: dict[bytes, None] = msgspec.field(default_factory=dict)
    record_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return (
            CONVERSATION_OVERHEAD_BYTES
            + self.record_bytes
            + TURN_OVERHEAD_BYTES * len(self.turns)
            + RECORD_OVERHEAD_BYTES * len(self.records)
            + KEY_OVERHEAD_BYTES * len(self.keys)
        )


class MemoryStore(Store):
    """
    Store in the memory of this process; evicts the least recently used conversations first.

    A lookup and a save drop a few expired conversations each; one that is still here counts as
    absent. What needs longer gives the event loop its turn in between.

    Attributes:
        size_bytes: Estimated memory of all conversations, at most `max_bytes`.
    """

    is_embedded = True

    def __init__(
        self,
        bounds: Bounds,
        max_bytes: int,
        clock: Callable[[], float],
        codec: Codec | None = None,
    ) -> None:
        self.codec = codec
        self._bounds = bounds
        self._max_bytes = max_bytes
        self._clock = clock
        self._conversations: OrderedDict[Name, _Conversation] = OrderedDict()  # by last use
        # By scope, then by key: containers of bytes alone cost the garbage collector nothing.
        self._index: dict[bytes, dict[bytes, tuple[bytes, ...]]] = {}
        # Of all conversations: one that is deleted and created again has none of its old versions.
        self._versions = count(1)
        # For surveys: a conversation has one slot for its life, which is then used again.
        self._slots: list[Name | None] = []
        self._free_slots: list[int] = []
        # Marks of deletions, with their expiry; the oldest expires first.
        self._marks: OrderedDict[Name, tuple[float, bytes]] = OrderedDict()
        self._evicted = 0
        self.size_bytes = 0

    @override
    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        now = self._expire()
        index = self._index.get(scope, _NOWHERE)
        if self._is_expired(next(iter(self._conversations), None), now):  # more than one call drops
            choice = choose(lookups, lambda key: self._live(scope, index.get(key, ()), now))
        else:
            choice = choose(lookups, index.get)
        found: list[StoredConversation] = []
        for conversation in dict.fromkeys([*choice.conversations, *held]):
            kept = self._use((scope, conversation), now)
            if kept is None:
                continue
            records = None
            if held.get(conversation) != kept.version:
                records = decoded(self.codec, (scope, conversation), kept.records)
            found.append(StoredConversation(conversation, kept.version, records))
        deleted = {one for one in held if (scope, one) in self._marks} if self._marks else ()
        return StoreResult(
            found, choice.crowded, frozenset(deleted), self._mark((scope, SCOPE_ITSELF))
        )

    @override
    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        now = self._expire()
        if self._is_expired(name, now):
            self._drop(name)
        kept = self._use(name, now)
        before = kept.size_bytes if kept is not None else 0
        if kept is None:
            of_scope = self._mark((name[0], SCOPE_ITSELF))
            if self._mark(name):
                raise Deleted
            if of_scope and mark not in (None, of_scope):
                raise Deleted(of_scope)
            kept = self._conversations[name] = _Conversation(
                now + self._bounds.ttl_s, next(self._versions), self._take_slot(name)
            )
        version_before, kept.version = kept.version, next(self._versions)
        for field, value in encoded(self.codec, name, records).items():
            kept.record_bytes += len(value) - len(kept.records.get(field, b""))
            kept.records[field] = value
            kept.turns[turn_of_record(field)] = None
        self._lead(name, kept, keys, now)
        is_trimmed = self._trim(kept)
        self.size_bytes += kept.size_bytes - before
        change = VersionChange(None if is_trimmed else version_before, kept.version)
        await self._drop_while(lambda: self.size_bytes > self._max_bytes)
        return change

    @override
    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        # The cursor is the slot at which the page begins.
        if not re.fullmatch(r"[0-9]{0,18}", cursor):
            raise BadCursor
        page: list[ConversationInfo] = []
        slot = int(cursor or 0)
        while slot < len(self._slots):
            now = self._clock()
            for name in self._slots[slot : slot + SURVEYED_AT_ONCE]:
                slot += 1
                if name is None or scope not in (None, name[0]) or self._is_expired(name, now):
                    continue
                kept = self._conversations[name]
                expires_in_s = int(kept.expires_at - now)
                page.append(
                    ConversationInfo(*name, len(kept.turns), kept.record_bytes, expires_in_s)
                )
                if len(page) == limit:
                    return Page(page, str(slot) if slot < len(self._slots) else "")
            await asyncio.sleep(0)
        return Page(page)

    @override
    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        name = (scope, conversation)
        if is_final:
            self._expire()
            self._add_mark(name)
        if name not in self._conversations:
            return False
        is_there = not self._is_expired(name, self._clock())
        self._drop(name)
        return is_there

    @override
    async def mark(self, scope: bytes) -> bytes:
        self._expire()
        return self._add_mark((scope, SCOPE_ITSELF))

    @override
    async def usage(self) -> StoreUsage:
        now = self._clock()
        await self._drop_while(lambda: self._is_expired(next(iter(self._conversations), None), now))
        count = len(self._conversations)
        return StoreUsage(self.size_bytes, self._max_bytes, count, self._evicted)

    @override
    async def check(self) -> None:
        pass

    @override
    async def close(self) -> None:
        pass

    def _mark(self, name: Name) -> bytes:
        """Return the mark of a deletion; b"" without one."""
        return self._marks[name][1] if name in self._marks else b""

    def _add_mark(self, name: Name) -> bytes:
        """Mark a deletion; beyond MARKS_MAX, the oldest mark is dropped."""
        made = secrets.token_bytes(16)
        self._marks[name] = self._clock() + self._bounds.marked_s, made
        self._marks.move_to_end(name)
        if len(self._marks) > MARKS_MAX:
            self._marks.popitem(last=False)
        return made

    def _lead(self, name: Name, kept: _Conversation, keys: Collection[bytes], now: float) -> None:
        """Add a conversation to keys; each key keeps its newest CONVERSATIONS_PER_KEY."""
        scope, conversation = name
        if keys and scope not in self._index:
            self._index[scope] = {}
        index, alone = self._index.get(scope, {}), (conversation,)
        for key in keys:
            leads_to = index.get(key)
            if leads_to is None:
                index[key] = alone  # the usual case
            elif conversation in leads_to:
                continue
            else:
                if len(leads_to) == CONVERSATIONS_PER_KEY:
                    gone = (one for one in leads_to if self._is_expired((scope, one), now))
                    oldest = next(gone, leads_to[0])
                    self._forget_key(scope, key, oldest)
                    leads_to = tuple([one for one in leads_to if one != oldest])
                index[key] = leads_to + alone
            kept.keys[key] = None

    def _trim(self, kept: _Conversation) -> bool:
        """Drop the oldest turns of a conversation that exceeds its bounds; a single one stays."""
        bounds = self._bounds
        if len(kept.turns) <= 1:
            return False
        if len(kept.turns) <= bounds.max_turns and kept.record_bytes <= bounds.max_bytes:
            return False
        sizes = {name: len(value) for name, value in kept.records.items()}
        if drop := what_to_drop(sizes, bounds):
            for name in drop:
                kept.record_bytes -= len(kept.records.pop(name))
            kept.turns = dict.fromkeys(map(turn_of_record, kept.records))
        return bool(drop)

    def _expire(self) -> float:
        """
        Drop a few expired conversations; the least recently used one expires first.

        Returns:
            The current time by the clock.
        """
        now = self._clock()
        while self._marks and next(iter(self._marks.values()))[0] <= now:
            self._marks.popitem(last=False)
        for _ in range(DROPPED_AT_ONCE):
            first = next(iter(self._conversations), None)
            if first is None or not self._is_expired(first, now):
                break
            self._drop(first)
        return now

    async def _drop_while(self, is_due: Callable[[], bool]) -> None:
        """Drop the least recently used conversations; other tasks run in between."""
        dropped = 0
        while self._conversations and is_due():
            first = next(iter(self._conversations))
            self._evicted += not self._is_expired(first, self._clock())
            self._drop(first)
            dropped += 1
            if dropped % DROPPED_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _is_expired(self, name: Name | None, now: float) -> bool:
        """Return whether a conversation is still here, but counts as absent."""
        kept = self._conversations.get(name) if name is not None else None
        return kept is not None and kept.expires_at <= now

    def _live(self, scope: bytes, found: Sequence[bytes], now: float) -> Sequence[bytes]:
        return [one for one in found if not self._is_expired((scope, one), now)]

    def _use(self, name: Name, now: float) -> _Conversation | None:
        """Return a conversation and extend its expiry; None if it is not stored."""
        kept = self._conversations.get(name)
        if kept is None or kept.expires_at <= now:
            return None
        kept.expires_at = now + self._bounds.ttl_s
        self._conversations.move_to_end(name)
        return kept

    def _take_slot(self, name: Name) -> int:
        if self._free_slots:
            slot = self._free_slots.pop()
            self._slots[slot] = name
            return slot
        self._slots.append(name)
        return len(self._slots) - 1

    def _drop(self, name: Name) -> None:
        kept = self._conversations.pop(name)
        self.size_bytes -= kept.size_bytes
        self._slots[kept.slot] = None
        self._free_slots.append(kept.slot)
        scope, conversation = name
        index = self._index.get(scope, {})
        for key in kept.keys:
            leads_to = index.pop(key, ())
            others = tuple([one for one in leads_to if one != conversation])
            if others:
                index[key] = others
        if not index:
            self._index.pop(scope, None)

    def _forget_key(self, scope: bytes, key: bytes, conversation: bytes) -> None:
        kept = self._conversations.get((scope, conversation))
        if kept is not None and kept.keys.pop(key, b"") is None:
            self.size_bytes -= KEY_OVERHEAD_BYTES
