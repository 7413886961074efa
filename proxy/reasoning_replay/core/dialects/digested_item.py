"""
Digested item: the fields of a history item that all dialects share, and its digests.

Each digest is computed on first use; a dialect decides what it is made of.
"""

from abc import abstractmethod

import msgspec

from reasoning_replay.core.history.fingerprints import TRACE_BYTES, is_distinctive
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire.digest import digest, utf8

__all__ = ["DigestedItem"]


class _Computed(msgspec.Struct, gc=False, eq=False, kw_only=True):
    """What was computed of an item so far."""

    _chars: int | None = None
    _content: bytes | None = None
    _said: bytes | None = None
    _trace: bytes | None = None


class DigestedItem(_Computed, gc=False, eq=False):
    """
    One item of a request or a response; see `HistoryItem`.

    Attributes:
        start, end: Byte range in the document from which it was read.
        call_id, name: Values as received; "" if absent or not a string.

    A history has thousands of items, so they are untracked by the garbage collector, the cheapest
    form. This is safe because an item is never part of a reference cycle.
    """

    type: str
    role: Role
    start: int
    end: int
    call_id: str
    name: str

    @property
    def content(self) -> bytes:
        """Digest of what it says or does; it survives the changes that clients make."""
        if self._content is None:
            self._content = self._read_content()
        return self._content

    @property
    def chars(self) -> int:
        """Approximate number of characters of content: short content recurs by chance."""
        if self._chars is None:
            self._chars = self._count_chars()
        return self._chars

    @property
    def said(self) -> bytes:
        """Digest of the item as client input: one link of the conversation's chain."""
        if self._said is None:
            self._said = self._read_said()
        return self._said

    @property
    def trace(self) -> bytes:
        """Eight bytes that distinguish it from model items of other conversations."""
        if self._trace is None:
            if is_distinctive(self.call_id, self.name):
                whole = digest(b"i", *self._named_by())
            else:
                whole = self.content or digest(b"t", utf8(self.type))
            self._trace = whole[:TRACE_BYTES]
        return self._trace

    def _named_by(self) -> tuple[bytes, ...]:
        """Return the names that identify a call, if its id looks random."""
        return (utf8(self.call_id),)

    @abstractmethod
    def _read_content(self) -> bytes: ...

    @abstractmethod
    def _count_chars(self) -> int: ...

    @abstractmethod
    def _read_said(self) -> bytes: ...
