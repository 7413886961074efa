"""
Messages items: the content blocks of a request, parsed only as far as matching needs.

Each block is one item; a `content` that is a string is one text. Text of a model without any
character other than white space is no item: the API emits it, and refuses it in a request.
A message of unknown shape must never fail a request, so parsing is lenient: a value of an
unexpected type counts as absent, and a message that cannot be read is one item.
"""

from typing import NamedTuple

import msgspec
from msgspec import Raw
from typing_extensions import override

from reasoning_replay.core.dialects.item_content import (
    canonical,
    changed,
    chars_of,
    text_and_rest,
    whole_numbers,
)
from reasoning_replay.core.dialects.lenient import LenientDecoder
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE, Unspliceable
from reasoning_replay.core.wire.text_folding import folded

MESSAGE = "message"  # type of the text of either side
_TEXT = "text"
_RESULT = "tool_result"
REASONING = frozenset({"thinking", "redacted_thinking"})


class _BlockFields(msgspec.Struct, gc=False):
    """The fields that distinguish blocks; those that only some blocks have stay raw."""

    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None
    text: Raw = NONE
    input: Raw = NONE
    content: Raw = NONE
    signature: Raw = NONE
    data: Raw = NONE


_BLOCK = LenientDecoder(_BlockFields)

_ROLES = {
    b'"assistant"': Role.MODEL,
    b'"user"': Role.CLIENT,
    b'"system"': Role.FRAME,  # in the middle of a conversation
    b'"developer"': Role.FRAME,
}
# Marks the end of a cached prefix. Clients move it with every request; it is no part of the text.
_CACHE_CONTROL = "cache_control"
_MARK = b'"cache_control"'


class AssistantMessage(msgspec.Struct, gc=False, eq=False):
    """
    One assistant message of a request.

    Attributes:
        start, end: Byte range of the message in the document.
        content_start, content_end: Byte range of its content.
        blocks: Byte range of each block; [] if the content is a string.
    """

    start: int
    end: int
    content_start: int
    content_end: int
    blocks: list[tuple[int, int]]


class BlockPlace(NamedTuple):
    """
    The place of a block.

    Attributes:
        start, end: Byte range in the document.
        role: Side of its message.
        message, number: As in `MessagesItem`.
    """

    start: int = 0
    end: int = 0
    role: Role = Role.MODEL
    message: AssistantMessage | None = None
    number: int = 0


ALONE = BlockPlace()  # of a block in a response


class MessagesItem(HistoryItem, gc=False, eq=False):
    """
    One item of a request: a content block.

    Attributes:
        value: Its text, the input of a call, the content of a result, a signature; or the block.
        message: The assistant message that holds it; None for the other roles.
        number: Index of its block in the message.
        words: Folded text of an assistant's text; "" for other items.
        raw: JSON of the block as received, without its cache mark: clients move it. A string is
            the block that it stands for.
    """

    value: Raw
    raw: bytes
    message: AssistantMessage | None = None
    number: int = 0
    words: str = ""

    @property
    def blob(self) -> bytes:
        """Digest of a reasoning block's signature, or of its bytes without one; else b""."""
        if self.role is not Role.REASONING:
            return b""
        return blob_digest(self.value) or digest(b"unsigned", self.raw)

    @override
    def _read_content(self) -> bytes:
        """
        Return a digest that is equal for normalised text, and for any spelling of a call's input.

        In what a tool of the server returned, null members do not count, and a string is one text
        block.
        """
        if self.type == MESSAGE:
            return digest(b"m", utf8(self.words))
        spelled = _result if self.type.endswith(_RESULT) else _spelled
        return digest(b"c", utf8(self.type), utf8(self.name), spelled(self.value))

    @override
    def _read_text(self) -> str:
        return json_spans.text(self.value) or "" if self.type == MESSAGE else ""

    @override
    def _count_chars(self) -> int:
        if self.type == MESSAGE:
            return len(self.words or json_spans.text(self.value) or "")
        return chars_of(bytes(self.value))

    @override
    def _named_by(self) -> tuple[bytes, ...]:
        return utf8(self.type), utf8(self.call_id)

    @override
    def _read_said(self) -> bytes:
        if self.type not in (MESSAGE, _RESULT):
            return digest(b"x", _unmarked(bytes(self.value)))
        # Without the call's id: some clients renumber their calls.
        words, rest = text_and_rest(self.value)
        kind = b"u" if self.type == MESSAGE else b"o"
        return digest(kind, utf8(folded(words)), *map(_unmarked, rest))


