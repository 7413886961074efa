"""Memory store: the embedded store, bounded in bytes and lost when its process ends."""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import MappingProxyType

import msgspec
from typing_extensions import override

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    BadCursor,
    Bounds,
    Codec,
    ConversationInfo,
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

_NOWHERE: Mapping[bytes, tuple[bytes, ...]] = MappingProxyType({})


class _Conversation(msgspec.Struct, gc=False):
    """One stored conversation; gc=False, as there are many and none is part of a cycle."""

    expires_at: float
    version: int
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
        self._evicted = 0
        self.size_bytes = 0

    @override
    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        now = self._expire()
        index = self._index.get(scope, _NOWHERE)
        choice = choose(lookups, lambda key: index.get(key, ()))
        found: list[StoredConversation] = []
        for conversation in dict.fromkeys([*choice.conversations, *held]):
            kept = self._use((scope, conversation), now)
            if kept is None:
                continue
            records = None
            if held.get(conversation) != kept.version:
                records = decoded(self.codec, (scope, conversation), kept.records)
            found.append(StoredConversation(conversation, kept.version, records))
        return StoreResult(found, choice.crowded)

    @override
    async def save(
        self, name: Name, records: Mapping[bytes, bytes], keys: Sequence[bytes]
    ) -> VersionChange:
        now = self._expire()
        kept = self._use(name, now)
        before = kept.size_bytes if kept is not None else 0
        if kept is None:
            version = next(self._versions)
            kept = self._conversations[name] = _Conversation(now + self._bounds.ttl_s, version)
        version, kept.version = kept.version, next(self._versions)
        for field, value in encoded(self.codec, name, records).items():
            kept.record_bytes += len(value) - len(kept.records.get(field, b""))
            kept.records[field] = value
            kept.turns[turn_of_record(field)] = None
        self._lead(name, kept, keys)
        is_trimmed = self._trim(kept)
        self.size_bytes += kept.size_bytes - before
        while self.size_bytes > self._max_bytes and self._conversations:
            self._drop(next(iter(self._conversations)))
            self._evicted += 1
        return VersionChange(None if is_trimmed else version, kept.version)

    @override
    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        # The cursor is the last name of the previous page.
        self._expire()
        try:
            after = bytes.fromhex(cursor)
        except ValueError:
            raise BadCursor from None
        names = (
            name
            for name in self._conversations
            if name[0] + name[1] > after and scope in (None, name[0])
        )
        page = heapq.nsmallest(limit, names)
        now = self._clock()
        kept = [
            ConversationInfo(*name, len(one.turns), one.record_bytes, int(one.expires_at - now))
            for name, one in ((name, self._conversations[name]) for name in page)
        ]
        return Page(kept, b"".join(page[-1]).hex() if page and len(page) == limit else "")

    @override
    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        self._expire()
        if (scope, conversation) not in self._conversations:
            return False
        self._drop((scope, conversation))
        return True

    @override
    async def usage(self) -> StoreUsage:
        self._expire()
        count = len(self._conversations)
        return StoreUsage(self.size_bytes, self._max_bytes, count, self._evicted)

    @override
    async def check(self) -> None:
        pass

    @override
    async def close(self) -> None:
        pass

    def _lead(self, name: Name, kept: _Conversation, keys: Sequence[bytes]) -> None:
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
                    self._forget_key(scope, key, leads_to[0])
                    leads_to = leads_to[1:]
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
        Drop expired conversations; the least recently used one expires first.

        Returns:
            The current time by the clock.
        """
        now = self._clock()
        while self._conversations:
            first = next(iter(self._conversations))
            if self._conversations[first].expires_at > now:
                return now
            self._drop(first)
        return now

    def _use(self, name: Name, now: float) -> _Conversation | None:
        """Return a conversation and extend its expiry; None if it is not stored."""
        kept = self._conversations.get(name)
        if kept is not None:
            kept.expires_at = now + self._bounds.ttl_s
            self._conversations.move_to_end(name)
        return kept

    def _drop(self, name: Name) -> None:
        kept = self._conversations.pop(name)
        self.size_bytes -= kept.size_bytes
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
