"""Allocator: settings of glibc's malloc for this process, so that it returns freed memory."""

import ctypes
import os
from typing import Final

# A larger allocation is a mapping of its own, which the system gets back when it is freed, whatever
# else lives. Bodies below it, which are most, are allocated without page faults.
MMAP_BYTES: Final = 1 << 20
# Free memory that is kept at the end of the heap for the next requests.
TRIM_BYTES: Final = 8 << 20
# Python runs one thread at a time, and each further arena would keep free memory of its own.
ARENAS: Final = 1

# Parameters of mallopt(3), with the variable that an operator may set instead.
_PARAMETERS: Final = (
    (-3, "MALLOC_MMAP_THRESHOLD_", MMAP_BYTES),
    (-1, "MALLOC_TRIM_THRESHOLD_", TRIM_BYTES),
    (-8, "MALLOC_ARENA_MAX", ARENAS),
)


def tune_allocator() -> None:
    """Set what the environment does not set; does nothing with another C library."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # not glibc
        return
    for parameter, variable, value in _PARAMETERS:
        if variable not in os.environ:
            mallopt(parameter, value)
