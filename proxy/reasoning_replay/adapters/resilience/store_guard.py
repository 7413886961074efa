"""
Store guard: runs store operations with a deadline, and turns every failure into None.

While an exchange waits for an operation, the timer of its wait is the only one. The operation gets
its timeout when the wait ends, and continues: to cancel it at once would cost its connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from reasoning_replay.adapters.resilience.circuit_breaker import (
    PAUSE_S,
    CircuitBreaker,
    Permit,
)
from reasoning_replay.adapters.stores.base import BreakerState, StoreError
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import BREAKERS, Metrics

# Most lookups in flight, and most saves. One event loop does all the work: with more, they time out
# while they wait for each other; with fewer, a Redis some ms away is not fully used. (Measured with
# 30 clients on a busy machine, Redis 0 to 15 ms away: 4 is best at 0, 16 at 15.) A lookup in Redis
# takes two round trips, so a Redis 20 ms away allows 16 / (2 * 20 ms) = 400 a second at most.
AT_ONCE = 16
# After a failure, every replica has saved what the store did not take within this time.
LATE_S = 60.0

_Got = TypeVar("_Got")


@dataclass(slots=True, eq=False)
class Budget:
    """
    Time for which one exchange may still wait for the store, and what it knows of it.

    Attributes:
        left_s: Remaining seconds. Each wait reduces it; a wait without a result sets it to 0.
        since: `Deletions.count` when it began, or as of its last lookup: what was deleted later is
            not saved by it. None: all is saved.
        whole_s: Initial value of `left_s`.
    """

    left_s: float
    since: int | None = None
    whole_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.whole_s = self.left_s

    @property
    def is_used_up(self) -> bool:
        """Whether the exchange waits no longer; it ignores late results."""
        return self.left_s <= 0


@dataclass(slots=True, eq=False)
class Call:
    """
    One store operation.

    Attributes:
        operation: Its label in the metrics.
        began_s: Start of the caller's wait, or else of the operation, by the clock.
        useful_s: Longest duration of a successful probe. A slower one counts as failed, because no
            exchange would wait that long.
        is_awaited: Whether an exchange waits for it, so that it needs no timeout of its own.
        is_late: Whether no caller waits for it any more.
        is_recorded: Whether the breaker has its result.
        deadline: Its timeout, while it runs.
    """

    operation: str
    permit: Permit = Permit.GO
    began_s: float = 0.0
    useful_s: float = float("inf")
    is_awaited: bool = False
    is_late: bool = False
    is_recorded: bool = False
    deadline: asyncio.Timeout | None = None


class StoreGuard:
    """
    Runner of store operations: counts and times them, sets a timeout, and tracks store failures.

    Attributes:
        breakers: Circuit breakers. Lookups and saves have one each: a full store can still be read.
        is_degraded: Whether the store failed within the last PAUSE_S, or an operation that failed
            has not worked since.
        failing: Operations that failed and have not worked since.
        fault: Why it is degraded, as logged; "" while it is not.
        timeout_s: Timeout of one operation.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        timeout_s: float,
        metrics: Metrics,
        log: Log,
        clock: Callable[[], float],
        advice: Callable[[str, bool], str] = lambda *_: "",
    ) -> None:
        """
        Start in the state of a working store.

        Args:
            timeout_s: Timeout of one operation, no shorter than the budget of an exchange.
            metrics: Counts operations by outcome.
            log: Receives one line when the store fails, and one when it recovers.
            clock: Monotonic clock, in seconds.
            advice: Returns what to do about the error with a text, by whether the store has worked
                before; "" if that is not known.
        """
        self._has_worked = False
        self._advice = advice
        self.timeout_s = timeout_s
        self.clock = clock
        self.breakers = {
            name: CircuitBreaker(clock, partial(self._show, name)) for name in BREAKERS
        }
        self.is_degraded = False
        self.failing: set[str] = set()
        self.fault = ""
        self.metrics = metrics
        self._log = log
        self._failed_at = float("-inf")

    @property
    def has_failed_lately(self) -> bool:
        """Whether replicas may still have turns to save that it did not take when it failed."""
        return self.is_degraded or not self._is_quiet(LATE_S)

    def _is_quiet(self, span_s: float) -> bool:
        return self.clock() - self._failed_at >= span_s

    async def wait(self, call: Call, task: "asyncio.Task[Any]", budget: Budget) -> bool:
        """Wait for the task of a call within a budget; return whether it is done in time."""
        began_s = self.clock()
        try:
            if budget.left_s > 0:
                await asyncio.wait([task], timeout=budget.left_s)
        finally:
            budget.left_s = max(0.0, budget.left_s - (self.clock() - began_s))
            if not task.done():
                budget.left_s = 0.0
                self._leave(call)
        return task.done()

    def _leave(self, call: Call) -> None:
        """Begin the timeout of a call for which no exchange waits any more."""
        call.is_awaited, call.is_late = False, True
        if call.deadline is not None and call.deadline.when() is None:
            call.deadline.reschedule(asyncio.get_running_loop().time() + self.timeout_s)

    async def run(
        self, call: Call, act: Callable[[], Awaitable[_Got]], *, waits: bool = True
    ) -> _Got | None:
        """Run one operation, with a timeout if it `waits`; return None if it fails."""
        began_s = self.clock()
        try:
            if waits:
                timeout_s = None if call.is_awaited else self.timeout_s
                async with asyncio.timeout(timeout_s) as call.deadline:
                    got = await act()
            else:
                got = await act()
        except Exception as error:  # noqa: BLE001 (fail open: a bug in a store is a failure, too)
            self._failed(call, began_s, error)
            return None
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # by `close`, or together with the caller
                self._cancel(call)
                raise
            self._failed(call, began_s, error)  # the store raised it
            return None
        except BaseException:  # the process ends
            self._cancel(call)
            raise
        self._worked(call, began_s)
        return got

    def miss(self, call: Call) -> None:
        """Record that a lookup exceeded the budget of its exchange."""
        self._record(call, failed=True)
        if not self.breakers[call.operation].is_closed:
            self._degrade(call.operation, "late")

    def count(self, operation: str, outcome: str) -> None:
        """Count one operation that ended, or was skipped."""
        self.metrics.inc(self.metrics.store_operations, operation, outcome)

    def _worked(self, call: Call, began_s: float) -> None:
        self._has_worked = True
        took_s = self._observe(call, began_s)
        is_probe = call.permit is Permit.PROBE
        is_late = took_s > call.useful_s if is_probe else call.is_late
        self.count(call.operation, "late" if is_late else "ok")
        self._record(call, failed=is_probe and is_late)
        if not (is_late and call.operation == "recall"):  # no exchange had any use of it
            self.failing.discard(call.operation)
        # A store that responds to a check may still refuse every save, so an outage ends when each
        # operation that failed has worked again. A store that fails now and then would fill the
        # log, so that takes PAUSE_S without a failure as well.
        is_usable = all(one.is_closed for one in self.breakers.values())
        if self.is_degraded and self._is_quiet(PAUSE_S) and is_usable and not self.failing:
            self.is_degraded, self.fault = False, ""
            self._log.info("store_recovered", operation=call.operation)
            self.metrics.store_up.set(1)

    def _failed(self, call: Call, began_s: float, error: BaseException) -> None:
        self._observe(call, began_s)
        self.count(call.operation, "timeout" if isinstance(error, TimeoutError) else "error")
        if call.operation != "check":
            self._failed_at = self.clock()
        if isinstance(error, StoreError) and error.is_local:
            self._cancel(call)
        else:
            self._record(call, failed=True)
        # The message of a bug may contain anything; that of a StoreError never contains a secret.
        reason = str(error) if isinstance(error, StoreError) else type(error).__name__
        if isinstance(error, TimeoutError):
            reason = f"it did not respond within {self.timeout_s:g} s"
        self._degrade(call.operation, reason)

    def _record(self, call: Call, *, failed: bool) -> None:
        """Pass a result to the breaker, once for each call."""
        if call.is_recorded or call.operation not in self.breakers:
            return
        call.is_recorded = True
        if failed:
            self._failed_at = self.clock()
        self.breakers[call.operation].record(call.permit, call.began_s, failed=failed)

    def _cancel(self, call: Call) -> None:
        if not call.is_recorded and call.operation in self.breakers:
            call.is_recorded = True
            self.breakers[call.operation].cancel(call.permit)

    def _degrade(self, operation: str, reason: str) -> None:
        self.failing.add(operation)
        if not self.is_degraded:
            self.is_degraded, self.fault = True, reason
            advice = self._advice(reason, self._has_worked)
            told = {"hint": advice} if advice else {}
            self._log.warning("store_failed", operation=operation, reason=reason, **told)
            self.metrics.store_up.set(0)

    def _show(self, operation: str, state: BreakerState) -> None:
        for one in BreakerState:
            self.metrics.store_breakers.labels(operation, one.value).set(one is state)

    def _observe(self, call: Call, began_s: float) -> float:
        took_s = self.clock() - began_s
        self.metrics.observe(self.metrics.store_seconds, took_s, call.operation)
        return took_s
