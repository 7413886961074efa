"""
Room: the memory for all that a process keeps of conversations, shared fairly by tenants.

There is one budget. Beyond it, a tenant that holds as much as any other one (to a power of two),
and of these the one that was used least recently, loses what it used least recently. So none loses
more than what exceeds an equal share, and a single tenant may have all of the room. What belongs to
one conversation is used and evicted together. Of one tenant, what a store lacks something of is
evicted after all that can be loaded again.
"""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

# Names of evicted conversations are remembered, so that a later miss can be told from a new one.
EVICTED_REMEMBERED = 4096
# Most groups that are evicted in one call, which takes a few milliseconds. If that is not enough,
# what grew is evicted, too.
EVICTED_AT_ONCE = 500

_ONE_THREAD: AbstractContextManager[object] = nullcontext()

Group = tuple[bytes, bytes]  # scope and id of a conversation


class Gone(Enum):
    """Why something is not kept."""

    FORGOTTEN = "forgotten"  # there was no room for it
    TOO_LARGE = "too_large"  # it alone is larger than the room


class Kept(Protocol):
    """
    Something that is kept; it is hashed by identity.

    Attributes:
        is_decision: Whether it can be made again from the request and the turns.
    """

    is_decision: ClassVar[bool]

    def evict(self) -> None:
        """Drop it. Any thread may call this, under the lock of the room."""
        ...


@dataclass(slots=True, eq=False)
class _Members:
    """What is used and evicted together, with the size of each."""

    owner: bytes
    place: "Group | Kept"
    sizes: dict[Kept, int] = field(default_factory=dict)
    size_bytes: int = 0
    unsaved: Kept | None = None


_Recent = OrderedDict["Group | Kept", _Members]


@dataclass(slots=True, eq=False)
class _Share:
    """What one tenant holds, the least recently used first; `unsaved`: the store lacks a part."""

    recent: _Recent = field(default_factory=OrderedDict)
    unsaved: _Recent = field(default_factory=OrderedDict)
    size_bytes: int = 0

    def find(self, place: "Group | Kept") -> _Members | None:
        return self.recent.get(place) or self.unsaved.get(place)

    def use(self, members: _Members) -> None:
        """Note that something was used, and whether it is unsaved."""
        self.remove(members)
        (self.recent if members.unsaved is None else self.unsaved)[members.place] = members

    def remove(self, members: _Members) -> None:
        self.recent.pop(members.place, None)
        self.unsaved.pop(members.place, None)


