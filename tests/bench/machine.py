"""What a process costs this machine, and on which of its processors it may run."""

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["ALLOWED", "cores", "cpu_s", "family", "free_port", "pinned", "rss_bytes"]

ALLOWED = tuple(sorted(os.sched_getaffinity(0)))
"""Processors that this program was given when it started."""

CPUCLOCK_SCHED = 2  # of linux/posix-timers.h: counts what the scheduler gave, all threads together


def cores() -> tuple[int, int]:
    """Name the processor for what is measured and the one for all else; the same if it is alone."""
    return ALLOWED[0], ALLOWED[-1]


@contextlib.contextmanager
def pinned(*core: int) -> Iterator[None]:
    """Start processes on these processors while the block lasts; none given: wherever we run."""
    before = os.sched_getaffinity(0)
    if core:
        os.sched_setaffinity(0, core)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def family(pid: int) -> list[int]:
    """List a process and all that descend from it, itself first."""
    pids = [pid]
    for one in pids:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                pids += map(int, task.read_text().split())
    return pids


def cpu_s(pid: int) -> float:
    """Tell how long one process has computed so far, in seconds, exact to the nanosecond."""
    # What clock_getcpuclockid(3) does; /proc/PID/stat counts in steps of 10 ms.
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def rss_bytes(pid: int) -> int:
    """Tell how much memory one process has resident."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    """Find a port of loopback that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
