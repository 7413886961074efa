"""
A store that cannot hurt: deadlines, failures swallowed and counted, and a pause after failures.

This is promise 2, fail open: whatever happens in a store, the exchange goes on without it.
"""

import asyncio
from collections.abc import Callable, Sequence

from proxy.adapters.logs import Log
from proxy.adapters.metrics import Metrics
from proxy.adapters.store import Store, StoreError
from proxy.core.keys import Asked, Recalled
from proxy.core.turns import Turn

__all__ = ["GuardedStore"]

# After this many failures in a row the store is left alone for PAUSE_S, then tried once.
FAILURES_TOLERATED = 3
PAUSE_S = 1.0


class GuardedStore:
    """Does what the store does, within a deadline, or nothing."""

    def __init__(
        self,
        store: Store,
        timeout_s: float,
        metrics: Metrics,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        """
        Guard a store.

        Args:
            store: Owned from here on; `close` closes it.
            timeout_s: For each operation.
            metrics: Counts operations by outcome.
            log: Told once when the store fails, and once when it is back.
            clock: Seconds, never going backwards.
        """
        self.inner = store
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._failures = 0
        self._closed_until = 0.0
        self._failed_at = -PAUSE_S
        self.is_degraded = False

    async def recall(self, scope: bytes, asked: Sequence[Asked]) -> Recalled | None:
        """Return what the store holds; None when it did not answer in time."""
        started = self._begin("recall")
        if started is None:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self.inner.recall(scope, asked)
        except Exception as error:  # noqa: BLE001 (fail open: a bug in a store is a failure too)
            self._failed("recall", started, error)
            return None
        self._done("recall", started)
        return found

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> bool:
        """Keep a turn; False when the store did not say in time that it has."""
        started = self._begin("save")
        if started is None:
            return False
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.inner.save(scope, turn, keys)
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed("save", started, error)
            return False
        self._done("save", started)
        return True

    async def check(self) -> bool:
        """Ask the store for a sign of life, also while it is left alone."""
        started = self._clock()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.inner.check()
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed("check", started, error)
            return False
        if started - self._failed_at >= PAUSE_S:
            self._done("check", started)
        # A store that answers a PING while it fails at its work is not well.
        return not self.is_degraded

    async def close(self) -> None:
        """Let go of the store's connections."""
        await self.inner.close()

    def _begin(self, operation: str) -> float | None:
        now = self._clock()
        if now < self._closed_until:
            self._metrics.store_operations.labels(operation, "skipped").inc()
            return None
        if self._failures >= FAILURES_TOLERATED:
            self._closed_until = now + PAUSE_S  # this one tries; the others wait for its outcome
        return now

    def _done(self, operation: str, started: float) -> None:
        self._metrics.store_seconds.labels(operation).observe(self._clock() - started)
        self._metrics.store_operations.labels(operation, "ok").inc()
        self._failures = 0
        self._closed_until = 0.0
        if self.is_degraded:
            self.is_degraded = False
            self._log.info("store_recovered")
        self._metrics.store_up.set(1)

    def _failed(self, operation: str, started: float, error: Exception) -> None:
        self._metrics.store_seconds.labels(operation).observe(self._clock() - started)
        outcome = "timeout" if isinstance(error, TimeoutError) else "error"
        self._metrics.store_operations.labels(operation, outcome).inc()
        if operation != "check":
            self._failed_at = self._clock()
        self._failures += 1
        if self._failures >= FAILURES_TOLERATED:
            self._closed_until = self._clock() + PAUSE_S
        if not self.is_degraded:
            self.is_degraded = True
            # A bug's own words may hold anything; a store's never hold a key or a password.
            reason = str(error) if isinstance(error, StoreError) else type(error).__name__
            self._log.warning("store_failed", operation=operation, reason=reason)
        self._metrics.store_up.set(0)
