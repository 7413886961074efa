"""Allocator: glibc's malloc, set up for this process so that it returns freed memory."""

import ctypes
import os
from collections.abc import Callable
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
    mallopt = _function("mallopt")
    if mallopt is None:
        return
    for parameter, variable, value in _PARAMETERS:
        if variable not in os.environ:
            mallopt(parameter, value)


def give_back() -> None:
    """
    Return all free pages to the system; does nothing with another C library.

    malloc itself returns only those at the end of the heap. It takes 20 ms for 340 MiB.
    """
    malloc_trim = _function("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def _function(name: str) -> Callable[..., int] | None:
    """Return a function of glibc; None with another C library."""
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):
        return None
    return function
