"""Operations of a store, tried one by one: timed, counted, and their failures swallowed."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from reasoning_replay.adapters.resilience.circuit_breaker import (
    PAUSE_S,
    CircuitBreaker,
    Permit,
    State,
)
from reasoning_replay.adapters.stores.base import StoreError
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import BREAKERS, Metrics

__all__ = ["StoreCall", "StoreCalls"]

_Got = TypeVar("_Got")


@dataclass(slots=True)
class StoreCall:
    """
    One operation under way.

    Attributes:
        began: By the clock: when somebody began to wait for it.
        allowed_s: What takes longer is too late for anybody; None: nothing is.
        is_settled: Whether the breaker has been told of it.
        is_late: Whether nobody waits for it any more.
        has_failed: Whether it raised something, or its time was up.
    """

    operation: str
    how: Permit = Permit.GO
    began: float = 0.0
    allowed_s: float | None = None
    is_settled: bool = False
    is_late: bool = False
    has_failed: bool = False


class StoreCalls:
    """
    What is known of a store's health, from what became of its operations.

    Attributes:
        breakers: Apart for recall and save: a store that is full may still be read.
        is_degraded: Whether it failed within the last second or has not worked since it did.
    """

    def __init__(self, metrics: Metrics, log: Log, clock: Callable[[], float]) -> None:
        """
        Take it that the store is well.

        Args:
            metrics: Counts operations by outcome.
            log: Told once when the store fails, and once when it is back.
            clock: Seconds, never going backwards.
        """
        self.breakers = {
            operation: CircuitBreaker(clock, partial(self._show, operation))
            for operation in BREAKERS
        }
        self.is_degraded = False
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._failed_at = self._missed_at = -PAUSE_S

    async def run(
        self, trial: StoreCall, act: Callable[[], Awaitable[_Got]], timeout_s: float | None
    ) -> _Got | None:
        """Let the store do something, for as long as it likes or `timeout_s`; None: it failed."""
        began = self._clock()
        try:
            if timeout_s is None:
                got = await act()
            else:
                async with asyncio.timeout(timeout_s):
                    got = await act()
        except Exception as error:  # noqa: BLE001 (fail open: a store's bug is a failure too)
            self._failed(trial, began, error)
            return None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # by `close`, or with who asked
                self._settle(trial, None)
                raise
            self._failed(trial, began, error)  # nobody did: it came out of the store
            return None
        except BaseException:  # the process ends
            self._settle(trial, None)
            raise
        self._worked(trial, began)
        return got

    def _worked(self, trial: StoreCall, began: float) -> None:
        now = self._clock()
        self._observe(trial.operation, now - began)
        # Only a probe is judged here: for all others somebody waited, and knows.
        is_probe = trial.how is Permit.PROBE and trial.allowed_s is not None
        is_too_late = is_probe and now - began > (trial.allowed_s or 0.0)
        is_late = is_too_late or (trial.is_late and not is_probe)
        self.count(trial.operation, "late" if is_late else "ok")
        if is_too_late:
            self._failed_at = now
        self._settle(trial, has_failed=is_too_late)
        # Not at the first success: one that fails now and then would fill the log.
        if not self.is_degraded or now - self._failed_at < PAUSE_S:
            return
        # While one kind of operation is left alone, that the other works is no news; but where
        # nobody asks for anything, a sign of life is all that there will be.
        breakers = self.breakers.values()
        is_check = trial.operation == "check"
        if all(one.is_due if is_check else one.is_closed for one in breakers):
            self.is_degraded = False
            self._log.info("store_recovered", operation=trial.operation)
            self._metrics.store_up.set(1)

    def _failed(self, trial: StoreCall, began: float, error: BaseException) -> None:
        now = self._clock()
        trial.has_failed = True
        self._observe(trial.operation, now - began)
        self.count(trial.operation, "timeout" if isinstance(error, TimeoutError) else "error")
        if trial.operation != "check":
            self._failed_at = now
        is_local = isinstance(error, StoreError) and error.is_local
        self._settle(trial, None if is_local else True)
        # A bug's own words may hold anything; a store's never hold a key or a password.
        reason = str(error) if isinstance(error, StoreError) else type(error).__name__
        self._degrade(trial.operation, reason)

    def miss(self, trial: StoreCall, *, is_whole: bool) -> None:
        """Take it that a recall did not come within an exchange's budget."""
        if trial.is_settled:
            return
        # What is late after half of it was used for something else says little of the store; and
        # all that waited at the same time were late for the same reason, which may be our own.
        if not is_whole or trial.began < self._missed_at:
            self._settle(trial, None)
            return
        self._failed_at = self._missed_at = self._clock()
        if self._settle(trial, has_failed=True):
            self._degrade(trial.operation, "late")

    def _settle(self, trial: StoreCall, has_failed: bool | None) -> bool:  # noqa: FBT001
        """Tell the breaker, once; None: it says nothing of the store. True: this opened it."""
        breaker = self.breakers.get(trial.operation)
        if breaker is None or trial.is_settled:
            return False
        trial.is_settled = True
        if has_failed is None:
            breaker.drop(trial.how)
            return False
        return breaker.settle(trial.how, has_failed=has_failed)

    def _degrade(self, operation: str, reason: str) -> None:
        if not self.is_degraded:
            self.is_degraded = True
            self._log.warning("store_failed", operation=operation, reason=reason)
            self._metrics.store_up.set(0)

    def count(self, operation: str, outcome: str) -> None:
        """Count one operation that ended, or was not tried."""
        self._metrics.inc(self._metrics.store_operations, operation, outcome)

    def _show(self, operation: str, state: State) -> None:
        """Let operators see how a breaker stands; it changes seldom."""
        for one in State:
            self._metrics.store_breakers.labels(operation, one.value).set(one is state)

    def _observe(self, operation: str, took_s: float) -> None:
        self._metrics.observe(self._metrics.store_seconds, took_s, operation)
