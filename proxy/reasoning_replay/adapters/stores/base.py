"""
Store: the interface of every store, and the types of its arguments and results.

A store keeps records (a name and an opaque value) by scope and conversation, and finds
conversations by index keys. A store may raise StoreError; exchanges use it only through
`adapters.resilience`, which does not raise.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from reasoning_replay.core.history.lookup_keys import Lookup

Name = tuple[bytes, bytes]  # of a conversation: its scope and its id, 16 bytes each

# In place of a conversation's id: the mark of a deletion of the whole scope.
SCOPE_ITSELF = b""
# A mark of a deletion outlives what a replica may still want to save: a conversation would live as
# long, and no outage is longer than a day.
MARKED_S = 24 * 3600

# A mark of a process counts for this time, and is noted again before it is over.
MET_S = 2 * 3600

# A key leads to at most this many conversations, the newest ones.
CONVERSATIONS_PER_KEY = 32
# Size of the random numbers of which versions are made. Redis adds them up in 64 bits, with a sign.
VERSION_BITS = 48


class BreakerState(StrEnum):
    """State of the circuit breaker of a store operation; also its label in the metrics."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"  # one probe is running
    OPEN = "open"


class StoreError(Exception):
    """
    Failure of a store operation; an exchange continues without the store.

    Attributes:
        is_local: Whether only one key or argument is at fault, and not the store as a whole.
    """

    def __init__(self, reason: str, *, is_local: bool = False) -> None:
        """Record the reason; it must not contain a key, a stored value or a secret."""
        super().__init__(reason)
        self.is_local = is_local


class BadCursor(StoreError):
    """The cursor of a survey is not one that this store returned."""

    def __init__(self) -> None:
        super().__init__("the cursor is not one of this store", is_local=True)


class Deleted(Exception):
    """
    A conversation, or its whole scope, was deleted: nothing is saved.

    Attributes:
        mark: As `StoreResult.mark`; b"" if only the conversation was deleted.
    """

    def __init__(self, mark: bytes = b"") -> None:
        super().__init__("deleted")
        self.mark = mark


@dataclass(frozen=True, slots=True)
class Bounds:
    """
    Limits on the size and the age of each conversation.

    Attributes:
        ttl_s: Time to live after the last read or write.
        max_turns, max_bytes: Size limits; beyond either, the oldest turns are dropped.
    """

    ttl_s: int
    max_turns: int
    max_bytes: int

    @property
    def marked_s(self) -> int:
        """Time to live of the mark of a deletion."""
        return max(self.ttl_s, MARKED_S)


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """
    Size and age of one stored conversation.

    Attributes:
        scope, conversation: Ids of 16 bytes each.
        turns, turn_bytes: Number of turns and their stored size. Redis counts writes, so a turn
            that was written twice counts twice until the next trim.
        expires_in_s: Time until it expires, if it is not used before.
        is_damaged: Whether another program has changed it, so that its size is unknown, and 0.
    """

    scope: bytes
    conversation: bytes
    turns: int
    turn_bytes: int
    expires_in_s: int
    is_damaged: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """
    One page of the stored conversations, in no defined order.

    Attributes:
        next_cursor: Cursor of the next page; "" after the last page.
    """

    conversations: Sequence[ConversationInfo]
    next_cursor: str = ""


class StoredConversation(NamedTuple):
    """
    One conversation as it is stored.

    Attributes:
        conversation: Its id, 16 bytes.
        version: Changes with every change of the records, and never repeats: neither if the
            conversation is deleted and created again, nor if the store returns to older data, as
            after a failover or with an older copy of its file.
        records: Values by record name; None if the caller holds this version.
    """

    conversation: bytes
    version: int
    records: Mapping[bytes, bytes] | None


class VersionChange(NamedTuple):
    """
    Versions of a conversation before and after a save.

    A local copy of version `before` that takes in what was saved is one of version `after`.

    Attributes:
        before: None if no copy stays valid, because old turns were dropped to stay within the
            bounds.
    """

    before: int | None
    after: int


class StoreResult(NamedTuple):
    """
    Result of a lookup in a store.

    Attributes:
        conversations: The conversations that the caller holds, if they still exist, and those
            that are chosen from the index.
        crowded: As `LookupResult.crowded`.
        deleted: Conversations that the caller holds, and that an operator has deleted.
        mark: Mark of the last deletion of the whole scope; b"" without one. Each has another.
    """

    conversations: Sequence[StoredConversation] = ()
    crowded: AbstractSet[int] = frozenset()
    deleted: AbstractSet[bytes] = frozenset()
    mark: bytes = b""


