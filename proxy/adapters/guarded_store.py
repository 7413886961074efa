"""
A store that cannot hurt: deadlines, failures swallowed and counted, and a pause after failures.

This is promise 2, fail open: whatever happens in a store, the exchange goes on without it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from proxy.adapters.logs import Log
from proxy.adapters.metrics import Metrics
from proxy.adapters.store import Store, StoreError
from proxy.core.keys import Asked, Recalled
from proxy.core.turns import Turn

__all__ = ["GuardedStore"]

# After this many failures in a row an operation is left alone for PAUSE_S, then tried once.
FAILURES_TOLERATED = 3
PAUSE_S = 1.0
# Operations under way at once. More would not be faster, as one loop does all the work, and each
# would find its deadline passed while it waited for the others.
AT_ONCE = 4

_Got = TypeVar("_Got")


@dataclass(slots=True)
class _Gate:
    """Whether one kind of operation is tried: a store that is full may still be read."""

    failures: int = 0
    closed_until: float = 0.0


class GuardedStore:
    """
    Does what the store does, within a deadline, or nothing.

    Attributes:
        inner: The store itself.
        is_degraded: Whether it failed within the last second or has not worked since it did.
    """

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
            timeout_s: For each operation, once it is its turn.
            metrics: Counts operations by outcome.
            log: Told once when the store fails, and once when it is back.
            clock: Seconds, never going backwards.
        """
        self.inner = store
        self._timeout_s = timeout_s
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._gates = {"recall": _Gate(), "save": _Gate()}
        self._failed_at = -PAUSE_S
        self.is_degraded = False

    async def recall(self, scope: bytes, asked: Sequence[Asked]) -> Recalled | None:
        """Return what the store holds; None when it did not answer in time."""
        return await self._do("recall", lambda: self.inner.recall(scope, asked))

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> bool:
        """Keep a turn; False when the store did not say in time that it has."""

        async def save() -> bool:
            await self.inner.save(scope, turn, keys)
            return True

        return await self._do("save", save) is not None

    async def check(self) -> bool:
        """Ask the store for a sign of life, also while it is left alone."""
        started = self._clock()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self.inner.check()
        except Exception as error:  # noqa: BLE001 (as below)
            self._failed("check", started, error)
            return False
        self._done("check", started)
        # A store that answers a PING while it fails at its work is not well.
        return not self.is_degraded

    async def close(self) -> None:
        """Let go of the store's connections."""
        await self.inner.close()

    async def _do(self, operation: str, act: Callable[[], Awaitable[_Got]]) -> _Got | None:
        async with self._turn:
            gate = self._gates[operation]
            started = self._clock()
            if started < gate.closed_until:
                self._metrics.store_operations.labels(operation, "skipped").inc()
                return None
            if gate.failures >= FAILURES_TOLERATED:
                gate.closed_until = started + PAUSE_S  # this one tries; others wait for its outcome
            try:
                async with asyncio.timeout(self._timeout_s):
                    got = await act()
            except Exception as error:  # noqa: BLE001 (fail open: a store's bug is a failure too)
                self._failed(operation, started, error)
                if not (isinstance(error, StoreError) and error.is_local):
                    gate.failures += 1
                    if gate.failures >= FAILURES_TOLERATED:
                        gate.closed_until = self._clock() + PAUSE_S
                return None
            gate.failures, gate.closed_until = 0, 0.0
            self._done(operation, started)
            return got

    def _done(self, operation: str, started: float) -> None:
        now = self._clock()
        self._metrics.store_seconds.labels(operation).observe(now - started)
        self._metrics.store_operations.labels(operation, "ok").inc()
        # Not at the first success: one that fails now and then would fill the log.
        if self.is_degraded and now - self._failed_at >= PAUSE_S:
            self.is_degraded = False
            self._log.info("store_recovered")
            self._metrics.store_up.set(1)

    def _failed(self, operation: str, started: float, error: Exception) -> None:
        now = self._clock()
        self._metrics.store_seconds.labels(operation).observe(now - started)
        outcome = "timeout" if isinstance(error, TimeoutError) else "error"
        self._metrics.store_operations.labels(operation, outcome).inc()
        if operation != "check":
            self._failed_at = now
        if not self.is_degraded:
            self.is_degraded = True
            # A bug's own words may hold anything; a store's never hold a key or a password.
            reason = str(error) if isinstance(error, StoreError) else type(error).__name__
            self._log.warning("store_failed", operation=operation, reason=reason)
            self._metrics.store_up.set(0)
