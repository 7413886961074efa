"""
Inputs that were read lately: a history that only grew is read from where it did.

Most requests of an agent say all that the one before them said, to the byte, and a little more. To
compare bytes takes a hundredth of the time that it takes to read them.
"""

from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ParsedPrefix", "PrefixCache"]

# Shorter inputs are read as fast as they are found here.
LEAST_BYTES = 16 * 1024
# Of what is read, beside the bytes it was read from: measured as about 900 for each item.
ITEM_BYTES = 1024
# So much of an input tells conversations apart; where it does not, the newest of them is kept.
HEAD_BYTES = 1024

_Read = TypeVar("_Read")
_NO_LOCK = nullcontext()


@dataclass(frozen=True, slots=True)
class ParsedPrefix(Generic[_Read]):
    """
    The beginning of a body, and what was read of it.

    Attributes:
        prefix: The body up to the end of the input's last item.
        read: Never changed.
    """

    prefix: bytes
    read: _Read
    size_bytes: int


class PrefixCache(Generic[_Read]):
    """
    What was read lately, bounded in bytes; the least recently used goes first.

    It holds nothing of what a store holds, and what it gives is a function of the bytes that are
    asked for: whoever asks has them. All the same nobody meets another's, as time would tell.
    """

    def __init__(self, max_bytes: int, lock: AbstractContextManager[object] = _NO_LOCK) -> None:
        """Start empty; with a lock, it may be used in several threads."""
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._kept: OrderedDict[tuple[bytes, bytes], ParsedPrefix[_Read]] = OrderedDict()
        self._lock = lock

    def find(self, whose: bytes, body: bytes, start: int) -> ParsedPrefix[_Read] | None:
        """Return what was read of a body that this one begins with; its input starts at `start`."""
        if len(body) < LEAST_BYTES:
            return None
        with self._lock:
            name = (whose, body[start : start + HEAD_BYTES])
            kept = self._kept.get(name)
            if kept is None:
                return None
            self._kept.move_to_end(name)
        return kept if body.startswith(kept.prefix) else None

    def keep(self, whose: bytes, prefix: bytes, start: int, read: _Read, items: int) -> None:
        """Keep what was read of the beginning of a body, in place of an earlier form of it."""
        size = 2 * len(prefix) + items * ITEM_BYTES
        is_short = len(prefix) < max(LEAST_BYTES, start + HEAD_BYTES)
        if is_short or size > self._max_bytes // 2:
            return
        with self._lock:
            name = (whose, prefix[start : start + HEAD_BYTES])
            before = self._kept.pop(name, None)
            self.size_bytes += size - (before.size_bytes if before is not None else 0)
            self._kept[name] = ParsedPrefix(prefix, read, size)
            while self.size_bytes > self._max_bytes:
                _, oldest = self._kept.popitem(last=False)
                self.size_bytes -= oldest.size_bytes
