"""
Prefix cache: the histories of recent requests, parsed, and what was decided about them.

Most requests of an agent repeat the previous one byte for byte and append a few items. Comparing
bytes takes a hundredth of the time that parsing and deciding take.
"""

from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

# Shorter prefixes are parsed as fast as a lookup here takes.
LEAST_BYTES = 2 * 1024
# Memory of a parsed item without its raw bytes; measured: about 900 bytes.
ITEM_BYTES = 1024
# Prefixes are grouped by their first bytes. Conversations with the same instructions share a group,
# so a group can be large; only its newest prefixes are kept.
HEAD_BYTES = 1024
PREFIXES_PER_HEAD = 256
# The last bytes of two prefixes in one group almost always differ, so comparing these first avoids
# most full comparisons.
TAIL_BYTES = 64


class Known(Protocol):
    """What was decided."""

    @property
    def size_bytes(self) -> int:
        """Estimated memory, in bytes."""
        ...


_Parsed = TypeVar("_Parsed")
_Decided = TypeVar("_Decided", bound=Known)
_GroupKey = tuple[bytes, bytes]  # owner, first bytes
_NO_LOCK = nullcontext()


@dataclass(slots=True, eq=False)
class ParsedPrefix(Generic[_Parsed, _Decided]):
    """
    The beginning of a body, and the result of parsing it.

    Attributes:
        body: The body, not copied.
        end: Offset of the end of the last item of its history, so of the prefix.
        frame: Digest of what the parsed items depend on outside the prefix.
        parsed: The result; shared by requests, so it must not be changed.
        items: Number of items in it, for the estimate of its size.
        known: What was decided about a request whose history is this; None: nothing yet.
    """

    body: bytes
    end: int
    frame: bytes
    parsed: _Parsed
    items: int
    known: _Decided | None = None

    @property
    def size_bytes(self) -> int:
        """Estimated memory, in bytes."""
        known = self.known.size_bytes if self.known is not None else 0
        return self.end + len(self.body) + self.items * ITEM_BYTES + known

    @property
    def around(self) -> bytes:
        """The body after the prefix."""
        return self.body[self.end :]

    def begins(self, body: bytes) -> bool:
        """Return whether a body starts with this prefix."""
        own, end = self.body, self.end
        tail = max(0, end - TAIL_BYTES)
        if body[tail:end] != own[tail:end]:
            return False
        return body.startswith(memoryview(own)[:end])


class PrefixCache(Generic[_Parsed, _Decided]):
    """
    Parsed prefixes, bounded in bytes; the least recently used is evicted first.

    Tenants are separated: what was decided belongs to one, and response times could reveal the
    requests of another.
    """

    def __init__(self, max_bytes: int, lock: AbstractContextManager[object] = _NO_LOCK) -> None:
        """Create an empty cache; it may be used from several threads if a lock is given."""
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._groups: dict[_GroupKey, dict[ParsedPrefix[_Parsed, _Decided], None]] = {}
        self._recent: OrderedDict[ParsedPrefix[_Parsed, _Decided], tuple[_GroupKey, int]]
        self._recent = OrderedDict()  # with the size of each
        self._lock = lock

    def find(self, owner: bytes, body: bytes) -> ParsedPrefix[_Parsed, _Decided] | None:
        """
        Return the longest parsed prefix of a body; None if there is none.

        One with the same rest of the body is preferred: an application may ask in two ways about
        one history.

        `owner` is the tenant and the path of the request; prefixes of others are never returned.

        Cost: a comparison of 64 bytes for each prefix of the group, and usually one in full.
        """
        if len(body) < LEAST_BYTES:
            return None
        with self._lock:
            group = self._groups.get((owner, body[:HEAD_BYTES]), {})
            found = [one for one in group if one.begins(body)]
            if not found:
                return None
            longest = max(found, key=lambda one: (body.endswith(one.around), one.end))
            self._recent.move_to_end(longest)
            return longest

    def keep(
        self,
        owner: bytes,
        new: ParsedPrefix[_Parsed, _Decided],
        grown_from: ParsedPrefix[_Parsed, _Decided] | None = None,
    ) -> None:
        """
        Add a prefix, unless it is short, or needs more than half of the cache.

        It replaces the one that it has grown from, if the rest of the body is the same.
        """
        size = new.size_bytes
        if new.end < LEAST_BYTES or size > self._max_bytes // 2:
            return
        head = (owner, new.body[:HEAD_BYTES])
        with self._lock:
            if grown_from is not None and grown_from.around == new.around:
                self._drop(grown_from)
            group = self._groups.setdefault(head, {})
            group[new] = None
            self._recent[new] = head, size
            self.size_bytes += size
            if len(group) > PREFIXES_PER_HEAD:
                self._drop(next(iter(group)))
            while self.size_bytes > self._max_bytes:
                self._drop(next(iter(self._recent)))

    def drop(self, owner: bytes, body: bytes) -> None:
        """Drop the prefixes of a body."""
        while (found := self.find(owner, body)) is not None:
            with self._lock:
                self._drop(found)

    def _drop(self, prefix: ParsedPrefix[_Parsed, _Decided]) -> None:
        head, size = self._recent.pop(prefix, (None, 0))
        if head is None:
            return
        self.size_bytes -= size
        del self._groups[head][prefix]
        if not self._groups[head]:
            del self._groups[head]
