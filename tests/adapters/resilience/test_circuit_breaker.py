"""The circuit breaker opens after failures in a row, and reports each change of its state."""

import pytest
from reasoning_replay.adapters.resilience.circuit_breaker import (
    FAILURES_TOLERATED,
    PAUSE_MAX_S,
    PAUSE_S,
    CircuitBreaker,
    Permit,
    State,
)


class Watched:
    """A breaker, and the states that it has reported."""

    def __init__(self) -> None:
        self.now = 0.0
        self.states: list[State] = []
        self.breaker = CircuitBreaker(lambda: self.now, self.states.append)

    def ends(self, permit: Permit = Permit.GO, *, failed: bool = True) -> None:
        """Let a call end that began now."""
        self.breaker.record(permit, self.now, failed=failed)


def test_what_works_is_not_reported() -> None:
    """It is closed from the start; failures with successes between them leave it so."""
    one = Watched()
    for _ in range(3 * FAILURES_TOLERATED):
        assert one.breaker.allow() is Permit.GO
        one.ends()
        one.ends(one.breaker.allow(), failed=False)
    assert one.states == []


def test_each_change_is_reported_once() -> None:
    """Open, probed and still open, probed again and closed."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED + 2):
        one.ends()
    assert one.states == [State.OPEN]
    assert one.breaker.allow() is Permit.SKIP
    one.now += PAUSE_S
    one.ends(one.breaker.allow())
    assert one.states == [State.OPEN, State.HALF_OPEN, State.OPEN]
    one.now += 2 * PAUSE_S
    one.ends(one.breaker.allow(), failed=False)
    assert one.states[3:] == [State.HALF_OPEN, State.CLOSED]


def test_only_one_call_at_a_time_is_a_probe() -> None:
    """Others are skipped until its result is known, however long that takes."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED):
        one.ends()
    one.now += PAUSE_S
    permits = [one.breaker.allow()]
    one.now += 10 * PAUSE_MAX_S
    permits.append(one.breaker.allow())
    assert permits == [Permit.PROBE, Permit.SKIP]


def test_a_probe_that_is_cancelled_leaves_it_open() -> None:
    """It says nothing about the store; the end of any other call changes nothing."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED):
        one.ends()
    one.now += PAUSE_S
    one.breaker.cancel(one.breaker.allow())
    one.breaker.cancel(Permit.GO)
    one.ends(failed=False)
    assert one.states == [State.OPEN, State.HALF_OPEN, State.OPEN]
    assert one.breaker.allow() is Permit.PROBE


def test_calls_that_overlap_fail_together() -> None:
    """What began before the last failure had the same reason: a stall counts once."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED):
        assert one.breaker.is_closed
        began = one.now
        for _ in range(10):
            one.now += 0.1
            one.breaker.record(Permit.GO, began, failed=True)
    assert one.states == [State.OPEN]


@pytest.mark.parametrize("rounds", [1, 2])
def test_pauses_grow_while_probes_fail(rounds: int) -> None:
    """From one second, doubling, to ten; and from one again once a call has worked."""
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