def read_message(raw: bytes, start: int = 0, end: int = 0) -> list[MessagesItem]:
    """Return the items of one message; never raises, whatever the bytes are."""
    try:
        members = json_spans.members(raw)
        content = members.get("content")
        if content is None:
            return []
        value = raw[content.start : content.end]
        spans = json_spans.elements(value, 0, len(value)) if value[:1] == b"[" else []
    except Unspliceable:  # not an object, or a key occurs twice
        return [MessagesItem("", Role.CLIENT, start, end, "", "", Raw(raw), raw)]
    at = start + content.start
    said_by = members.get("role")
    word = raw[said_by.start : said_by.end] if said_by is not None else b""
    role = _ROLES.get(word, Role.CLIENT)
    message = None
    if role is Role.MODEL:
        blocks = [(at + first, at + last) for first, last in spans]
        message = AssistantMessage(start, end, at, start + content.end, blocks)
    if value[:1] == b'"':
        place = BlockPlace(at, start + content.end, role, message)
        found = [_text_item(Raw(value), place, b'{"type":"text","text":%b}' % value)]
    else:
        found = [
            read_block(value[first:last], BlockPlace(at + first, at + last, role, message, number))
            for number, (first, last) in enumerate(spans)
        ]
    if role is Role.MODEL:
        return [item for item in found if item.words or item.type != MESSAGE]
    return found


def read_block(raw: bytes, place: BlockPlace = ALONE) -> MessagesItem:
    """Return the item of one block; never raises, whatever the bytes are."""
    fields = _BLOCK.decode(raw) or _BlockFields()
    kind = fields.type or ""
    start, end, role, message, number = place
    if kind == _TEXT:
        return _text_item(fields.text, place, _unmarked(raw))
    if kind in REASONING and role is Role.MODEL:
        value = fields.signature if fields.signature is not NONE else fields.data
        return MessagesItem(kind, Role.REASONING, start, end, "", "", value, raw, message, number)
    value = fields.input if fields.input is not NONE else fields.content
    plain = _unmarked(raw)
    if value is NONE and kind != _RESULT:
        value = Raw(plain)
    call_id, name = fields.id or fields.tool_use_id or "", fields.name or ""
    return MessagesItem(kind, role, start, end, call_id, name, value, plain, message, number)


def blob_digest(value: bytes | Raw) -> bytes:
    """Return the digest of a signature, or of redacted data, given as JSON; b"" if it is empty."""
    blob = json_spans.text(value)
    return digest(b"blob", utf8(blob)) if blob else b""


def _text_item(value: Raw, place: BlockPlace, raw: bytes) -> MessagesItem:
    start, end, role, message, number = place
    words = folded(json_spans.text(value) or "") if role is Role.MODEL else ""
    return MessagesItem(MESSAGE, role, start, end, "", "", value, raw, message, number, words)


def _unmarked(raw: bytes) -> bytes:
    """Return a block without its cache mark."""
    if _MARK not in raw:
        return raw
    try:
        return json_spans.without(raw, (_CACHE_CONTROL,))
    except Unspliceable:
        return raw


def _spelled(value: Raw) -> bytes:
    """Return a value in one canonical spelling."""
    return whole_numbers(canonical(bytes(value)))


def _result(value: Raw) -> bytes:
    """Return the result of a tool, without what the libraries of clients add or leave out."""
    raw = bytes(value)
    said = _spelled(Raw(b'[{"text":%b,"type":"text"}]' % raw) if raw[:1] == b'"' else value)
    return changed(said, _without_nulls) if b"null" in said else said


def _without_nulls(value: object) -> object:
    if isinstance(value, list):
        return [_without_nulls(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return value
