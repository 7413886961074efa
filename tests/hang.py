"""
Hang watch: it ends a test that gets nowhere although a processor was free for it.

A limit of wall time would fail a test because its machine is busy. This one counts only the time
in which a processor had nothing to do, or in which the test itself had one: a test that waits for
its turn is left alone.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["FreeTime", "times", "watch_for_hang"]

TICK_S = 5.0
STATS = Path("/proc/stat")


def times() -> tuple[float, float, float]:
    """Return the wall time, the time of all idle processors, and that of this process, in s."""
    wall = idle = time.monotonic()  # where Linux's counters are missing, each second counts
    if STATS.exists():
        words = STATS.read_text(encoding="ascii").split("\n", 1)[0].split()
        idle = (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")
    return wall, idle, time.process_time()


class FreeTime:
    """
    A clock that stands still while all processors work for others.

    Args:
        now: Wall time, time of idle processors all together, and time that this process had one,
            in seconds.
    """

    def __init__(self, now: Callable[[], tuple[float, float, float]]) -> None:
        self._now = now
        self._last = now()
        self._passed = 0.0

    def passed(self) -> float:
        """Return the free time since the start, in seconds. Call it at least once a tick."""
        now = self._now()
        wall, idle, own = (later - earlier for later, earlier in zip(now, self._last, strict=True))
        # Several idle processors at once are no longer than one.
        self._passed += max(0.0, min(wall, max(idle, own)))
        self._last = now
        return self._passed


def watch_for_hang(limit_s: float, end: Callable[[], None]) -> Callable[[], None]:
    """Call `end` in the main thread after `limit_s` of free time; return what stops the watch."""
    clock = FreeTime(times)

    def tick(_signal: int, _frame: object) -> None:
        if clock.passed() < limit_s:
            return
        stop()
        try:
            tasks = asyncio.all_tasks()
        except RuntimeError:  # no event loop runs
            tasks = set()
        for task in tasks:
            task.print_stack(file=sys.stderr)
        end()

    def stop() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    return stop
