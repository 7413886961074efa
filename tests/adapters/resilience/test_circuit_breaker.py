"""The circuit breaker opens after failures in a row, and reports each change of its state."""

import pytest
from reasoning_replay.adapters.resilience.circuit_breaker import (
    FAILURES_TOLERATED,
    PAUSE_MAX_S,
    PAUSE_S,
    CircuitBreaker,
    Permit,
)
from reasoning_replay.adapters.stores.base import BreakerState


class Watched:
    """A breaker, and the states that it has reported."""

    def __init__(self) -> None:
        self.now = 0.0
        self.states: list[BreakerState] = []
        self.breaker = CircuitBreaker(lambda: self.now, self.states.append)

    def ends(self, permit: Permit = Permit.GO, *, failed: bool = True) -> None:
        """Record the end of a call that began now."""
        self.breaker.record(permit, self.now, failed=failed)


def test_each_change_is_reported_once() -> None:
    """The states are open, probed and still open, then probed again and closed."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED + 2):
        one.ends()
    assert one.states == [BreakerState.OPEN]
    assert one.breaker.allow() is Permit.SKIP
    one.now += PAUSE_S
    one.ends(one.breaker.allow())
    assert one.states == [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.OPEN]
    one.now += 2 * PAUSE_S
    one.ends(one.breaker.allow(), failed=False)
    assert one.states[3:] == [BreakerState.HALF_OPEN, BreakerState.CLOSED]


def test_a_cancelled_probe_leaves_the_breaker_open() -> None:
    """A cancelled probe has no result, and a late result of an earlier call changes nothing."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED):
        one.ends()
    one.now += PAUSE_S
    one.breaker.cancel(one.breaker.allow())
    one.breaker.cancel(Permit.GO)
    one.ends(failed=False)
    assert one.states == [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.OPEN]
    assert one.breaker.allow() is Permit.PROBE


@pytest.mark.parametrize("rounds", [1, 2])
def test_pauses_grow_while_probes_fail(rounds: int) -> None:
    """Pauses double from 1 s to 10 s, and start at 1 s again after a successful call."""
    one = Watched()
    for _ in range(rounds):
        for _ in range(FAILURES_TOLERATED):
            one.ends()
        for pause_s in (PAUSE_S, 2.0, 4.0, 8.0, PAUSE_MAX_S, PAUSE_MAX_S):
            one.now += pause_s * 0.99
            assert one.breaker.allow() is Permit.SKIP
            one.now += pause_s * 0.02
            one.ends(one.breaker.allow())
        one.now += PAUSE_MAX_S
        one.ends(one.breaker.allow(), failed=False)
        assert one.breaker.is_closed
