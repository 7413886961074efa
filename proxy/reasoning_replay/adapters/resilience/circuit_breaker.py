"""When to leave something alone that fails, and when to try it again."""

from collections.abc import Callable
from enum import Enum, StrEnum

__all__ = ["FAILURES_TOLERATED", "PAUSE_MAX_S", "PAUSE_S", "CircuitBreaker", "Permit", "State"]

# After this many failures in a row it is left alone for PAUSE_S, then tried once; each time that
# fails the next pause is twice as long.
FAILURES_TOLERATED = 3
PAUSE_S = 1.0
PAUSE_MAX_S = 10.0


class Permit(Enum):
    """Whether to try."""

    GO = "go"
    PROBE = "probe"  # this one alone, on behalf of all: nobody should wait for it
    SKIP = "skip"


class State(StrEnum):
    """How a breaker stands; also the label that it is shown under."""

    CLOSED = "closed"
    HALF_OPEN = "half_open"  # one tries, for all
    OPEN = "open"


def _nobody(state: State) -> None:
    """Listen to nothing."""


class CircuitBreaker:
    """
    A circuit breaker: closed, open, and half-open while one tries for all.

    Whoever was let through with GO or PROBE says with `settle` what came of it, once.
    """

    def __init__(self, clock: Callable[[], float], tell: Callable[[State], None] = _nobody) -> None:
        """
        Start closed.

        Args:
            clock: Seconds, never going backwards.
            tell: Told of each state that is another than the one before.
        """
        self._clock = clock
        self._tell = tell
        self._failures = 0
        self._pause_s = PAUSE_S
        self._open_until = 0.0
        self._is_probing = False

    @property
    def is_closed(self) -> bool:
        """Whether everybody may try."""
        return self._failures < FAILURES_TOLERATED

    @property
    def is_due(self) -> bool:
        """Whether it is closed, or its pause is over and nobody tries yet."""
        return self.is_closed or not (self._is_probing or self._clock() < self._open_until)

    def ask(self) -> Permit:
        """Tell whether to try now; PROBE is said to one alone."""
        if self.is_closed:
            return Permit.GO
        if not self.is_due:
            return Permit.SKIP
        self._is_probing = True
        self._tell(State.HALF_OPEN)
        return Permit.PROBE

    def settle(self, how: Permit, *, has_failed: bool) -> bool:
        """
        Take what came of a try.

        Args:
            how: What it was let through with. While the breaker is open only a probe counts:
                the others began before, and say nothing new.
            has_failed: Whether it failed.

        Returns:
            Whether this has opened the breaker, for the first time since it was closed.
        """
        is_probe = how is Permit.PROBE
        if is_probe:
            self._is_probing = False
        elif not self.is_closed:
            return False
        if not has_failed:
            self._failures, self._pause_s = 0, PAUSE_S
            if is_probe:
                self._tell(State.CLOSED)
            return False
        if is_probe:
            self._pause_s = min(2 * self._pause_s, PAUSE_MAX_S)
        else:
            self._failures += 1
        self._open_until = self._clock() + self._pause_s
        if not self.is_closed:
            self._tell(State.OPEN)
        return not is_probe and not self.is_closed

    def drop(self, how: Permit) -> None:
        """Take it that a try was given up before it could tell anything."""
        if how is Permit.PROBE:
            self._is_probing = False
            self._tell(State.OPEN)
