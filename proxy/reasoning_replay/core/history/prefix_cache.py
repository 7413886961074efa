"""
Prefix cache: the parsed histories of recent requests, so that only new items are parsed.

Most requests of an agent repeat the previous one byte for byte and append a few items. Comparing
bytes takes a hundredth of the time that parsing takes.
"""

from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ParsedPrefix", "PrefixCache"]

# Shorter bodies are parsed as fast as a lookup here takes.
LEAST_BYTES = 16 * 1024
# Memory of a parsed item without its raw bytes; measured: about 900 bytes.
ITEM_BYTES = 1024
# Prefixes are grouped by their frame and the first bytes of their input. Conversations with the
# same system message share a group, so a group can be large; only its newest prefixes are kept.
HEAD_BYTES = 1024
PREFIXES_PER_HEAD = 256
# The last bytes of two prefixes in one group almost always differ, so comparing these first avoids
# most full comparisons.
TAIL_BYTES = 64

_Parsed = TypeVar("_Parsed")
_GroupKey = tuple[bytes, bytes, bytes]  # tenant, frame, first bytes of the input
_NO_LOCK = nullcontext()


@dataclass(frozen=True, slots=True)
class ParsedPrefix(Generic[_Parsed]):
    """
    The beginning of a body, and the result of parsing it.

    Attributes:
        prefix: The body up to the end of the last input item.
        parsed: The result; shared by requests, so it must not be changed.
        items: Number of items in it, for the estimate of its size.
    """

    prefix: bytes
    parsed: _Parsed
    items: int

    @property
    def size_bytes(self) -> int:
        """Estimated memory, in bytes."""
        return 2 * len(self.prefix) + self.items * ITEM_BYTES

    def begins(self, body: bytes) -> bool:
        """Return whether a body starts with this prefix."""
        prefix, end = self.prefix, len(self.prefix)
        tail = max(0, end - TAIL_BYTES)
        return body[tail:end] == prefix[tail:] and body.startswith(prefix)


class PrefixCache(Generic[_Parsed]):
    """
    Parsed prefixes, bounded in bytes; the least recently used is evicted first.

    The cache holds no store data: its results depend only on the bytes of the request. Tenants are
    separated nevertheless, because response times could reveal the requests of another tenant.
    """

    def __init__(self, max_bytes: int, lock: AbstractContextManager[object] = _NO_LOCK) -> None:
        """Create an empty cache; it may be used from several threads if a lock is given."""
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._groups: dict[_GroupKey, dict[bytes, ParsedPrefix[_Parsed]]] = {}
        self._recent: OrderedDict[tuple[_GroupKey, bytes], None] = OrderedDict()
        self._lock = lock

    def find(
        self, tenant: bytes, body: bytes, start: int, frame: bytes = b""
    ) -> ParsedPrefix[_Parsed] | None:
        """
        Return the longest parsed prefix of a body that has the same frame.

        Args:
            tenant: Tenant of the request; prefixes of other tenants are never returned.
            body: Body of the request.
            start: Byte offset of its input.
            frame: Digest of what the parsed items depend on outside the prefix.

        Cost: a comparison of 64 bytes for each prefix of the group, and usually one in full.
        """
        if len(body) < LEAST_BYTES:
            return None
        head = (tenant, frame, body[start : start + HEAD_BYTES])
        with self._lock:
            found = [one for one in self._groups.get(head, {}).values() if one.begins(body)]
            if not found:
                return None
            longest = max(found, key=lambda one: len(one.prefix))
            self._recent.move_to_end((head, longest.prefix))
            return longest

    def keep(
        self,
        tenant: bytes,
        new: ParsedPrefix[_Parsed],
        start: int,
        frame: bytes = b"",
        *,
        grown_from: ParsedPrefix[_Parsed] | None = None,
    ) -> None:
        """
        Add the parsed prefix of a body.

        A prefix is not added if it is short, or if it needs more than half of the cache.

        Args:
            tenant: As for `find`.
            new: The prefix that `find` will return.
            start: Byte offset of the input.
            frame: As for `find`.
            grown_from: The shorter prefix that the new one replaces.
        """
        prefix, size = new.prefix, new.size_bytes
        is_short = len(prefix) < max(LEAST_BYTES, start + HEAD_BYTES)
        if is_short or size > self._max_bytes // 2:
            return
        head = (tenant, frame, prefix[start : start + HEAD_BYTES])
        with self._lock:
            if grown_from is not None:
                self._drop(head, grown_from.prefix)
            self._drop(head, prefix)
            group = self._groups.setdefault(head, {})
            group[prefix] = new
            self._recent[head, prefix] = None
            self.size_bytes += size
            if len(group) > PREFIXES_PER_HEAD:
                self._drop(head, next(iter(group)))
            while self.size_bytes > self._max_bytes:
                self._drop(*next(iter(self._recent)))

    def _drop(self, head: _GroupKey, prefix: bytes) -> None:
        group = self._groups.get(head, {})
        dropped = group.pop(prefix, None)
        if dropped is None:
            return
        del self._recent[head, prefix]
        self.size_bytes -= dropped.size_bytes
        if not group:
            del self._groups[head]
