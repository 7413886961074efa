"""
Memory budget: how many bytes of requests one process holds at once, over all exchanges.

A request that finds no room is streamed on unread; see `inspect_total_max_bytes`.
"""

__all__ = ["MemoryBudget", "MemoryLease"]


class MemoryBudget:
    """Bytes that may still be held, of all exchanges together."""

    def __init__(self, max_bytes: int) -> None:
        """Begin with all of it free."""
        self._free = max_bytes

    def reserve(self, size: int) -> bool:
        """Reserve `size` bytes; False, and nothing is reserved, if fewer are free."""
        if size > self._free:
            return False
        self._free -= size
        return True

    def reserve_up_to(self, size: int) -> int:
        """Reserve `size` bytes, or all that are free; return how many."""
        reserved = min(size, self._free)
        self._free -= reserved
        return reserved

    def release(self, size: int) -> None:
        """Free `size` reserved bytes."""
        self._free += size


class MemoryLease:
    """The bytes of a budget that one holder has reserved."""

    def __init__(self, budget: MemoryBudget) -> None:
        """Begin with none."""
        self._budget = budget
        self._held = 0

    def reserve(self, size: int) -> bool:
        """Reserve `size` more bytes; False, and nothing changes, if fewer are free."""
        if not self._budget.reserve(size):
            return False
        self._held += size
        return True

    def reserve_up_to(self, size: int) -> int:
        """Reserve `size` more bytes, or all that are free; return how many."""
        reserved = self._budget.reserve_up_to(size)
        self._held += reserved
        return reserved

    def release(self, size: int) -> None:
        """Release `size` bytes, or all that are held if that is less."""
        size = min(size, self._held)
        self._held -= size
        self._budget.release(size)

    def resize(self, size: int) -> bool:
        """Hold exactly `size` bytes; False, and nothing changes, if fewer are free."""
        if size > self._held:
            return self.reserve(size - self._held)
        self.release(self._held - size)
        return True
