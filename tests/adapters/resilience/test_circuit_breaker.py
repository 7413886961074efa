"""A breaker says how it stands whenever that is another than before."""

from reasoning_replay.adapters.resilience.circuit_breaker import (
    FAILURES_TOLERATED,
    PAUSE_S,
    CircuitBreaker,
    Permit,
    State,
)


class Watched:
    """A breaker, and what it has said."""

    def __init__(self) -> None:
        self.now = 0.0
        self.said: list[State] = []
        self.breaker = CircuitBreaker(lambda: self.now, self.said.append)

    def fails(self, how: Permit = Permit.GO) -> None:
        """Let a try fail."""
        self.breaker.settle(how, has_failed=True)


def test_what_works_is_not_told() -> None:
    """It is closed from the start; so are a few failures that are not in a row."""
    one = Watched()
    for _ in range(3 * FAILURES_TOLERATED):
        assert one.breaker.ask() is Permit.GO
        one.fails()
        one.breaker.settle(one.breaker.ask(), has_failed=False)
    assert one.said == []


def test_each_change_is_told_once() -> None:
    """Open, tried for all and still open, tried again and closed."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED + 2):
        one.fails()
    assert one.said == [State.OPEN]
    assert one.breaker.ask() is Permit.SKIP
    one.now += PAUSE_S
    one.fails(one.breaker.ask())
    assert one.said == [State.OPEN, State.HALF_OPEN, State.OPEN]
    one.now += 2 * PAUSE_S
    one.breaker.settle(one.breaker.ask(), has_failed=False)
    assert one.said[3:] == [State.HALF_OPEN, State.CLOSED]


def test_a_probe_that_is_given_up_leaves_it_open() -> None:
    """It has told nothing; one that was no probe changes nothing."""
    one = Watched()
    for _ in range(FAILURES_TOLERATED):
        one.fails()
    one.now += PAUSE_S
    one.breaker.drop(one.breaker.ask())
    one.breaker.drop(Permit.GO)
    assert one.said == [State.OPEN, State.HALF_OPEN, State.OPEN]
