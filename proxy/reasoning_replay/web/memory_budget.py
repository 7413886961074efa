"""
Memory budget: the bytes of request bodies that one process may hold, over all exchanges.

A body that exceeds it is streamed unread; see `inspect_total_max_bytes`.
"""

__all__ = ["MemoryBudget", "MemoryLease"]


class MemoryBudget:
    """
    Counter of the bytes that all exchanges together may still hold.

    Attributes:
        max_bytes: All bytes, reserved and free.
    """

    def __init__(self, max_bytes: int) -> None:
        """Start with `max_bytes` free."""
        self.max_bytes = self._free = max_bytes

    @property
    def used_bytes(self) -> int:
        """Number of reserved bytes."""
        return self.max_bytes - self._free

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes; if fewer are free, reserve none and return False."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def reserve_up_to(self, size: int) -> int:
        """Reserve `size` bytes, or all free ones if there are fewer; return the number."""
        reserved = min(size, self._free)
        self._free -= reserved
        return reserved

    def release(self, size: int) -> None:
        """Free `size` reserved bytes."""
        self._free += size


class MemoryLease:
    """The bytes that one holder has reserved from a budget."""

    def __init__(self, budget: MemoryBudget) -> None:
        """Start without reserved bytes."""
        self._budget = budget
        self._held = 0

    def reserve(self, size: int) -> bool:
        """Reserve `size` more bytes; if fewer are free, change nothing and return False."""
        if not self._budget.reserve(size):
            return False
        self._held += size
        return True

    def reserve_up_to(self, size: int) -> int:
        """Reserve `size` more bytes, or all free ones if there are fewer; return the number."""
        reserved = self._budget.reserve_up_to(size)
        self._held += reserved
        return reserved

    def release(self, size: int) -> None:
        """Release `size` bytes, or all held ones if there are fewer."""
        size = min(size, self._held)
        self._held -= size
        self._budget.release(size)

    def resize(self, size: int) -> bool:
        """Hold exactly `size` bytes; if too few are free, change nothing and return False."""
        if size > self._held:
            return self.reserve(size - self._held)
        self.release(self._held - size)
        return True