class StoreUsage(NamedTuple):
    """
    Use of a store that has a limit of its own.

    Attributes:
        size_bytes: Size of all conversations, as the limit counts it.
        max_bytes: The limit; beyond it, the least recently used conversations are evicted.
        conversations: Number of conversations.
        evicted: Number of conversations that this process has evicted for lack of room.
    """

    size_bytes: int
    max_bytes: int
    conversations: int
    evicted: int


class Codec(Protocol):
    """Encoder and decoder of values. None in place of a codec: values are stored plain."""

    def encode(self, name: Name, field: bytes, value: bytes) -> bytes:
        """Return the stored form of a record's value; `field` is the record's name."""
        ...

    def decode(self, name: Name, field: bytes, value: bytes) -> bytes | None:
        """Return the value of a stored form; None if it cannot be decoded."""
        ...


class Store(Protocol):
    """
    Store of records by scope and conversation, with an index from keys to conversations.

    Attributes:
        codec: Stored form of values; None: plain. It may be replaced at any time.
    """

    codec: Codec | None

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """
        Return the conversations that a request may continue.

        The returned conversations count as used.

        Args:
            scope: Scope of the request; no other scope is read.
            lookups: As returned by `core.history.lookup_keys.keys_of_request`.
            held: Versions of the caller's relevant local copies, by conversation. A save of the
                caller may change one during the lookup: a copy is valid at both versions. A
                conversation that is absent from the result does not exist any more.

        Raises:
            StoreError: The store could not be read.

        Cost: at most two round trips; one if every local copy is valid.
        """
        ...

    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        """
        Add records to a conversation, and keys to its index; a repeated write is harmless.

        Args:
            name: The conversation; its first save creates it.
            records: Values by name, as returned by `core.history.records.records_of`.
            keys: Keys that must lead to the conversation, and do not yet.
            mark: The newest `StoreResult.mark` that the caller knows; None: a deletion of the scope
                is ignored. Where the save creates the conversation, any other mark refuses it.
            is_stored: Whether the caller has seen the conversation in the store.

        Returns:
            The change of the version. If it does not begin at the caller's version, another
            writer has saved too.

        Raises:
            Deleted: An operator has deleted the conversation, or its scope.
            StoreError: The records may not have been saved.

        Cost: one round trip; one or two more if the conversation may be new.
        """
        ...

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """
        Return one page of the stored conversations; following the cursors returns all of them.

        Args:
            scope: Scope of the conversations; None: all scopes.
            cursor: "" for the first page, then `next_cursor` of the previous page.
            limit: Approximate size of the page. A smaller or empty page may not be the last one.

        Raises:
            BadCursor: The cursor is invalid.
            StoreError: The store could not be read.
        """
        ...

    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        """
        Delete a conversation and its index entries; return whether it was stored.

        If `is_final`, it is marked as well, stored or not, and every later save of it is refused.

        Raises:
            StoreError: The conversation may still be stored.
        """
        ...

    async def mark(self, scope: bytes) -> bytes:
        """
        Mark a whole scope as deleted, and return the mark; its conversations stay.

        From now on, no save creates a conversation in it, unless the caller knows the mark. So a
        walk that begins now finds all that has to be deleted.

        Raises:
            StoreError: The scope may not be marked.
        """
        ...

    async def usage(self) -> StoreUsage | None:
        """
        Return the use of the store; None if a server limits its size, as with Redis.

        Raises:
            StoreError: The store could not be read.
        """
        return None

    async def check(self) -> None:
        """
        Check that the store responds.

        Raises:
            StoreError: The store does not respond.
        """
        return

    async def meet(self, own: bytes) -> Sequence[bytes]:
        """
        Note a mark of this process for MET_S; return those of all processes that share the store.

        Raises:
            StoreError: The store could not be read or written.
        """
        return (own,)

    async def when_full(self) -> str:
        """
        Return why saves will fail once the store is full, and the way out; "" if they will not.

        Raises:
            StoreError: That is not known.
        """
        return ""

    async def close(self) -> None:
        """Close the connections or files of the store."""
        return


def encoded(codec: Codec | None, name: Name, records: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return records of a conversation in their stored form."""
    if codec is None:
        return dict(records)
    return {field: codec.encode(name, field, value) for field, value in records.items()}


def decoded(codec: Codec | None, name: Name, kept: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Return the records that can be decoded; others are omitted."""
    if codec is None:
        return dict(kept)
    plain = ((field, codec.decode(name, field, value)) for field, value in kept.items())
    return {field: value for field, value in plain if value is not None}
