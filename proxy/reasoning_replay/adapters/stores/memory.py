"""The embedded store: this process, bounded in bytes, gone with it."""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from reasoning_replay.adapters.stores.base import (
    CONVERSATIONS_PER_KEY,
    Bounds,
    ConversationInfo,
    Page,
    StoreError,
)
from reasoning_replay.adapters.stores.codec import Codec, PlainCodec
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult, choose
from reasoning_replay.core.history.turns import Turn

__all__ = ["MemoryStore"]

# What Python itself needs beside the bytes that are kept: tracemalloc over 5,000 turns of 0.1 and
# 3 KB with 3 and 8 keys, in conversations of 1 to 100 turns, gave 0.6 to 0.9 of what these say.
CONVERSATION_OVERHEAD_BYTES = 500
TURN_OVERHEAD_BYTES = 400
KEY_OVERHEAD_BYTES = 200

_Name = tuple[bytes, bytes]  # (scope, conversation)
_NOWHERE: Mapping[bytes, tuple[bytes, ...]] = MappingProxyType({})


class _Conversation(msgspec.Struct, gc=False):
    """What is kept of one; there are many, and none is part of what the collector is for."""

    expires_at: float
    turns: dict[bytes, bytes] = msgspec.field(default_factory=dict)  # by age, oldest first
    keys: dict[bytes, None] = msgspec.field(default_factory=dict)
    turn_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return (
            CONVERSATION_OVERHEAD_BYTES
            + self.turn_bytes
            + TURN_OVERHEAD_BYTES * len(self.turns)
            + KEY_OVERHEAD_BYTES * len(self.keys)
        )


