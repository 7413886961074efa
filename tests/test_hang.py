"""The hang watch: which time it counts, and how it ends a test."""

import os
import signal

import pytest

from tests import hang
from tests.hang import FreeTime, times, watch_for_hang


@pytest.mark.parametrize(
    ("readings", "passed"),
    [
        pytest.param([(0, 0, 0), (5, 0, 1), (10, 0, 1)], [1, 1], id="others work"),
        pytest.param([(0, 0, 0), (5, 10, 0), (10, 20, 0)], [5, 10], id="two idle ones count once"),
        pytest.param([(0, 0, 0), (5, 1, 0), (10, 6, 0)], [1, 6], id="busy first, idle then"),
        pytest.param([(0, 0, 0), (5, 0, 5), (10, 0, 15)], [5, 10], id="the test itself works"),
        pytest.param([(0, 3, 0), (5, 2, 0), (10, 4, 0)], [0, 2], id="a counter that goes back"),
    ],
)
def test_only_time_with_a_processor_counts(
    readings: list[tuple[float, float, float]], passed: list[float]
) -> None:
    """A test that waits for its turn has all the time that it needs."""
    reading = iter(readings)
    clock = FreeTime(lambda: next(reading))
    assert [clock.passed() for _ in passed] == passed


def test_the_system_tells_all_three_times() -> None:
    """None of them is without a value, whatever the system."""
    assert all(time > 0 for time in times())


def test_a_hung_test_is_ended_in_its_own_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch looks at each tick, and ends once."""
    now, ended = [0.0], list[bool]()
    monkeypatch.setattr(hang, "times", lambda: (now[0], now[0], 0.0))
    outer = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)
    try:
        watch_for_hang(120, lambda: ended.append(True))
        for now[0], so_far in [(60.0, []), (130.0, [True])]:
            os.kill(os.getpid(), signal.SIGALRM)
            assert ended == so_far
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:  # the watch over this test goes on
        signal.signal(signal.SIGALRM, outer[0])
        signal.setitimer(signal.ITIMER_REAL, *outer[1])
