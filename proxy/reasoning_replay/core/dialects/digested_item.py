"""
Digested item: the fields of a history item that all dialects share, and its digests.

Each digest is computed on first use; a dialect decides what it is made of. The functions bring the
text of messages and the arguments of calls into the spelling that digests compare. They never
raise: a value of an unexpected type counts as absent.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.lenient import UNREADABLE, decoded
from reasoning_replay.core.history.fingerprints import TRACE_BYTES, is_distinctive
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE


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
    def id(self) -> str:
        """Id of the item; "" where only calls have one, their `call_id`."""
        return ""

    @property
    def is_anchor(self) -> bool:
        """Whether a conversation can be looked up by it."""
        return self.role is Role.MODEL

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

    def emitted(self, run: Sequence[Reasoning], *, withheld: bool) -> Emitted:
        """Return what is stored of it, with the reasoning before it unless that is withheld."""
        kept = () if withheld else tuple(run)
        return Emitted(self.type, self.id, self.call_id, self.name, self.content, kept, withheld)

    def _named_by(self) -> tuple[bytes, ...]:
        """Return the names that identify a call, if its id looks random."""
        return (utf8(self.call_id),)

    @abstractmethod
    def _read_content(self) -> bytes: ...

    @abstractmethod
    def _count_chars(self) -> int: ...

    @abstractmethod
    def _read_said(self) -> bytes: ...


class _Words(msgspec.Struct, gc=False):
    """A text part of a message."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class _ContentPart(msgspec.Struct, gc=False):
    type: Raw = NONE
    text: Raw = NONE
    refusal: Raw = NONE


_WORDS = msgspec.json.Decoder(list[_Words])
_PARTS = msgspec.json.Decoder(list[Raw])
_PART = msgspec.json.Decoder(_ContentPart)
_NO_PART = _ContentPart()
_WHOLE_PARTS = msgspec.json.Decoder(list[_ContentPart])
_SYNTAX = b'"\\{}[]:, '  # JSON syntax; it is in every call, so it is not counted
_TEXT_PARTS = frozenset({"input_text", "output_text", "text"})


def text_and_rest(content: Raw) -> tuple[str, list[bytes]]:
    """Split a message's content into its text and the raw parts that are not text."""
    raw = bytes(content)
    words = json_spans.text(raw)
    if words is not None:
        return words, []
    all_words = decoded(_WORDS, raw)
    if all_words is not None:
        return "".join([part.text for part in all_words]), []
    parts = decoded(_PARTS, raw)
    if parts is None:
        return "", [raw]
    said: list[str] = []
    rest: list[bytes] = []
    for part in parts:
        head = decoded(_PART, part) or _NO_PART
        words = json_spans.text(head.text)
        if words is not None and json_spans.text(head.type) in _TEXT_PARTS:
            said.append(words)
        else:
            rest.append(bytes(head.refusal) or bytes(part))
    return "".join(said), rest


def refusal_in(content: Raw) -> str:
    """Return the text of a message's refusal parts; "" if it has none."""
    parts = decoded(_WHOLE_PARTS, content) or ()
    refused = [part.refusal for part in parts if json_spans.text(part.type) == "refusal"]
    return "".join([json_spans.text(words) or "" for words in refused])


def canonical(raw: bytes) -> bytes:
    """Return JSON in one canonical spelling, also if it is wrapped in up to three strings."""
    value = raw
    for _ in range(3):
        inner = json_spans.text(value)
        if inner is None:
            break
        value = utf8(inner)
    try:
        return msgspec.json.encode(msgspec.json.decode(value), order="sorted")
    except UNREADABLE:
        return value


def whole_numbers(said: bytes) -> bytes:
    """Return JSON with 1.0 as 1: clients in some languages know one sort of numbers only."""
    return changed(said, _whole) if b"." in said else said


def changed(said: bytes, change: Callable[[object], object]) -> bytes:
    """Return a value after a change, in the same spelling; one that cannot be read stays."""
    try:
        return msgspec.json.encode(change(msgspec.json.decode(said)), order="sorted")
    except UNREADABLE:
        return said


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    return value


def chars_of(raw: bytes) -> int:
    """Return the approximate number of characters of a JSON value, without its syntax."""
    return len(raw.translate(None, _SYNTAX))
