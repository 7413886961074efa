"""
Prefix cache: the histories of recent requests, parsed, and what was decided about them.

Most requests of an agent repeat the previous one byte for byte and append a few items. Comparing
bytes takes a hundredth of the time that parsing and deciding take.
"""

from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

# Default limit of all dialects together: the parsed histories of about twenty long conversations.
PREFIXES_MAX_BYTES = 24 << 20
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
_ShareKey = tuple[bytes, str]  # tenant, dialect
_GroupKey = tuple["Owner", bytes]  # owner, first bytes
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


class Owner(NamedTuple):
    """
    Where prefixes belong: the requests of one tenant to one path.

    Attributes:
        tenant, dialect: The share of the cache that these count for. One tenant may ask on any
            number of paths, so a path has no share of its own.
    """

    tenant: bytes = b""
    dialect: str = ""
    path: bytes = b""

    @property
    def share(self) -> _ShareKey:
        """Tenant and dialect."""
        return self.tenant, self.dialect


@dataclass(slots=True, eq=False)
class _Share(Generic[_Parsed, _Decided]):
    """The prefixes of one tenant in one dialect, the least recently used first."""

    recent: OrderedDict[ParsedPrefix[_Parsed, _Decided], None]
    size_bytes: int = 0


class PrefixCache(Generic[_Parsed, _Decided]):
    """
    Parsed prefixes of all dialects, bounded in bytes, with shares for tenants and dialects.

    Beyond the limit, a share that is as large as any other one (to a power of two), and of these
    the least recently used one, loses its least recently used prefix. So none loses more than
    what exceeds an equal share, and a single share may have all of the room.

    Tenants are separated: what was decided belongs to one, and response times could reveal the
    requests of another.
    """

    def __init__(self, max_bytes: int, lock: AbstractContextManager[object] = _NO_LOCK) -> None:
        """Create an empty cache; it may be used from several threads if a lock is given."""
        self.size_bytes = 0
        self._max_bytes = max_bytes
        self._groups: dict[_GroupKey, dict[ParsedPrefix[_Parsed, _Decided], None]] = {}
        # Where each prefix is, with its size.
        self._places: dict[ParsedPrefix[_Parsed, _Decided], tuple[_GroupKey, int]] = {}
        self._shares: dict[_ShareKey, _Share[_Parsed, _Decided]] = {}
        # Shares by the power of two of their size; in each, the least recently used first.
        self._of_size: dict[int, dict[_ShareKey, None]] = {}
        self._lock = lock

    def find(self, owner: Owner, body: bytes) -> ParsedPrefix[_Parsed, _Decided] | None:
        """
        Return the longest parsed prefix of a body; None if there is none.

        One with the same rest of the body is preferred: an application may ask in two ways about
        one history. Prefixes of other owners are never returned.

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
            self._shares[owner.share].recent.move_to_end(longest)
            self._resize(owner.share, 0)
            return longest

    def keep(
        self,
        owner: Owner,
        new: ParsedPrefix[_Parsed, _Decided],
        grown_from: ParsedPrefix[_Parsed, _Decided] | None = None,
    ) -> None:
        """
        Add a prefix, unless it is short, or needs more than half of the cache.

        It replaces the one that it has grown from, if the rest of the body is the same.

        Cost: as many prefixes as have to leave, however many there are.
        """
        size = new.size_bytes
        if new.end < LEAST_BYTES or size > self._max_bytes // 2:
            return
        place = (owner, new.body[:HEAD_BYTES])
        with self._lock:
            if grown_from is not None and grown_from.around == new.around:
                self._drop(grown_from)
            group = self._groups.setdefault(place, {})
            group[new] = None
            self._places[new] = place, size
            share = self._shares.setdefault(owner.share, _Share(OrderedDict()))
            share.recent[new] = None
            self._resize(owner.share, size)
            if len(group) > PREFIXES_PER_HEAD:
                self._drop(next(iter(group)))
            while self.size_bytes > self._max_bytes:
                largest = next(iter(self._of_size[max(self._of_size)]))
                self._drop(next(iter(self._shares[largest].recent)))

    def drop(self, owner: Owner, body: bytes) -> None:
        """Drop the prefixes of a body."""
        while (found := self.find(owner, body)) is not None:
            with self._lock:
                self._drop(found)

    def _drop(self, prefix: ParsedPrefix[_Parsed, _Decided]) -> None:
        place, size = self._places.pop(prefix, (None, 0))
        if place is None:
            return
        del self._groups[place][prefix]
        if not self._groups[place]:
            del self._groups[place]
        share = place[0].share
        del self._shares[share].recent[prefix]
        self._resize(share, -size)

    def _resize(self, key: _ShareKey, by_bytes: int) -> None:
        """Change the size of a share, which is now the most recently used of its size."""
        share = self._shares[key]
        if before := self._of_size.get(share.size_bytes.bit_length()):
            before.pop(key, None)
            if not before:
                del self._of_size[share.size_bytes.bit_length()]
        share.size_bytes += by_bytes
        self.size_bytes += by_bytes
        if share.recent:
            self._of_size.setdefault(share.size_bytes.bit_length(), {})[key] = None
        else:
            del self._shares[key]
