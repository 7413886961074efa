"""Costs of a process on this machine, and the CPUs it may run on."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

ALLOWED = tuple(sorted(os.sched_getaffinity(0)))
"""CPUs that this program was given when it started."""

CPUCLOCK_SCHED = 2  # from linux/posix-timers.h: counts scheduled time of all threads


def cores() -> tuple[int, int]:
    """Return the CPU for the contender and the one for all else; the same if there is only one."""
    return ALLOWED[0], ALLOWED[-1]


@contextlib.contextmanager
def pinned(*core: int) -> Iterator[None]:
    """Start processes on these CPUs while the block runs; without any, on the current ones."""
    before = os.sched_getaffinity(0)
    if core:
        os.sched_setaffinity(0, core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def family(pid: int) -> list[int]:
    """List a process and all its descendants, itself first."""
    pids = [pid]
    for one in pids:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it has ended in the meantime
                pids += map(int, task.read_text().split())
    return pids


def cpu_s(pid: int) -> float:
    """Return the CPU time of one process so far, in seconds, exact to the nanosecond."""
    # As clock_getcpuclockid(3) does; /proc/PID/stat counts in steps of 10 ms.
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def rss_bytes(pid: int) -> int:
    """Return the resident memory of one process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
