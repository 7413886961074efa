"""Circuit breaker: stops calls to a store that keeps failing, and probes it after a pause."""

from collections.abc import Callable
from enum import Enum

from reasoning_replay.adapters.stores.base import BreakerState

# After this many failures in a row, a breaker opens for PAUSE_S and then allows one probe. Each
# failed probe doubles the pause, up to PAUSE_MAX_S.
FAILURES_TOLERATED = 3
PAUSE_S = 1.0
PAUSE_MAX_S = 10.0


class Permit(Enum):
    """Decision of a breaker about a call."""

    GO = "go"
    PROBE = "probe"  # one trial call while the breaker is open; no exchange should wait for it
    SKIP = "skip"


class CircuitBreaker:
    """
    Circuit breaker: closed, open, or half-open while one probe is running.

    For each permit other than SKIP, the caller must call `record` or `cancel` once.
    """

    def __init__(
        self, clock: Callable[[], float], on_change: Callable[[BreakerState], None]
    ) -> None:
        self._clock = clock
        self._on_change = on_change
        self._failures = 0
        self._failed_at = float("-inf")
        self._pause_s = PAUSE_S
        self._open_until = 0.0
        self._is_probing = False

    @property
    def is_closed(self) -> bool:
        """Whether all calls are allowed."""
        return self._failures < FAILURES_TOLERATED

    @property
    def is_due(self) -> bool:
        """Whether it is closed, or its pause is over and no probe is running."""
        return self.is_closed or not (self._is_probing or self._clock() < self._open_until)

    def allow(self) -> Permit:
        """Return the permit for a call; only one caller at a time gets PROBE."""
        if self.is_closed:
            return Permit.GO
        if not self.is_due:
            return Permit.SKIP
        self._is_probing = True
        self._on_change(BreakerState.HALF_OPEN)
        return Permit.PROBE

    def record(self, permit: Permit, began_s: float, *, failed: bool) -> None:
        """
        Record the result of a call; while the breaker is open, only that of a probe counts.

        A call that failed and began (`began_s`, by the clock) before the last failure is not
        counted again: the cause is assumed to be the same.
        """
        is_probe = permit is Permit.PROBE
        if is_probe:
            self._is_probing = False
        elif not self.is_closed:
            return
        if not failed:
            self._failures, self._pause_s = 0, PAUSE_S
            if is_probe:
                self._on_change(BreakerState.CLOSED)
            return
        if is_probe:
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        elif began_s < self._failed_at:
            return
        else:
            self._failures += 1
        self._failed_at = self._clock()
        self._open_until = self._failed_at + self._pause_s
        if not self.is_closed:
            self._on_change(BreakerState.OPEN)

    def cancel(self, permit: Permit) -> None:
        """End a permit without a result."""
        if permit is Permit.PROBE:
            self._is_probing = False
            self._on_change(BreakerState.OPEN)
