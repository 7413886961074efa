"""
Chat items: the messages of a request, parsed only as far as matching needs.

An assistant message is several items, in order: its text, if it has any, and each of its tool
calls. Clients change how calls and text share messages, and matching compares each on its own.
Every other message is one item.
A message of unknown shape must never fail a request, so parsing is lenient: a value of an
unexpected type counts as absent.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.chat.messages import ChatMessage
from reasoning_replay.core.dialects.contents import (
    canonical,
    chars_of,
    refusal_in,
    text_and_rest,
)
from reasoning_replay.core.history.fingerprints import TRACE_BYTES, is_distinctive
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.json_spans import NONE, LenientDecoder
from reasoning_replay.core.wire.text_folding import folded

__all__ = ["CALL", "MESSAGE", "ChatItem", "read_message"]

MESSAGE = "message"
CALL = "function_call"
OUTPUT = "function_call_output"


class _MessageFields(msgspec.Struct, gc=False):
    """The fields of a message that distinguish items."""

    role: str | None = None
    content: Raw = NONE
    refusal: str | None = None
    tool_calls: list[Raw] | None = None
    function_call: Raw = NONE
    tool_call_id: str | None = None
    name: str | None = None


class _CallFields(msgspec.Struct, gc=False):
    """The fields of a tool call; `custom` is the form of tools that take free text."""

    id: str | None = None
    function: Raw = NONE
    custom: Raw = NONE


class _FunctionFields(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: Raw = NONE
    input: Raw = NONE


_MESSAGE = msgspec.json.Decoder(_MessageFields)
_LOOSE_MESSAGE = LenientDecoder(_MessageFields)
_CALL = msgspec.json.Decoder(_CallFields)
_LOOSE_CALL = LenientDecoder(_CallFields)
_FUNCTION = msgspec.json.Decoder(_FunctionFields)
_LOOSE_FUNCTION = LenientDecoder(_FunctionFields)
_CALLS = msgspec.json.Decoder(list[Raw])
_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)

_ROLES = {
    "assistant": Role.MODEL,
    "system": Role.FRAME,
    "developer": Role.FRAME,
}
_TEXTS = ("role", "refusal", "tool_call_id", "name")
_OF_TOOLS = frozenset({"tool", "function"})
# Clients replace arguments that are empty, one way or the other.
_NO_ARGUMENTS = frozenset({b"", b"{}", b"null"})
# Reasoning as text at the start of `content`, as some servers and clients write it.
_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_THINKING_PART = re.compile(rb'"type"\s*:\s*"thinking"')


class ChatItem(msgspec.Struct, gc=False, eq=False):
    """
    One item of a request: the text of a message, or one tool call.

    Attributes:
        message: The message that holds it.
        call_id, name: Values as received; "" if absent or not a string.
        start, end: Byte range in the document. That of a call has its length, and begins where the
            first bytes equal to it do.
        number: Index in the message's `tool_calls`; negative for text and for the old form.
        words: Folded text, or refusal, of an assistant message; "" for other items.

    A history has thousands of items, so they are untracked by the garbage collector, the cheapest
    form. This is safe because an item is never part of a reference cycle.
    """

    type: str
    role: Role
    start: int
    end: int
    message: ChatMessage
    said_raw: Raw  # content of a message, arguments of a call
    call_id: str = ""
    name: str = ""
    number: int = -1
    words: str = ""
    # Computed on first use
    _chars: int | None = None
    _content: bytes | None = None
    _said: bytes | None = None
    _trace: bytes | None = None

    @property
    def raw(self) -> bytes:
        """JSON of the message or of the call, as received."""
        message = self.message
        return message.raw[self.start - message.start : self.end - message.start]

    @property
    def id(self) -> str:
        """Messages have no id."""
        return ""

    @property
    def is_anchor(self) -> bool:
        """Whether a conversation can be looked up by it."""
        return self.role is Role.MODEL

    @property
    def content(self) -> bytes:
        """
        Digest of what a model's item says or does; it survives the changes that clients make.

        It is equal for text in parts, normalised text, and differently spelled arguments.
        """
        if self._content is None:
            if self.type == CALL:
                self._content = digest(b"c", _utf8(self.name), _arguments(self.said_raw))
            else:
                self._content = digest(b"m", _utf8(self.words))
        return self._content

    @property
    def chars(self) -> int:
        """Approximate number of characters of content: short content recurs by chance."""
        if self._chars is None:
            is_words = self.type != CALL
            text = self.words or (text_and_rest(self.said_raw)[0] if is_words else "")
            self._chars = len(text) if is_words else chars_of(bytes(self.said_raw))
        return self._chars

    @property
    def trace(self) -> bytes:
        """Eight bytes that distinguish it from model items of other conversations."""
        if self._trace is None:
            named = is_distinctive(self.call_id, self.name)
            whole = digest(b"i", _utf8(self.call_id)) if named else self.content
            self._trace = whole[:TRACE_BYTES]
        return self._trace

    @property
    def said(self) -> bytes:
        """Digest of the item as client input: one link of the conversation's chain."""
        if self._said is None:
            # Without the call's id: some clients renumber their calls.
            words, rest = text_and_rest(self.said_raw)
            kind = b"o" if self.type == OUTPUT else b"u"
            self._said = digest(kind, _utf8(folded(words)), *rest)
        return self._said