class MemoryStore:
    """
    Turns as encoded bytes; the least recently used conversations go first.

    Attributes:
        size_bytes: Of everything together.
        dropped: Told of each conversation that is no longer kept; for one listener.
    """

    def __init__(
        self,
        bounds: Bounds,
        max_bytes: int,
        clock: Callable[[], float],
        codec: Codec | None = None,
    ) -> None:
        """
        Start empty.

        Args:
            bounds: Of one conversation.
            max_bytes: Of everything together.
            clock: Seconds, never going backwards.
            codec: How turns are written; None: as they are.
        """
        self._codec = codec or PlainCodec()
        self._bounds = bounds
        self._max_bytes = max_bytes
        self._clock = clock
        self._conversations: OrderedDict[_Name, _Conversation] = OrderedDict()  # by last use
        # By scope, then by key: what is made of bytes alone costs the garbage collector nothing.
        self._index: dict[bytes, dict[bytes, tuple[bytes, ...]]] = {}
        self.size_bytes = 0
        self.dropped: Callable[[bytes, bytes], None] = _nobody

    async def recall(self, scope: bytes, asked: Sequence[Lookup]) -> LookupResult:
        """As `Store.recall`."""
        now = self._expire()
        index = self._index.get(scope, _NOWHERE)
        choice = choose(asked, lambda key: index.get(key, ()))
        turns: list[Turn] = []
        for conversation in choice.conversations:
            kept = self._use((scope, conversation), now)
            values = kept.turns.items() if kept else ()
            decoded = (self._codec.decode(scope, conversation, *value) for value in values)
            turns += [turn for turn in decoded if turn is not None]
        return LookupResult(turns, choice.crowded)

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """As `Store.save`."""
        now = self._expire()
        conversation, bounds = turn.conversation, self._bounds
        name = (scope, conversation)
        kept = self._use(name, now)
        before = kept.size_bytes if kept is not None else 0
        if kept is None:
            kept = self._conversations[name] = _Conversation(now + bounds.ttl_s)
        value = self._codec.encode(scope, turn)
        turns = kept.turns
        kept.turn_bytes += len(value) - len(turns.get(turn.id, b""))
        turns[turn.id] = value
        if keys and scope not in self._index:
            self._index[scope] = {}
        index, alone = self._index.get(scope, {}), (conversation,)
        for key in keys:
            leads_to = index.get(key)
            if leads_to is None:
                index[key] = alone  # as most
            elif conversation in leads_to:
                continue
            else:
                if len(leads_to) == CONVERSATIONS_PER_KEY:
                    self._forget_key(scope, key, leads_to[0])
                    leads_to = leads_to[1:]
                index[key] = leads_to + alone
            kept.keys[key] = None
        while len(turns) > 1 and (
            len(turns) > bounds.max_turns or kept.turn_bytes > bounds.max_bytes
        ):
            kept.turn_bytes -= len(turns.pop(next(iter(turns))))
        self.size_bytes += kept.size_bytes - before
        while self.size_bytes > self._max_bytes and self._conversations:
            self._drop(next(iter(self._conversations)))

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As `Store.survey`; the cursor is the last name of the page before."""
        self._expire()
        try:
            after = bytes.fromhex(cursor)
        except ValueError:
            raise StoreError("the cursor is none of this store's", is_local=True) from None
        names = (
            name
            for name in self._conversations
            if name[0] + name[1] > after and scope in (None, name[0])
        )
        page = heapq.nsmallest(limit, names)
        now = self._clock()
        kept = [
            ConversationInfo(*name, len(one.turns), one.turn_bytes, int(one.expires_at - now))
            for name, one in ((name, self._conversations[name]) for name in page)
        ]
        return Page(kept, b"".join(page[-1]).hex() if page and len(page) == limit else "")

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As `Store.forget`."""
        self._expire()
        return self.discard(scope, conversation)

    async def check(self) -> None:
        """As `Store.check`."""

    async def close(self) -> None:
        """As `Store.close`."""

    def leads_to(self, scope: bytes, key: bytes) -> Sequence[bytes]:
        """Return the conversations that a key leads to, newest last."""
        return self._index.get(scope, _NOWHERE).get(key, ())

    def peek(self, scope: bytes, conversation: bytes) -> Mapping[bytes, bytes]:
        """Return a conversation's turns as they are kept, by id; not counted as a use of it."""
        kept = self._conversations.get((scope, conversation))
        return kept.turns if kept is not None else {}

    def use(self, scope: bytes, conversation: bytes) -> Mapping[bytes, bytes]:
        """As `peek`, and counted as a use of it."""
        kept = self._use((scope, conversation), self._expire())
        return kept.turns if kept is not None else {}

    def turn_bytes(self, scope: bytes, conversation: bytes) -> int:
        """Return the size of a conversation's turns as they are kept."""
        kept = self._conversations.get((scope, conversation))
        return kept.turn_bytes if kept is not None else 0

    def discard(self, scope: bytes, conversation: bytes) -> bool:
        """Drop a conversation; False when it is not kept."""
        if (scope, conversation) not in self._conversations:
            return False
        self._drop((scope, conversation))
        return True

    def _expire(self) -> float:
        """
        Drop what has expired; the least recently used conversation is the first to do so.

        Returns:
            What time it is, by the clock.
        """
        now = self._clock()
        while self._conversations:
            first = next(iter(self._conversations))
            if self._conversations[first].expires_at > now:
                return now
            self._drop(first)
        return now

    def _use(self, name: _Name, now: float) -> _Conversation | None:
        """Return a conversation as the most recently used one."""
        kept = self._conversations.get(name)
        if kept is not None:
            kept.expires_at = now + self._bounds.ttl_s
            self._conversations.move_to_end(name)
        return kept

    def _drop(self, name: _Name) -> None:
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
        self.dropped(scope, conversation)

    def _forget_key(self, scope: bytes, key: bytes, conversation: bytes) -> None:
        kept = self._conversations.get((scope, conversation))
        if kept is not None and kept.keys.pop(key, b"") is None:
            self.size_bytes -= KEY_OVERHEAD_BYTES


def _nobody(scope: bytes, conversation: bytes) -> None:
    """Listen to nothing."""
