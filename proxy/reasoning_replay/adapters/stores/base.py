"""
Store: the interface to what keeps conversations, and what it gives and takes.

A store keeps records, names and values that it does not look into, by scope and conversation,
and it finds conversations by index keys. Stores may raise; only the guard in
`adapters.resilience` is called from above.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from reasoning_replay.core.history.lookup_keys import Lookup

__all__ = [
    "Bounds",
    "ConversationInfo",
    "Page",
    "Store",
    "StoreError",
    "StoreResult",
    "StoredConversation",
]

# A key leads to this many conversations at the most, the newest ones.
CONVERSATIONS_PER_KEY = 32
# Of the random number that the versions of a conversation begin with; they count up from there.
VERSION_BITS = 48


class StoreError(Exception):
    """
    The store did not do what it was asked; the exchange goes on without it.

    Attributes:
        is_local: Whether it is about one key alone, and says nothing of the store's health.
    """

    def __init__(self, reason: str, *, is_local: bool = False) -> None:
        """Say why, without anything that a log should not hold."""
        super().__init__(reason)
        self.is_local = is_local


@dataclass(frozen=True, slots=True)
class Bounds:
    """
    How much is kept of a conversation, and for how long.

    Attributes:
        ttl_s: Since it was last read or written.
        max_turns, max_bytes: Of one conversation; beyond either its oldest turns go.
    """

    ttl_s: int
    max_turns: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """
    What is kept of one conversation, in numbers.

    Attributes:
        scope, conversation: Their 16 bytes each.
        turns, turn_bytes: How many, and their size as they are kept; Redis counts both as
            they are written: what was written twice counts twice, until it is next trimmed.
        expires_in_s: Unless it is used before.
    """

    scope: bytes
    conversation: bytes
    turns: int
    turn_bytes: int
    expires_in_s: int


@dataclass(frozen=True, slots=True)
class Page:
    """
    Some of the conversations that are kept, in no order.

    Attributes:
        next_cursor: What the next page is asked for with; "" behind the last one.
    """

    conversations: Sequence[ConversationInfo]
    next_cursor: str = ""


class StoredConversation(NamedTuple):
    """
    One conversation as a store has it.

    Attributes:
        conversation: Its id, 16 bytes.
        version: Changes with every change of its records; a conversation that is deleted and
            begun anew never has a version of its former self.
        records: By name; None: the caller holds this version.
    """

    conversation: bytes
    version: int
    records: Mapping[bytes, bytes] | None


class StoreResult(NamedTuple):
    """
    What a store has for a request.

    Attributes:
        conversations: Those that the caller holds, if they are still there, and those that are
            chosen from the index.
        crowded: As `LookupResult.crowded`.
    """

    conversations: Sequence[StoredConversation] = ()
    crowded: AbstractSet[int] = frozenset()


class Store(Protocol):
    """Keeps records by scope and conversation, and finds conversations by key."""

    @property
    def is_embedded(self) -> bool:
        """Whether it lives in this process and never waits."""
        ...

    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        """
        Return the conversations that a request may continue.

        At most two round trips, one if every local copy is valid. What is returned counts as used.

        Args:
            scope: Nothing of any other scope is ever looked at.
            lookups: As `core.history.lookup_keys.keys_of_request` gives them.
            held: The versions of the local copies that the caller believes relevant, by
                conversation. One that is absent from the result is gone.

        Raises:
            StoreError: The store could not be asked.
        """
        ...

    async def save(
        self,
        scope: bytes,
        conversation: bytes,
        records: Mapping[bytes, bytes],
        keys: Sequence[bytes],
    ) -> int:
        """
        Add records to a conversation, and make it found; writing them again is harmless.

        Args:
            scope: Whose it is.
            conversation: Its id; it begins with its first records.
            records: By name, as `core.history.turns.records_of` gives them.
            keys: Those that shall lead to the conversation, and do not yet.

        Returns:
            The new version. If it is not the version that the caller held, plus one, others have
            written too, or old turns were dropped to stay within the bounds.

        Raises:
            StoreError: They may not have been kept.
        """
        ...

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """
        Return some of the conversations that are kept; all of them, page by page.

        Args:
            scope: Whose; None: everybody's.
            cursor: "" for the first page, then `next_cursor` of the page before.
            limit: About so many conversations; a page may have fewer or none and not be the last.

        Raises:
            StoreError: The store could not be asked, or does not know the cursor (is_local).
        """
        ...

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """
        Delete a conversation, and what leads to it; False when nothing was kept of it.

        Raises:
            StoreError: It may still be kept.
        """
        ...

    async def check(self) -> None:
        """
        Do nothing if the store answers.

        Raises:
            StoreError: It does not.
        """
        ...

    async def close(self) -> None:
        """Let go of its connections."""
        ...