def read_message(raw: bytes, start: int = 0, end: int = 0) -> list[ChatItem]:
    """Return the items of one message; never raises, whatever the bytes are."""
    try:
        fields = _MESSAGE.decode(raw)
    except _ERRORS:
        fields = _loose_message(raw)
    word = fields.role or ""
    role = _ROLES.get(word, Role.CLIENT)
    if role is Role.MODEL:
        return _of_model(fields, raw, start, end)
    is_output = word in _OF_TOOLS
    kind, name = (OUTPUT, fields.name or "") if is_output else (MESSAGE, "")
    call_id = fields.tool_call_id or ""
    message = ChatMessage(raw, start, thinks_aloud=False)
    return [ChatItem(kind, role, start, end, message, fields.content, call_id, name)]


def _of_model(fields: _MessageFields, raw: bytes, start: int, end: int) -> list[ChatItem]:
    content = fields.content
    words = text_and_rest(content)[0] if content is not NONE else ""
    thoughts = _THOUGHTS.match(words)
    said = bytes(content)
    is_thinking = said.startswith(b"[") and _THINKING_PART.search(said) is not None
    thinks_aloud = thoughts is not None or is_thinking
    message = ChatMessage(raw, start, thinks_aloud)
    text = folded(words[thoughts.end() :] if thoughts is not None else words)
    text = text or folded(fields.refusal or refusal_in(content))
    items: list[ChatItem] = []
    if text:
        items.append(ChatItem(MESSAGE, Role.MODEL, start, end, message, content, words=text))
    at = 0
    for number, call in enumerate(fields.tool_calls or ()):
        given = bytes(call)
        first = raw.find(given, at)
        at = first + len(given)
        call_id, name, said = _read_call(given)
        place = start + first, start + at
        items.append(ChatItem(CALL, Role.MODEL, *place, message, said, call_id, name, number))
    name, said = _read_function(fields.function_call)
    if name:  # the old form, one call of a message
        items.append(ChatItem(CALL, Role.MODEL, start, end, message, said, "", name))
    return items


def _read_call(raw: bytes) -> tuple[str, str, Raw]:
    """Return the id, the tool's name and the arguments of a tool call."""
    try:
        fields = _CALL.decode(raw)
    except _ERRORS:
        fields = _loose_call(raw)
    name, said = _read_function(fields.function)
    if not name and fields.custom is not NONE:
        name, said = _read_function(fields.custom)
    return fields.id or "", name, said


def _read_function(raw: Raw) -> tuple[str, Raw]:
    """Return the name and the arguments of a function, or the input of a custom tool."""
    if raw is NONE:
        return "", NONE
    try:
        fields = _FUNCTION.decode(raw)
    except _ERRORS:
        try:
            members = _LOOSE_FUNCTION.decode(raw)
        except _ERRORS:
            return "", NONE
        name = json_spans.text(members["name"])
        fields = _FunctionFields(name, members["arguments"], members["input"])
    return fields.name or "", fields.arguments if fields.arguments is not NONE else fields.input


def _loose_message(raw: bytes) -> _MessageFields:
    """Decode a message with a field of an unexpected type; an unreadable one counts as empty."""
    try:
        members = _LOOSE_MESSAGE.decode(raw)
    except _ERRORS:
        return _MessageFields()
    texts: dict[str, Any] = {name: json_spans.text(members.pop(name)) for name in _TEXTS}
    try:
        texts["tool_calls"] = _CALLS.decode(members.pop("tool_calls"))
    except _ERRORS:
        texts["tool_calls"] = None
    return _MessageFields(**texts | members)


def _loose_call(raw: bytes) -> _CallFields:
    try:
        members = _LOOSE_CALL.decode(raw)
    except _ERRORS:
        return _CallFields()
    return _CallFields(json_spans.text(members["id"]), members["function"], members["custom"])


def _arguments(raw: Raw) -> bytes:
    """Return arguments in one canonical spelling."""
    said = canonical(bytes(raw))
    return b"" if said in _NO_ARGUMENTS else said


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