class Room:
    """
    Memory that tenants share, bounded in bytes.

    Attributes:
        lock: Held by every method; a part that several threads use holds it, too.
        max_bytes: The limit.
        size_bytes: What is used of it.
        evictions: Number of conversations that were evicted for lack of room.
        unsaved_evictions: Number of those that a store lacks something of.
    """

    def __init__(self, max_bytes: int, lock: AbstractContextManager[object] = _ONE_THREAD) -> None:
        """Create an empty room. Several threads may use it with a lock that can be re-entered."""
        self.lock = lock
        self.max_bytes = max_bytes
        self.size_bytes = 0
        self.evictions = self.unsaved_evictions = 0
        self._shares: dict[bytes, _Share] = {}
        # Tenants by the power of two of their size; in each, the least recently used first.
        self._of_size: dict[int, dict[bytes, None]] = {}
        self._members: dict[Kept, _Members] = {}
        self._evicted: OrderedDict[Group, Gone] = OrderedDict()

    def keep(
        self,
        kept: Kept,
        owner: bytes,
        group: Group | None,
        size_bytes: int,
        *,
        is_unsaved: bool = False,
    ) -> bool:
        """
        Keep something of a tenant as a part of a group, or note its new size; it counts as used.

        Without a group, it is one of its own. A group that does not fit alone loses its decisions.
        While something is unsaved, its group is evicted after the others of its tenant.

        Returns:
            Whether it is kept; otherwise it was evicted.

        Cost: constant, and what `evict` costs for EVICTED_AT_ONCE groups at most.
        """
        with self.lock:
            self.leave(kept)
            share = self._shares.setdefault(owner, _Share())
            place = group if group is not None else kept
            members = share.find(place) or _Members(owner, place)
            self._members[kept] = members
            members.sizes[kept] = 0
            if is_unsaved:
                members.unsaved = kept
            self._resize(members, kept, size_bytes)
            if members.size_bytes > self.max_bytes:
                self._shrink(members, kept)
            for _ in range(EVICTED_AT_ONCE):
                if self.size_bytes <= self.max_bytes:
                    break
                largest = next(iter(self._of_size[max(self._of_size)]))
                share = self._shares[largest]
                self._evict(next(iter((share.recent or share.unsaved).values())))
            if self.size_bytes > self.max_bytes:
                self._count(members)
                self._drop([kept])
            return kept in self._members

    def use(self, kept: Kept) -> None:
        """Note that something was used, if it is kept."""
        with self.lock:
            members = self._members.get(kept)
            if members is not None:
                self._resize(members, kept, members.sizes[kept])

    def leave(self, kept: Kept) -> None:
        """Note that something is not kept any more."""
        with self.lock:
            members = self._members.get(kept)
            if members is None:
                return
            self._resize(members, kept, 0)
            del self._members[kept], members.sizes[kept]
            if members.unsaved is kept:
                members.unsaved = None
            share = self._shares[members.owner]
            if members.sizes:
                share.use(members)
            else:
                share.remove(members)
            if not (share.recent or share.unsaved):
                del self._shares[members.owner]
                self._leave_size(members.owner, share.size_bytes)

    def clear(self, group: Group) -> None:
        """Drop all of a group: its conversation was deleted."""
        with self.lock:
            share = self._shares.get(group[0])
            members = share.find(group) if share is not None else None
            if members is not None:
                self._drop([*members.sizes])

    def drop_decisions(self) -> None:
        """Drop all decisions: from now on, requests are decided otherwise."""
        with self.lock:
            self._drop([one for one in self._members if one.is_decision])

    def maybe_gone(self, group: Group) -> Gone | None:
        """Return why a conversation is not kept any more, once; None: it was not evicted."""
        with self.lock:
            return self._evicted.pop(group, None)

    def _resize(self, members: _Members, kept: Kept, size_bytes: int) -> None:
        """Set the size of something, which is now the most recently used of its tenant."""
        owner = members.owner
        share = self._shares[owner]
        share.use(members)
        added = size_bytes - members.sizes[kept]
        members.sizes[kept] = size_bytes
        members.size_bytes += added
        self.size_bytes += added
        self._leave_size(owner, share.size_bytes)
        share.size_bytes += added
        self._of_size.setdefault(share.size_bytes.bit_length(), {})[owner] = None

    def _leave_size(self, owner: bytes, size_bytes: int) -> None:
        bits = size_bytes.bit_length()
        alike = self._of_size.get(bits, {})
        alike.pop(owner, None)
        if not alike:
            self._of_size.pop(bits, None)

    def _shrink(self, members: _Members, kept: Kept) -> None:
        """Drop what can be made again of a group that is larger than all of the room."""
        self._note_gone(members, Gone.TOO_LARGE)
        self._drop([one for one in members.sizes if one.is_decision])
        if members.size_bytes > self.max_bytes:
            self._count(members)
            self._drop([kept])

    def _evict(self, members: _Members) -> None:
        self._count(members)
        self._note_gone(members, Gone.FORGOTTEN)
        self._drop([*members.sizes])

    def _count(self, members: _Members) -> None:
        self.evictions += 1
        self.unsaved_evictions += members.unsaved is not None

    def _drop(self, gone: Sequence[Kept]) -> None:
        for one in gone:
            self.leave(one)
            one.evict()

    def _note_gone(self, members: _Members, why: Gone) -> None:
        name = members.place
        if isinstance(name, tuple):  # a conversation; anything else would be held
            self._evicted[name] = why
            self._evicted.move_to_end(name)
            if len(self._evicted) > EVICTED_REMEMBERED:
                self._evicted.popitem(last=False)
