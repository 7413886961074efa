"""Fair semaphore: units shared by tenants, none of which waits for all work of another."""

import asyncio
from collections import deque
from typing import NamedTuple

# Part of the units that one tenant may hold while another tenant waits.
TENANT_SHARE = 0.75
# Most waiters of one tenant.
WAITING_MAX = 1024


class _Waiter(NamedTuple):
    """One caller that waits for units."""

    units: int
    granted: asyncio.Future[None]


class FairSemaphore:
    """
    Counter of units with a bounded wait: round robin between tenants, in order within one tenant.

    A tenant is skipped while it would hold more than three quarters and another one waits. The
    next caller waits until enough units are free, so many small ones cannot starve a large one.
    Only `try_acquire` takes the `spare` part of the units.

    Attributes:
        units: All units, held and free.
    """

    def __init__(self, units: int, spare: int = 0) -> None:
        self.units = self._free = units
        self._spare = spare
        self._held: dict[bytes, int] = {}
        self._waiting: dict[bytes, deque[_Waiter]] = {}  # the next tenant is first
        self._granted = 0  # number of callers that got units after a wait

    @property
    def used(self) -> int:
        """Number of held units."""
        return self.units - self._free

    @property
    def is_contended(self) -> bool:
        """Whether a caller waits."""
        return bool(self._waiting)

    @property
    def waitable(self) -> int:
        """Most units that one call of `acquire` can get."""
        return self.units - self._spare

    def try_acquire(self, tenant: bytes, units: int) -> bool:
        """Take units at once, even if others wait; if too few are free, return False."""
        if units > self._free:
            return False
        self._take(tenant, units)
        return True

    async def acquire(
        self, tenant: bytes, units: int, within_s: float, most_s: float = 0.0
    ) -> bool:
        """
        Take units, after a bounded wait; b"" is a tenant, too.

        Args:
            tenant: Its turn comes after one caller of each other tenant that waits.
            units: Number of units.
            within_s: Longest wait.
            most_s: Longest wait as long as the queue moves: others that wait get units within each
                `within_s`. Less than that counts as `within_s`.

        Returns:
            False if they are not free in time, are more than `waitable`, or too many callers wait.
        """
        if units > self.waitable:
            return False
        if not self._waiting and units <= self._free - self._spare:
            self._take(tenant, units)
            return True
        queue = self._waiting.get(tenant, ())
        if len(queue) >= WAITING_MAX:
            return False
        waiter = _Waiter(units, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(tenant, deque()).append(waiter)
        try:
            await self._wait(waiter, within_s, most_s)
        except BaseException:  # cancelled
            if waiter.granted.done():
                self.release(tenant, units)
            else:
                self._leave(tenant, waiter)
            raise
        if not waiter.granted.done():
            self._leave(tenant, waiter)
            return False
        return True

    def release(self, tenant: bytes, units: int) -> None:
        """Free units that this tenant holds."""
        self._free += units
        left = self._held[tenant] - units
        if left:
            self._held[tenant] = left
        else:
            del self._held[tenant]
        if self._waiting:
            self._grant()

    async def _wait(self, waiter: _Waiter, within_s: float, most_s: float) -> None:
        left_s = max(within_s, most_s)
        while not waiter.granted.done() and left_s > 0:
            granted, step_s = self._granted, min(within_s, left_s)
            await asyncio.wait([waiter.granted], timeout=step_s)
            left_s = left_s - step_s if self._granted > granted else 0.0

    def _take(self, tenant: bytes, units: int) -> None:
        self._free -= units
        self._held[tenant] = self._held.get(tenant, 0) + units

    def _leave(self, tenant: bytes, waiter: _Waiter) -> None:
        queue = self._waiting[tenant]
        queue.remove(waiter)
        if not queue:
            del self._waiting[tenant]
        self._grant()  # the next one may need fewer units

    def _grant(self) -> None:
        while self._waiting:
            tenant = self._next()
            queue = self._waiting[tenant]
            waiter = queue[0]
            if waiter.units > self._free - self._spare:
                return
            queue.popleft()
            del self._waiting[tenant]
            if queue:
                self._waiting[tenant] = queue  # after the others
            self._take(tenant, waiter.units)
            self._granted += 1
            waiter.granted.set_result(None)

    def _next(self) -> bytes:
        """Return the tenant that is next; one over its share only if all that wait are."""
        share = TENANT_SHARE * self.units
        for tenant, queue in self._waiting.items():
            held = self._held.get(tenant, 0)
            if not held or held + queue[0].units <= share:
                return tenant
        return next(iter(self._waiting))
