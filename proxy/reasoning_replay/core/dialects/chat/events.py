"""
Chat events: the chunks of a streamed completion, and the message that they form together.

The text of a stream is joined as raw JSON: the bodies of its strings are put together without
decoding them, so the result has the bytes that upstream wrote. Nothing here raises: a value of an
unexpected type counts as absent.
"""

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.chat.members import (
    FIELDS,
    LISTS,
    MESSAGE_MEMBERS,
    is_emitted_empty,
    is_empty,
    is_unknown_carrier,
)
from reasoning_replay.core.dialects.lenient import (
    LenientDecoder,
    array_of,
    body_of,
    decoded,
    elements_of,
    members_of,
    number_of,
    object_of,
    string_of,
)
from reasoning_replay.core.wire import surrogates
from reasoning_replay.core.wire.json_spans import NONE


class Choice(msgspec.Struct, gc=False):
    """
    The fields of one choice that capture reads.

    Attributes:
        delta: Members of a chunk's delta.
        message: Whole message of a JSON response.
    """

    index: int | None = None
    delta: dict[str, Raw] | None = None
    message: Raw = NONE
    finish_reason: str | None = None


class Chunk(msgspec.Struct, gc=False):
    """The fields of a chunk, or of a whole JSON response, that capture reads."""

    id: str | None = None
    model: str | None = None
    created: Raw = NONE
    choices: list[Choice] | None = None
    usage: Raw = NONE
    error: Raw = NONE

    @property
    def first(self) -> Choice | None:
        """The choice with index 0, or without an index; the others are not followed."""
        for choice in self.choices or ():  # faster than a generator, once for each delta
            if not choice.index:
                return choice
        return None

    @property
    def has_failed(self) -> bool:
        """Whether upstream reports an error, also in a response with status 200."""
        return self.error is not NONE and not is_empty(bytes(self.error))


# A lone surrogate is marked, because the other half may be in the next chunk.
read_chunk = LenientDecoder(Chunk, surrogates.marked).decode
_OBJECTS = msgspec.json.Decoder(list[dict[str, Raw]])

# Strings of a message that a stream sends piece by piece.
_TEXTS = frozenset({"content", "refusal", "reasoning_content", "reasoning", "reasoning_text"})
# Types of the entries of a list whose pieces are joined, and the strings in them; as the clients'
# libraries do (OpenRouter's AI SDK provider, ruby_llm, fantasy, LiteLLM).
_JOINED_TYPES = frozenset({b'"reasoning.text"', b'"reasoning.summary"', b'"thinking"'})
_JOINED_TEXTS = frozenset({"text", "summary", "thinking"})
_SIGNED = b"signature"
# Estimated memory of a call or an entry without its JSON, and of each of its members, in bytes.
# Measured by tracemalloc: 300 to 800 with three members.
_ENTRY_BYTES = 512
_MEMBER_BYTES = 128


class _Entry:
    """One entry of a list, as its members; texts are pieces that will be joined."""

    def __init__(self, members: dict[str, Raw]) -> None:
        self.values: dict[str, bytes] = {}
        self.texts: dict[str, bytearray] = {}
        self.add(members)

    @property
    def is_signed(self) -> bool:
        """Whether its signature has come."""
        return not is_empty(self.values.get("signature", b"null"))

    def takes(self, named: bytes) -> bool:
        """Return whether a fragment with this id, or without one, continues this entry."""
        own = self.values.get("id", b"")
        return named == own or _is_missing(named) or _is_missing(own)

    def add(self, members: dict[str, Raw]) -> int:
        """Join the texts of a fragment, keep the newest other values; return how many are new."""
        known = len(self.values)
        for name, raw in members.items():
            value = bytes(raw)
            if name in _JOINED_TEXTS and value[:1] == b'"':
                self.texts.setdefault(name, bytearray()).extend(value[1:-1])
                self.values.setdefault(name, b"")  # its place among the members
            elif name not in self.values or not is_empty(value):
                self.values[name] = value
        return len(self.values) - known

    def joined(self) -> bytes:
        """Return the JSON of the entry."""
        return object_of(self.values | {name: string_of(body) for name, body in self.texts.items()})


class _List:
    """A list of entries, whose fragments a stream brings one by one."""

    def __init__(self) -> None:
        self.entries: list[_Entry] = []
        self._open: dict[tuple[bytes, bytes], _Entry] = {}  # by type and index, the newest

    def add(self, fragment: dict[str, Raw]) -> int:
        """
        Add a fragment to the newest entry of its type and index, or begin an entry.

        Without an index, only the last entry can go on, because the order of the entries must stay;
        and only until it is signed.

        Returns:
            Estimated memory without the JSON, in bytes.
        """
        kind, index, named = (bytes(fragment.get(name, NONE)) for name in ("type", "index", "id"))
        entry = self._open.get((kind, index))
        if entry is not None and _is_missing(index):
            entry = None if entry is not self.entries[-1] or entry.is_signed else entry
        if entry is not None and entry.takes(named):
            return _MEMBER_BYTES * entry.add(fragment)
        entry = _Entry(fragment)
        self.entries.append(entry)
        if kind in _JOINED_TYPES:
            self._open[kind, index] = entry
        return _ENTRY_BYTES + _MEMBER_BYTES * len(fragment)

    def joined(self) -> bytes:
        """Return the JSON of the list."""
        return array_of([each.joined() for each in self.entries])


