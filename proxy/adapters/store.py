"""What every store does. Only `guarded_store` is called from above; the others may raise."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from proxy.core.keys import Asked, Recalled
from proxy.core.turns import Turn

__all__ = ["Bounds", "Store", "StoreError"]

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


class Store(Protocol):
    """Keeps turns by scope and conversation, and finds conversations by key."""

    async def recall(self, scope: bytes, asked: Sequence[Asked]) -> Recalled:
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
