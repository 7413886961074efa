"""
Prefix cache: the parsed histories of recent requests.

A longer request is parsed only from where it grew.

Most requests of an agent repeat the one before them byte for byte and add a little. Comparing
bytes takes a hundredth of the time that parsing them takes.
"""

from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["ParsedPrefix", "PrefixCache"]

# Shorter inputs are parsed as fast as they are found here.
LEAST_BYTES = 16 * 1024
# What an item takes when it is parsed, without its bytes: measured as about 900.
ITEM_BYTES = 1024
# Prefixes are grouped by the first bytes of their input. Conversations with the same system
# message share a group, so a group holds many; the newest of them are kept.
HEAD_BYTES = 1024
PREFIXES_PER_HEAD = 256
# Two prefixes of one group almost always differ here, so that a whole one is rarely compared.
TAIL_BYTES = 64

_Parsed = TypeVar("_Parsed")
_GroupKey = tuple[bytes, bytes]  # tenant, first bytes of the input
_NO_LOCK = nullcontext()


@dataclass(frozen=True, slots=True)
class ParsedPrefix(Generic[_Parsed]):
    """
    The beginning of a body, and what it was parsed to.

    Attributes:
        prefix: The body up to the end of the input's last item.
        parsed: Never changed.
        items: How many items that is, for the bound in bytes.
    """

    prefix: bytes
    parsed: _Parsed
    items: int

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes."""
        return 2 * len(self.prefix) + self.items * ITEM_BYTES

    def begins(self, body: bytes) -> bool:
        """Tell whether a body starts with this prefix."""
        prefix, end = self.prefix, len(self.prefix)
        tail = max(0, end - TAIL_BYTES)
        return body[tail:end] == prefix[tail:] and body.startswith(prefix)


class PrefixCache(Generic[_Parsed]):
    """
    Parsed prefixes, bounded in bytes; the least recently used goes first.

    It holds nothing that a store holds, and what it returns is a function of the bytes of the
    request. Tenants are kept apart all the same, because response times would tell.
    """

    def __init__(self, max_bytes: int, lock: AbstractContextManager[object] = _NO_LOCK) -> None:
        """Start empty; with a lock, it may be used from several threads."""
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._groups: dict[_GroupKey, dict[bytes, ParsedPrefix[_Parsed]]] = {}
        self._recent: OrderedDict[tuple[_GroupKey, bytes], None] = OrderedDict()
        self._lock = lock

    def find(self, tenant: bytes, body: bytes, start: int) -> ParsedPrefix[_Parsed] | None:
        """
        Return the longest parsed prefix of a body.

        Args:
            tenant: Prefixes of other tenants are never returned.
            body: The request's.
            start: Offset of its input in bytes.

        Cost: a comparison of 64 bytes for each prefix of the group, and of one whole prefix.
        """
        if len(body) < LEAST_BYTES:
            return None
        head = (tenant, body[start : start + HEAD_BYTES])
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
        grown_from: ParsedPrefix[_Parsed] | None = None,
    ) -> None:
        """
        Keep what the beginning of a body was parsed to.

        Args:
            tenant: As in `find`.
            new: What `find` will return.
            start: Offset of the input in bytes.
            grown_from: The shorter prefix that it replaces.
        """
        prefix, size = new.prefix, new.size_bytes
        is_short = len(prefix) < max(LEAST_BYTES, start + HEAD_BYTES)
        if is_short or size > self._max_bytes // 2:
            return
        head = (tenant, prefix[start : start + HEAD_BYTES])
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
