"""
Chat items: the messages of a request, parsed only as far as matching needs.

An assistant message is several items, in order: its text, if it has any, and each of its tool
calls. Clients change how calls and text share messages, and matching compares each on its own.
Every other message is one item.
A message of unknown shape must never fail a request, so parsing is lenient: a value of an
unexpected type counts as absent.
"""

import re
from collections.abc import Iterator
from itertools import combinations

import msgspec
from msgspec import Raw
from typing_extensions import override

from reasoning_replay.core.dialects.chat.members import ChatMessage
from reasoning_replay.core.dialects.item_content import (
    arguments,
    canonical,
    chars_of,
    refusal_in,
    text_and_rest,
)
from reasoning_replay.core.dialects.lenient import LenientDecoder, value_of
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE
from reasoning_replay.core.wire.text_folding import folded

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


# Most arguments that a client adds to those of a call, and has in all.
ADDED_MAX = 2
ARGUMENTS_MAX = 8

_MESSAGE = LenientDecoder(_MessageFields)
_CALL = LenientDecoder(_CallFields)
_FUNCTION = LenientDecoder(_FunctionFields)

_ROLES = {
    "assistant": Role.MODEL,
    "system": Role.FRAME,
    "developer": Role.FRAME,
}
_OF_TOOLS = frozenset({"tool", "function"})
# Reasoning as text at the start of `content`, as some servers and clients write it.
_THOUGHTS = re.compile(r"\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_THINKING_PART = re.compile(rb'"type"\s*:\s*"thinking"')


class ChatItem(HistoryItem, gc=False, eq=False):
    """
    One item of a request: the text of a message, or one tool call.

    Attributes:
        start, end: Byte range in the document. That of a call has its length, and begins where the
            first bytes equal to it do.
        message: The message that holds it.
        value: Content of a message, arguments of a call.
        number: Index in the message's `tool_calls`; negative for text and for the old form.
        words: Folded text, or refusal, of an assistant message; "" for other items.
    """

    message: ChatMessage
    value: Raw
    number: int = -1
    words: str = ""

    @property
    def raw(self) -> bytes:
        """JSON of the message or of the call, as received."""
        message = self.message
        return message.raw[self.start - message.start : self.end - message.start]

    def lesser_contents(self) -> Iterator[bytes]:
        """Yield the contents that a call may have had before a client added arguments to it."""
        given = value_of(canonical(bytes(self.value)))
        if not isinstance(given, dict) or len(given) > ARGUMENTS_MAX:
            return
        for added in range(1, ADDED_MAX + 1):
            for kept in combinations(given, max(0, len(given) - added)):
                said = msgspec.json.encode({name: given[name] for name in kept}, order="sorted")
                yield self._content_of_call(said)

    @override
    def _read_content(self) -> bytes:
        """Return a digest that is equal for text in parts, and for any spelling of arguments."""
        if self.type == CALL:
            return self._content_of_call(canonical(bytes(self.value)))
        return digest(b"m", utf8(self.words))

    def _content_of_call(self, said: bytes) -> bytes:
        return digest(b"c", utf8(self.name), arguments(said))

    @override
    def _read_text(self) -> str:
        return _without_thoughts(text_and_rest(self.value)[0]) if self.words else ""

    @override
    def _count_chars(self) -> int:
        if self.type == CALL:
            return chars_of(bytes(self.value))
        return len(self.words or text_and_rest(self.value)[0])

    @override
    def _read_said(self) -> bytes:
        # Without the call's id: some clients renumber their calls.
        words, rest = text_and_rest(self.value)
        return digest(b"o" if self.type == OUTPUT else b"u", utf8(folded(words)), *rest)


def read_message(raw: bytes, start: int = 0, end: int = 0) -> list[ChatItem]:
    """Return the items of one message; never raises, whatever the bytes are."""
    fields = _MESSAGE.decode(raw) or _MessageFields()
    word = fields.role or ""
    role = _ROLES.get(word, Role.CLIENT)
    if role is Role.MODEL:
        return _of_model(fields, raw, start, end)
    is_output = word in _OF_TOOLS
    kind, name = (OUTPUT, fields.name or "") if is_output else (MESSAGE, "")
    call_id = fields.tool_call_id or ""
    message = ChatMessage(raw, start)
    return [ChatItem(kind, role, start, end, call_id, name, message, fields.content)]


def _of_model(fields: _MessageFields, raw: bytes, start: int, end: int) -> list[ChatItem]:
    content = fields.content
    words = text_and_rest(content)[0] if content is not NONE else ""
    thoughts = _THOUGHTS.match(words)
    said = bytes(content)
    is_thinking = said.startswith(b"[") and _THINKING_PART.search(said) is not None
    thinks_aloud = thoughts is not None or is_thinking
    message = ChatMessage(raw, start, thinks_aloud)
    text = folded(_without_thoughts(words))
    text = text or folded(fields.refusal or refusal_in(content))
    items: list[ChatItem] = []
    if text:
        items.append(
            ChatItem(MESSAGE, Role.MODEL, start, end, "", "", message, content, words=text)
        )
    at = 0
    for number, call in enumerate(fields.tool_calls or ()):
        given = bytes(call)
        first = raw.find(given, at)
        at = first + len(given)
        call_id, name, said = _read_call(given)
        place = start + first, start + at
        items.append(ChatItem(CALL, Role.MODEL, *place, call_id, name, message, said, number))
    name, said = _read_function(fields.function_call)
    if name:  # the old form, one call of a message
        items.append(ChatItem(CALL, Role.MODEL, start, end, "", name, message, said))
    return items


def _without_thoughts(words: str) -> str:
    """Return a text without the reasoning at its start."""
    thoughts = _THOUGHTS.match(words)
    return words[thoughts.end() :] if thoughts is not None else words


def _read_call(raw: bytes) -> tuple[str, str, Raw]:
    """Return the id, the tool's name and the arguments of a tool call."""
    fields = _CALL.decode(raw) or _CallFields()
    name, said = _read_function(fields.function)
    if not name and fields.custom is not NONE:
        name, said = _read_function(fields.custom)
    return fields.id or "", name, said


def _read_function(raw: Raw) -> tuple[str, Raw]:
    """Return the name and the arguments of a function, or the input of a custom tool."""
    if raw is NONE:
        return "", NONE
    fields = _FUNCTION.decode(raw) or _FunctionFields()
    return fields.name or "", fields.arguments if fields.arguments is not NONE else fields.input
