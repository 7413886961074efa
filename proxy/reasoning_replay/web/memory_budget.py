"""
Memory budget: the bytes of requests and responses that one process may hold, over all exchanges.

What finds no room passes unread; see `inspect_total_max_bytes`.
"""

import asyncio
import sys

from typing_extensions import override

from reasoning_replay.adapters.runtime.allocator import give_back
from reasoning_replay.adapters.runtime.fair_semaphore import FairSemaphore

# This part of the budget is kept for short bodies, so that they never wait for long ones.
SPARE_PART = 16
# Longest wait for room. An upstream may hold all of it for minutes, so the wait must not be long,
# unless the queue moves.
WAIT_S = 10.0
MOVING_WAIT_S = 30.0
# What is stuck asks again after this time.
AGAIN_S = 0.1
# A burst held this much or more, and it has ended when a quarter of it or less is left. That is
# looked at once in this time.
BURST_BYTES = 16 * 1024 * 1024
BURST_PART = 4
BURST_ENDS_S = 1.0


class MemoryBudget(FairSemaphore):
    """Counter of the bytes that all exchanges together hold, shared fairly by their tenants."""

    def __init__(self, max_bytes: int) -> None:
        """Start with `max_bytes` free."""
        super().__init__(max_bytes, max_bytes // SPARE_PART)
        self._highest = 0  # since the last burst
        self._stuck = 0  # number of callers that wait to overdraw

    @override
    def _take(self, tenant: bytes, units: int) -> None:
        super()._take(tenant, units)
        if (used := self.units - self._free) > self._highest:
            self._highest = used

    @property
    @override
    def is_contended(self) -> bool:
        """Whether a caller waits."""
        return bool(self._stuck) or super().is_contended

    async def overdraw(self, tenant: bytes, units: int, most: int) -> None:
        """
        Take units, free or not, once no more than `most` are held beyond the budget.

        The caller must not wait for more while it holds them, so that the next one's turn comes.
        """
        self._stuck += 1
        try:
            while self._free < -most:  # noqa: ASYNC110 (each release would wake all of them)
                await asyncio.sleep(AGAIN_S)
            self._take(tenant, units)
        finally:
            self._stuck -= 1

    async def give_back(self) -> None:
        """After a burst, return to the system what the allocator keeps of its memory."""
        await asyncio.sleep(BURST_ENDS_S)
        highest = self._highest
        if highest >= BURST_BYTES and self.used * BURST_PART <= highest:
            self._highest = self.used
            await asyncio.to_thread(give_back)


class MemoryLease:
    """The bytes that one exchange holds; its `tenant` is set before anything is reserved."""

    __slots__ = ("budget", "held", "tenant")

    def __init__(self, budget: MemoryBudget) -> None:
        """Start without reserved bytes."""
        self.budget = budget
        self.held = 0
        self.tenant = b""

    def reserve(self, size: int) -> bool:
        """Reserve `size` more bytes at once; if fewer are free, change nothing, return False."""
        if size and not self.budget.try_acquire(self.tenant, size):
            return False
        self.held += size
        return True

    async def reserve_in_turn(
        self, size: int, within_s: float | None = None, moving_s: float | None = None
    ) -> bool:
        """
        Reserve `size` more bytes, or as many as can ever be reserved, after a bounded wait.

        Args:
            size: Number of bytes.
            within_s: Longest wait while the queue does not move; None: WAIT_S.
            moving_s: Longest wait in all; None: MOVING_WAIT_S.

        Returns:
            False if they are not free in time; nothing is changed.
        """
        size = min(size, self.budget.waitable - self.held)
        if size <= 0:
            return False
        within_s = WAIT_S if within_s is None else within_s
        moving_s = MOVING_WAIT_S if moving_s is None else moving_s
        if not await self.budget.acquire(self.tenant, size, within_s, moving_s):
            return False
        self.held += size
        return True

    async def overdraw(self, size: int, most: int) -> None:
        """Reserve `size` more bytes, free or not; see `MemoryBudget.overdraw`."""
        await self.budget.overdraw(self.tenant, size, most)
        self.held += size

    def release(self, size: int) -> None:
        """Release `size` bytes, or all held ones if there are fewer."""
        size = min(size, self.held)
        if size:
            self.held -= size
            self.budget.release(self.tenant, size)

    def resize(self, size: int) -> bool:
        """Hold exactly `size` bytes; if too few are free, change nothing and return False."""
        if size > self.held:
            return self.reserve(size - self.held)
        self.release(self.held - size)
        return True

    def shrink(self, size: int) -> None:
        """Hold at most `size` bytes."""
        self.release(max(0, self.held - size))


# The budget of exchanges that hold nothing of a peer.
UNCOUNTED = MemoryBudget(sys.maxsize)
