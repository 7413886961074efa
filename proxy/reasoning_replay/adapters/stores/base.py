"""What every store does. Only `guarded_store` is called from above; the others may raise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.turns import Turn

__all__ = ["Bounds", "ConversationInfo", "Page", "Store", "StoreError"]

# A key leads to this many conversations at the most, the newest ones.
CONVERSATIONS_PER_KEY = 32


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
        turns, turn_bytes: How many, and their size as they are kept; Redis counts what was
            written since it was last cut back, so a turn that was saved twice counts twice.
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


class Store(Protocol):
    """Keeps turns by scope and conversation, and finds conversations by key."""

    async def recall(self, scope: bytes, asked: Sequence[Lookup]) -> LookupResult:
        """
        Return every turn of the conversations that a request's keys lead to.

        Args:
            scope: Nothing of any other scope is ever looked at.
            asked: As `core.identity.keys_of_request` gives them.

        Raises:
            StoreError: The store could not be asked.
        """
        ...

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """
        Keep a turn in its conversation, in place of an earlier form of it, and make it found.

        Args:
            scope: Whose it is.
            turn: As captured.
            keys: Those that shall lead to its conversation, and do not yet because of this turn.

        Raises:
            StoreError: It may not have been kept.
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
