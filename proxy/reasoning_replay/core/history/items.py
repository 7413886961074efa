"""
Items: the units of a history, as lookup and matching see them in every dialect.

Each digest of an item is computed on first use; its dialect decides what it is made of.
"""

from abc import abstractmethod
from collections.abc import Sequence
from enum import Enum

import msgspec

from reasoning_replay.core.history.fingerprints import is_distinctive, trace_of
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire.digest import digest, utf8

SPELLING_BYTES = 8


class Role(Enum):
    """Side that an item belongs to, for lookup and matching."""

    REASONING = "reasoning"
    MODEL = "model"  # emitted by a model: a run of reasoning can lead to it
    CLIENT = "client"  # from the client's side: users and tools
    FRAME = "frame"  # system and developer messages: set by the application
    REFERENCE = "reference"  # refers to an item that upstream stores, by id


class _Computed(msgspec.Struct, gc=False, eq=False, kw_only=True):
    """What was computed of an item so far."""

    _chars: int | None = None
    _content: bytes | None = None
    _said: bytes | None = None
    _spelling: bytes | None = None
    _trace: bytes | None = None


class HistoryItem(_Computed, gc=False, eq=False):
    """
    One item of a request or a response; each dialect has a class of its own.

    Attributes:
        type: The dialect's name of its type; "message" for the text of either side.
        role: Side that it belongs to.
        start, end: Byte range in the document from which it was read.
        call_id: The id that links a call to its output, as received; "" if absent or not a string.
        name: The tool's name, in the same way.

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
    @abstractmethod
    def raw(self) -> bytes:
        """JSON of the item, as received."""

    @property
    def id(self) -> str:
        """Id of the item; "" where only calls have one, their `call_id`."""
        return ""

    @property
    def is_anchor(self) -> bool:
        """Whether a conversation can be looked up by it."""
        return self.role is Role.MODEL

    @property
    def content(self) -> bytes:
        """Digest of its text or action, equal for all spellings; b"" if it is empty."""
        if self._content is None:
            self._content = self._read_content()
        return self._content

    @property
    def spelling(self) -> bytes:
        """Eight bytes that distinguish the spellings of its text; b"" if it has no text."""
        if self._spelling is None:
            text = self._read_text().strip()
            self._spelling = digest(b"s", utf8(text))[:SPELLING_BYTES] if text else b""
        return self._spelling

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
            names = self._named_by() if is_distinctive(self.call_id, self.name) else ()
            self._trace = trace_of(names, self.content, self.type)
        return self._trace

    def emitted(self, run: Sequence[Reasoning], *, withheld: bool) -> Emitted:
        """Return what is stored of it, with the reasoning before it unless that is withheld."""
        kept = () if withheld else tuple(run)
        names = self.type, self.id, self.call_id, self.name
        return Emitted(*names, self.content, kept, withheld, spelling=self.spelling)

    def _named_by(self) -> tuple[bytes, ...]:
        """Return the names that identify a call, if its id looks random."""
        return (utf8(self.call_id),)

    @abstractmethod
    def _read_content(self) -> bytes: ...

    @abstractmethod
    def _read_text(self) -> str:
        """Return the text of a model's message as received; "" for other items."""

    @abstractmethod
    def _count_chars(self) -> int: ...

    @abstractmethod
    def _read_said(self) -> bytes: ...