class _Call:
    """One tool call, as its members; `function` is its name and its arguments."""

    def __init__(self) -> None:
        self.id = b""
        self._name = b""
        self._arguments = bytearray()  # the body of the string
        self._whole = b""  # arguments that are no string
        self._values: dict[str, bytes] = {}

    def add(self, members: dict[str, Raw]) -> int:
        """Add a fragment of the call; return how many of its members are new."""
        known = len(self._values)
        for name, raw in members.items():
            value = bytes(raw)
            if name == "function":
                self.add_function(raw)
            elif name == "id":
                self.id = self.id or _unless_empty(value)
            elif name != "index" and not is_empty(value):
                self._values[name] = _newest(self._values.get(name, b""), value)
        return len(self._values) - known

    def add_function(self, raw: Raw) -> None:
        """Add a fragment of the function."""
        members = members_of(raw)
        self._name = self._name or _unless_empty(bytes(members.get("name", b"")))
        arguments = bytes(members.get("arguments", b""))
        if arguments[:1] == b'"':
            self._arguments += arguments[1:-1]
        else:
            self._whole = _unless_empty(arguments) or self._whole

    @property
    def function(self) -> bytes:
        """The JSON of the function."""
        arguments = self._whole or string_of(self._arguments)
        return object_of({"name": self._name or b'""', "arguments": arguments})

    def joined(self) -> bytes:
        """Return the JSON of the call."""
        return object_of({"id": self.id or b'""', **self._values, "function": self.function})


class MessageJoiner:
    """
    The message that the deltas of one choice form together.

    Attributes:
        size_bytes: Estimated memory, in bytes.
        has_unknown_carrier: As `Capture.has_unknown_carrier`.
    """

    def __init__(self) -> None:
        """Start before the first delta."""
        self.size_bytes = 0
        self.has_unknown_carrier = False
        self._texts: dict[str, bytearray] = {}
        self._values: dict[str, bytes] = {}
        self._lists: dict[str, _List] = {}
        self._fields: dict[str, bytes] = {}
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}  # the newest
        self._function: _Call | None = None  # the old form, one call of a message

    def add(self, delta: dict[str, Raw]) -> None:
        """Add the members of a delta."""
        for name, raw in delta.items():
            value = bytes(raw)
            if is_empty(value) and not is_emitted_empty(name, value):
                continue
            if name in _TEXTS:
                self._add_text(name, value)
            elif name in LISTS:
                self._add_entries(name, raw)
            elif name == FIELDS:
                self._add_fields(members_of(raw))
            elif name == "tool_calls":
                for fragment in _all_members(raw):
                    call = self._call_of(fragment)
                    self.size_bytes += _MEMBER_BYTES * call.add(fragment)
            elif name == "function_call":
                self._function = self._function or _Call()
                self._function.add_function(raw)
            elif name in MESSAGE_MEMBERS:
                self._values[name] = _newest(self._values.get(name, b""), value)
            else:
                self.has_unknown_carrier = self.has_unknown_carrier or is_unknown_carrier(
                    name, value
                )
                continue
            self.size_bytes += len(value)

    def _add_text(self, name: str, value: bytes) -> None:
        body = self._texts.setdefault(name, bytearray())
        if value[:1] == b'"':
            body += value[1:-1]
        elif name == "content":  # parts, as Mistral sends them
            for part in _all_members(Raw(value)):
                body += body_of(bytes(part.get("text", b"")))

    def _add_entries(self, name: str, raw: Raw) -> None:
        entries = self._lists.setdefault(name, _List())
        for fragment in _all_members(raw):
            self.size_bytes += entries.add(fragment)

    def _add_fields(self, fields: dict[str, Raw]) -> None:
        """Keep the newest value of each field, as LiteLLM's own library does."""
        known = len(self._fields)
        self._fields |= {
            name: bytes(raw) for name, raw in fields.items() if not is_empty(bytes(raw))
        }
        self.size_bytes += _MEMBER_BYTES * (len(self._fields) - known)

    def _call_of(self, fragment: dict[str, Raw]) -> _Call:
        """
        Return the call that a fragment belongs to.

        A call is known by its index. Some upstreams use an index again for the next call, which
        then has another id; others send whole calls without an index.
        """
        index = number_of(fragment.get("index", NONE))
        named = _unless_empty(bytes(fragment.get("id", b"")))
        if index is None:
            begins = bool(named) or "name" in members_of(fragment.get("function", NONE))
            found = None if begins or not self._calls else self._calls[-1]
        else:
            found = self._by_index.get(index)
        if found is None or (named and found.id and named != found.id):
            found = _Call()
            self._calls.append(found)
            self.size_bytes += _ENTRY_BYTES
            if index is not None:
                self._by_index[index] = found
        return found

    def joined(self) -> bytes:
        """Return the JSON of the message, as a JSON response would hold it."""
        members = {"role": b'"assistant"'}
        members |= {name: string_of(body) for name, body in self._texts.items()}
        members |= {name: entries.joined() for name, entries in self._lists.items()}
        members |= self._values
        if self._fields:
            members[FIELDS] = object_of(self._fields)
        if self._calls:
            members["tool_calls"] = array_of([each.joined() for each in self._calls])
        if self._function is not None:
            members["function_call"] = self._function.function
        return surrogates.unmarked(object_of(members))


def calls_in(message: bytes) -> int:
    """Return the number of tool calls in a message, decoding none of them."""
    return len(elements_of(members_of(message).get("tool_calls", NONE)))


def _newest(before: bytes, value: bytes) -> bytes:
    """Return the newest value; one with a signature is never replaced by one without."""
    return before if _SIGNED in before and _SIGNED not in value else value


def _is_missing(value: bytes) -> bool:
    return value in (b"", b"null")


def _unless_empty(value: bytes) -> bytes:
    return b"" if is_empty(value) else value


def _all_members(raw: Raw) -> list[dict[str, Raw]]:
    found = decoded(_OBJECTS, raw)
    if found is None:
        found = [members for each in elements_of(raw) if (members := members_of(each))]
    return found
