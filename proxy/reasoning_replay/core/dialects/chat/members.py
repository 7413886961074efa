"""
Members: the parts of an assistant message that are reasoning, each kept as `"name":value`.

The Chat Completions API has no field for reasoning, so every vendor adds its own: next to the
`content` of a message, or next to the `function` of a tool call. A client that follows the API's
schema drops them. Names: the vendors' documentation, and recorded traffic.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from reasoning_replay.core.dialects.lenient import UNREADABLE
from reasoning_replay.core.history.turns import Reasoning
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.json_spans import Member, Unspliceable

# Members that hold reasoning as plain text; lists hold the same text in entries.
TEXTS = ("reasoning_content", "reasoning", "reasoning_text")
LISTS = (
    "reasoning_details",  # OpenRouter, Vercel, MiniMax, Snowflake
    "thinking_blocks",  # LiteLLM, from Claude
    "reasoning_items",  # LiteLLM, from OpenAI's Responses API
)
# A vendor's other fields, of which LiteLLM sends some with any answer. Only a signature in them is
# reasoning, and only if no other member has it.
FIELDS = "provider_specific_fields"

# Members of a message, in the order in which they are injected.
MESSAGE_MEMBERS = (
    "reasoning_content",  # DeepSeek, Moonshot, Z.ai, MiniMax, Qwen, xAI, llama.cpp, SGLang, Venice
    "reasoning",  # OpenRouter, Vercel, Groq, Cerebras, Ollama, vLLM
    "reasoning_text",  # Copilot
    "reasoning_opaque",  # Copilot
    *LISTS,
    "extra_content",  # Gemini, for a message without calls
    "thought_signature",  # Gemini through Venice, as above
    FIELDS,  # Gemini through LiteLLM, as above
)
# Members of an element of `tool_calls`.
CALL_MEMBERS = ("extra_content", "thought_signature", FIELDS)

_OF_CALL = "tool_calls."  # begins the id of a member of a call
# Strings under these keys are opaque to clients: they identify reasoning, and upstream checks them.
_OPAQUE = frozenset(
    {
        *("signature", "thought_signature", "thought_signatures", "data", "reasoning_opaque"),
        "encrypted_content",
    }
)
_EMPTY = frozenset({b"null", b'""', b"[]", b"{}"})
EMPTY_TEXT = b'""'
_DEMANDED = "reasoning_content"
NULL = b"null"
# Most different strings in a piece: each is searched for in all that was emitted.
_PIECES_MAX = 32
_SPACE = b" \t\r\n"
# A cheap search: only a message that holds one of these may have reasoning.
_MAY_REASON = re.compile(rb"reasoning|thinking|extra_content|thought_signature|\\u00")


# Encrypted or signed content, also under a name that no vendor has used so far. In a string, the
# quotes are escaped, so that no text looks like it.
_SEALED = re.compile(rb'"(?:encrypted\w*|\w*signatures?)"\s*:\s*\[?\s*"[^"]')


class Sent(Enum):
    """What a client sends in place of a member that upstream emitted."""

    NOTHING = auto()  # no such member, or an empty one
    TORN = auto()  # pieces of what was emitted, or repeats
    WHOLE = auto()  # what was emitted
    OWN = auto()  # another value


def is_empty(value: bytes) -> bool:
    """Return whether a JSON value says nothing: null, or an empty string, array or object."""
    if value in _EMPTY:
        return True
    return value[:1] in (b"[", b"{") and value.translate(None, _SPACE) in _EMPTY


def is_unknown_carrier(name: str, value: bytes) -> bool:
    """Return whether a member of a message that is not known looks encrypted or signed."""
    if name in MESSAGE_MEMBERS or name == "tool_calls":
        return False
    return _SEALED.search(b'"%b":%b' % (name.encode(), value)) is not None


def is_emitted_empty(name: str, value: bytes) -> bool:
    """
    Return whether an empty value is kept all the same: some vendors demand the emitted key.

    Source: MoonshotAI/kimi-cli#2498; DeepSeek's streams begin with it (recorded).
    """
    return name == _DEMANDED and value == EMPTY_TEXT


def says_nothing(name: str, value: bytes) -> bool:
    """Return whether a member is no reasoning: an empty one, or fields without a signature."""
    if name != FIELDS or is_empty(value):
        return is_empty(value)
    try:
        return next(_opaque(name, _decoded(value)), None) is None
    except UNREADABLE:
        return True


def reasoning_of(name: str, value: bytes, *, is_of_call: bool) -> Reasoning | None:
    """
    Return a member in its injectable form; None if its value would damage a request.

    Args:
        name: Name of the member.
        value: Its JSON, which is kept byte for byte. Text that is not valid Unicode is damage.
        is_of_call: Whether it is a member of a tool call and not of the message.
    """
    try:
        blobs = {digest(b"blob", blob.encode()) for blob in _opaque(name, _decoded(value))}
    except UNREADABLE:
        return None
    known_as = _OF_CALL + name if is_of_call else name
    raw = b'"%b":%b' % (name.encode(), value)
    return Reasoning(known_as, raw, tuple(sorted(blobs)), bool(blobs))


def is_of_call(part: Reasoning) -> bool:
    """Return whether reasoning is a member of a tool call."""
    return part.id.startswith(_OF_CALL)


def name_of(part: Reasoning) -> str:
    """Return the name of a member."""
    return part.id.removeprefix(_OF_CALL)


def value_of(part: Reasoning) -> bytes:
    """Return the JSON value of a member."""
    return part.raw[len(name_of(part)) + 3 :]


def sent_of(given: bytes, part: Reasoning) -> Sent:
    """
    Return what a client sends in place of a member.

    Args:
        given: JSON of the client's value; b"" if it has none.
        part: The member as upstream emitted it.
    """
    emitted = value_of(part)
    if given == emitted:
        return Sent.WHOLE
    if not given or is_empty(given):
        return Sent.NOTHING
    try:
        mine, whole = _decoded(given), _decoded(emitted)
        if mine == whole:
            return Sent.WHOLE
        return Sent.TORN if _is_torn(name_of(part), mine, whole) else Sent.OWN
    except UNREADABLE:
        return Sent.OWN


def _is_torn(name: str, mine: object, whole: object) -> bool:
    """
    Return whether a value is what a library made of another: pieces of it, or repeats.

    Libraries that do not know a member keep the last of its deltas, or one part of an entry, or
    append texts that come whole with each delta.

    Cost: linear in both values; each of up to _PIECES_MAX strings is searched for once.
    """
    given, emitted = _leaves(name, mine), _leaves(name, whole)
    texts = {(key, text) for key, texts in given.items() for text in texts}
    if len(texts) > _PIECES_MAX:
        return False
    others = [(key, text) for key, text in texts if not _is_piece(text, emitted.get(key, ()))]
    if others:
        return all(key[1] is str and _is_repeat(text, emitted.get(key, ())) for key, text in others)
    return any(_size(given.get(key, ())) < _size(texts) for key, texts in emitted.items())


def _is_piece(text: str, emitted: Iterable[str]) -> bool:
    return any(text in one for one in emitted)


def _is_repeat(text: str, emitted: Iterable[str]) -> bool:
    """
    Return whether a text is an emitted one, written several times in a row.

    Cost: linear in the text, and in what was emitted: no repeats are written out.
    """
    size = len(text)
    unit = (text + text).find(text, 1)  # length of the shortest text that it repeats
    return any(
        one and not size % len(one) and not len(one) % unit and text.startswith(one)
        for one in emitted
    )


def _size(texts: Iterable[str]) -> int:
    return sum(map(len, texts))


def _leaves(name: str, value: object) -> dict[tuple[str, type], list[str]]:
    """Return the strings, numbers and truth values in a value, by their key and type."""
    found: dict[tuple[str, type], list[str]] = {}
    pending = [(name, value)]
    while pending:
        key, one = pending.pop()
        if isinstance(one, list):
            pending += [(key, inner) for inner in one]
        elif isinstance(one, dict):
            pending += one.items()
        elif one is not None:
            found.setdefault((key, type(one)), []).append(str(one))
    return found


def _decoded(value: bytes) -> object:
    return msgspec.json.decode(value)


def _opaque(name: str, value: object) -> Iterator[str]:
    """Yield the opaque strings in a value."""
    if isinstance(value, str):
        if name in _OPAQUE and value:
            yield value
    elif isinstance(value, list):
        for element in value:
            yield from _opaque(name, element)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _opaque(key, inner)


class Part(NamedTuple):
    """
    One reasoning member of a message, with a value other than null.

    Attributes:
        call: Index of the tool call that has it; None for a member of the message.
        value: Its JSON.
    """

    call: int | None
    name: str
    value: bytes


class ChatMessage(msgspec.Struct, gc=False, eq=False):
    """
    One message of a request.

    Places are byte offsets into `raw`. Asking for them raises Unspliceable if a key occurs twice,
    or if calls are not what the API says.

    Attributes:
        raw: JSON, exactly as received.
        start: Byte offset in the document from which it was read.
        thinks_aloud: Whether its text holds reasoning, in the form of tags or parts.
    """

    raw: bytes
    start: int
    thinks_aloud: bool = False
    _members: dict[str, Member] | None = None
    _calls: list[tuple[int, int]] | None = None
    _replayed: int | None = None

    @property
    def end(self) -> int:
        """Byte offset after the message."""
        return self.start + len(self.raw)

    @property
    def members(self) -> dict[str, Member]:
        """Places of its members."""
        if self._members is None:
            self._members = json_spans.members(self.raw)
        return self._members

    @property
    def calls(self) -> list[tuple[int, int]]:
        """Places of the elements of `tool_calls`."""
        if self._calls is None:
            place = self.members.get("tool_calls")
            if place is None or self.raw[place.start : place.end] == NULL:
                self._calls = []
            else:
                self._calls = json_spans.elements(self.raw, place.start, place.end)
        return self._calls

    @property
    def raw_calls(self) -> list[bytes]:
        """JSON of the elements of `tool_calls`."""
        return [self.raw[start:end] for start, end in self.calls]

    def members_of_call(self, number: int) -> dict[str, Member]:
        """Return the places of the members of one call."""
        return json_spans.members(self.raw, *self.calls[number])

    @property
    def replayed(self) -> int:
        """Number of reasoning members that the client sends; an empty one says nothing."""
        if self._replayed is None:
            self._replayed = int(self.thinks_aloud)
            if _MAY_REASON.search(self.raw):
                # If it cannot be read, nothing is injected into it anyway.
                with contextlib.suppress(Unspliceable):
                    self._replayed += sum(
                        not says_nothing(part.name, part.value) for part in self.parts
                    )
        return self._replayed

    @property
    def parts(self) -> list[Part]:
        """Its reasoning members."""
        found = self._parts(None, self.members, MESSAGE_MEMBERS)
        for number in range(len(self.calls)):
            found += self._parts(number, self.members_of_call(number), CALL_MEMBERS)
        return found

    def _parts(
        self, call: int | None, members: dict[str, Member], names: tuple[str, ...]
    ) -> list[Part]:
        sent = ((name, members[name]) for name in names if name in members)
        parts = (Part(call, name, self.raw[at.start : at.end]) for name, at in sent)
        return [part for part in parts if part.value != NULL]
