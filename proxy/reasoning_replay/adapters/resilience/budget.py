"""Budget: the time for which one exchange may still wait for the store."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

__all__ = ["NO_TIME", "Budget"]

_Got = TypeVar("_Got")


class Budget:
    """
    Time for which one exchange may still wait for the store.

    Attributes:
        left_s: Remaining seconds. Each wait reduces it; a wait without a result sets it to 0.
        whole_s: Initial value of `left_s`.
    """

    __slots__ = ("left_s", "whole_s")

    def __init__(self, left_s: float) -> None:
        """Start with the full time."""
        self.left_s = self.whole_s = left_s

    @property
    def is_used_up(self) -> bool:
        """Whether the exchange waits no longer; it ignores late results."""
        return self.left_s <= 0

    async def wait(self, task: asyncio.Future[_Got], clock: Callable[[], float]) -> bool:
        """Wait for a task, without cancelling it; return whether it is done in time."""
        if self.left_s > 0:
            began_s = clock()
            await asyncio.wait([task], timeout=self.left_s)
            self.left_s = max(0.0, self.left_s - (clock() - began_s))
        if not task.done():
            self.left_s = 0.0
        return task.done()


# For an exchange without a scope: a budget that is used up, which no operation changes.
NO_TIME = Budget(0.0)
