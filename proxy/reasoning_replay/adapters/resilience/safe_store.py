"""What exchanges and operators use: a store that never raises for the former, nor keeps them."""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from reasoning_replay.adapters.stores.base import Page, Store
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.turns import Turn

__all__ = ["NO_TIME", "Budget", "SafeStore", "Saved"]


class Budget:
    """
    How long one exchange may still wait for the store.

    Attributes:
        left_s: Reduced by each wait, and 0 from the first that was in vain.
        whole_s: What it was to begin with.
    """

    __slots__ = ("left_s", "whole_s")

    def __init__(self, left_s: float) -> None:
        """Start with all of it."""
        self.left_s = self.whole_s = left_s

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more is waited for: what was not there by then counts as not there."""
        return self.left_s <= 0


# For an exchange that is nobody's yet: a budget that is used up, which nothing can change.
NO_TIME = Budget(0.0)


class Saved(Enum):
    """What became of a save."""

    DONE = "done"
    LATE = "late"  # not known yet: it goes on
    FAILED = "failed"


class SafeStore(Protocol):
    """
    A store behind its guard.

    Attributes:
        inner: The store itself.
    """

    inner: Store

    @property
    def is_degraded(self) -> bool:
        """Whether it failed within the last second or has not worked since it did."""
        ...

    async def recall(
        self, scope: bytes, asked: Sequence[Lookup], budget: Budget
    ) -> LookupResult | None:
        """Return what is held; None when nobody answered, or not within the budget."""
        ...

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes], budget: Budget) -> Saved:
        """Keep a turn: now, or later where that takes longer than the exchange may wait."""
        ...

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As `Store.survey`; raises StoreError within 10 seconds."""
        ...

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As `Store.forget`; raises StoreError within 10 seconds."""
        ...

    def drop(self, scope: bytes, conversation: bytes) -> None:
        """Drop what this process holds of a conversation beside the store."""
        ...

    async def check(self) -> bool:
        """Ask the store for a sign of life, also while it is left alone."""
        ...

    async def close(self) -> None:
        """Finish what is under way, within one operation's time, and let go of the store."""
        ...
