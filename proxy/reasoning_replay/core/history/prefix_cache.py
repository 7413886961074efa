"""
Prefix cache: the histories of recent requests, parsed, and what was decided about them.

Most requests of an agent repeat the previous one byte for byte and append a few items. Comparing
bytes takes a hundredth of the time that parsing and deciding take.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from reasoning_replay.core.history.room import Room

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

    @property
    def conversation(self) -> bytes:
        """Id of the conversation that was continued; b"" without one."""
        ...


_Parsed = TypeVar("_Parsed")
_Decided = TypeVar("_Decided", bound=Known)
_GroupKey = tuple["Owner", bytes]  # owner, first bytes


@dataclass(slots=True, eq=False)
class ParsedPrefix(Generic[_Parsed, _Decided]):
    """
    The beginning of a body, and the result of parsing it.

    Attributes:
        body: The body, not copied.
        end: Offset of the end of the last item of its history, so of the prefix.
        frame: Digest of what the parsed items depend on outside the prefix.
        parsed: The result; shared by requests, so it must not be changed. None: not kept, because
            what was decided is enough to go on.
        items: Number of items in it, for the estimate of its size.
        known: What was decided about a request whose history is this; None: nothing yet.
        groups, place: The cache that holds it, and where.
    """

    is_decision: ClassVar[bool] = True

    body: bytes
    end: int
    frame: bytes
    parsed: _Parsed | None
    items: int
    known: _Decided | None = None
    groups: dict["_GroupKey", dict["ParsedPrefix[Any, Any]", None]] = field(default_factory=dict)
    place: "_GroupKey | None" = None

    @property
    def size_bytes(self) -> int:
        """Estimated memory, in bytes."""
        known = self.known.size_bytes if self.known is not None else 0
        parsed = self.end + self.items * ITEM_BYTES if self.parsed is not None else 0
        return len(self.body) + parsed + known

    @property
    def around(self) -> bytes:
        """The body after the prefix."""
        return self.body[self.end :]

    def evict(self) -> None:
        """Leave the cache."""
        alike = self.groups.get(self.place, {}) if self.place is not None else {}
        alike.pop(self, None)
        if not alike and self.place is not None:
            self.groups.pop(self.place, None)

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
        tenant: Whose share of the room these count for.
    """

    tenant: bytes = b""
    dialect: str = ""
    path: bytes = b""


class PrefixCache(Generic[_Parsed, _Decided]):
    """
    Parsed prefixes of all dialects, in the room that all of a process share.

    Tenants are separated: what was decided belongs to one, and response times could reveal the
    requests of another.
    """

    def __init__(self, room: Room) -> None:
        """Create an empty cache; several threads may use it."""
        self.room = room
        self._groups: dict[_GroupKey, dict[ParsedPrefix[_Parsed, _Decided], None]] = {}

    def find(self, owner: Owner, body: bytes) -> ParsedPrefix[_Parsed, _Decided] | None:
        """
        Return the longest parsed prefix of a body; None if there is none.

        One with the same rest of the body is preferred: an application may ask in two ways about
        one history. Prefixes of other owners are never returned.

        Cost: a comparison of 64 bytes for each prefix of the group, and usually one in full.
        """
        if len(body) < LEAST_BYTES:
            return None
        with self.room.lock:
            group = self._groups.get((owner, body[:HEAD_BYTES]), {})
            found = [one for one in group if one.begins(body)]
            if not found:
                return None
            longest = max(found, key=lambda one: (body.endswith(one.around), one.end))
            self.room.use(longest)
            return longest

    def keep(
        self,
        owner: Owner,
        new: ParsedPrefix[_Parsed, _Decided],
        grown_from: ParsedPrefix[_Parsed, _Decided] | None = None,
    ) -> None:
        """
        Add a prefix, unless it is short, or larger than the room.

        It replaces the one that it has grown from, if the rest of the body is the same, and one of
        the same body: of two such requests at once, the later decision holds. It is used and
        evicted with the conversation that its request continues.
        """
        if new.end < LEAST_BYTES:
            return
        with self.room.lock:
            if grown_from is not None and grown_from.around == new.around:
                self._drop(grown_from)
            new.groups, new.place = self._groups, (owner, new.body[:HEAD_BYTES])
            for one in [*self._groups.get(new.place, ())]:
                if one.end == new.end and one.body == new.body:
                    self._drop(one)
            alike = self._groups.setdefault(new.place, {})
            alike[new] = None
            if len(alike) > PREFIXES_PER_HEAD:
                self._drop(next(iter(alike)))
            conversation = new.known.conversation if new.known is not None else b""
            group = (owner.tenant, conversation) if conversation else None
            self.room.keep(new, owner.tenant, group, new.size_bytes)

    def drop(self, owner: Owner, body: bytes) -> None:
        """Drop the prefixes of a body."""
        with self.room.lock:
            while (found := self.find(owner, body)) is not None:
                self._drop(found)

    def _drop(self, prefix: ParsedPrefix[_Parsed, _Decided]) -> None:
        self.room.leave(prefix)
        prefix.evict()
