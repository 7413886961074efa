"""
Item content: text of messages and arguments of calls, in the spelling that digests compare.

Nothing here raises: a value of an unexpected type counts as absent.
"""

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.lenient import UNREADABLE, decoded
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import utf8
from reasoning_replay.core.wire.json_spans import NONE


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
# Clients replace arguments that are empty, one way or the other.
_NO_ARGUMENTS = frozenset({b"", b"{}", b"null"})
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


def arguments(said: bytes) -> bytes:
    """Return the arguments of a call, given in their canonical spelling; b"" for none."""
    return b"" if said in _NO_ARGUMENTS else said


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
