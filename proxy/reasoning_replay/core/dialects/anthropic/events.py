"""
Messages events: the fields of a streamed event, and the blocks that a stream forms.

The text of a stream is joined as raw JSON: the bodies of its strings are put together without
decoding them, so the result has the bytes that upstream wrote. Nothing here raises: a value of an
unexpected type counts as absent.
"""

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.lenient import (
    UNREADABLE,
    LenientDecoder,
    body_of,
    members_of,
    object_of,
    string_of,
)
from reasoning_replay.core.dialects.usages import Usage, count_in, part_in
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.digest import utf8
from reasoning_replay.core.wire.json_spans import NONE


class Event(msgspec.Struct, gc=False):
    """The fields of an event that capture reads."""

    type: str | None = None
    index: int | None = None
    message: Raw = NONE
    content_block: Raw = NONE
    delta: Raw = NONE
    usage: Raw = NONE
    input_transformations: Raw = NONE


class MessageFields(msgspec.Struct, gc=False):
    """The fields that capture reads of a message: a JSON response, the start or end of a stream."""

    type: str | None = None
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    content: list[Raw] | None = None
    usage: Raw = NONE
    input_transformations: Raw = NONE
    diagnostics: Raw = NONE


# A lone surrogate is marked, because the other half may be in the next event.
read_event = LenientDecoder(Event, surrogates.marked).decode
read_message = LenientDecoder(MessageFields, surrogates.marked).decode

# Strings of a block that a stream sends piece by piece, and those that it sends as a whole.
_JOINED = frozenset({"text", "thinking", "content"})
_WHOLE = frozenset({"signature", "data"})
_INPUT = "partial_json"
_LONG = "ephemeral_1h_input_tokens"
# Estimated memory of a block without its JSON, and of each of its members, in bytes. Measured by
# tracemalloc: 300 to 600 with two to four members.
_BLOCK_BYTES = 512
_MEMBER_BYTES = 128


def read_usage(*reports: Raw) -> Usage | None:
    """
    Return the token counts of a response; None if no report has any.

    Args:
        reports: Values of `usage` from the start and the end of a stream; later counts win.
    """
    said: dict[str, Raw] = {}
    for report in reports:
        said |= {key: raw for key, raw in members_of(report).items() if bytes(raw) != b"null"}
    fresh, output = count_in(said, "input_tokens"), count_in(said, "output_tokens")
    written = count_in(said, "cache_creation_input_tokens")
    cached = count_in(said, "cache_read_input_tokens")
    if fresh is None and output is None:
        return None
    has_input = fresh is not None
    return Usage(
        # Tokens from the cache, and those written to it, are counted apart.
        input_tokens=None if fresh is None else fresh + (written or 0) + (cached or 0),
        cached_tokens=cached if has_input else None,
        output_tokens=output,
        reasoning_tokens=part_in(said, "output_tokens_details", "thinking_tokens", output),
        cache_write_tokens=written if has_input else None,
        cache_write_long_tokens=part_in(said, "cache_creation", _LONG, written),
    )


class _Block:
    """One block, as its members; texts are pieces that will be joined."""

    def __init__(self, members: dict[str, Raw]) -> None:
        self._values = {name: bytes(raw) for name, raw in members.items()}
        self._texts: dict[str, bytearray] = {}

    def add(self, delta: dict[str, Raw]) -> None:
        """Add the members of a delta."""
        for name, raw in delta.items():
            value = bytes(raw)
            if value[:1] != b'"':
                continue
            if name in _JOINED:
                self._joined(name, self._values.get(name, b"")).extend(value[1:-1])
            elif name == _INPUT:
                self._joined("input", b"").extend(value[1:-1])
            elif name in _WHOLE and value != b'""':
                self._values[name] = value

    def _joined(self, name: str, before: bytes) -> bytearray:
        if name not in self._texts:
            self._texts[name] = bytearray(body_of(before))
            self._values.setdefault(name, b"")  # its place among the members
        return self._texts[name]

    def raw(self) -> bytes:
        """Return the JSON of the block, as a JSON response would hold it."""
        texts = {name: string_of(body) for name, body in self._texts.items()}
        if "input" in texts:
            texts["input"] = _input_of(texts["input"]) or self._values["input"] or b"{}"
        return surrogates.unmarked(object_of(self._values | texts))


class BlockJoiner:
    """
    The blocks that the events of a stream form together.

    Attributes:
        size_bytes: Estimated memory, in bytes.
    """

    def __init__(self) -> None:
        """Start before the first block."""
        self.size_bytes = 0
        self._blocks: list[_Block] = []
        self._by_index: dict[int | None, _Block] = {}

    def start(self, index: int | None, block: Raw) -> None:
        """Add a block; an index that is used again is that of the new block from now on."""
        members = members_of(block)
        self.size_bytes += len(bytes(block)) + _BLOCK_BYTES + _MEMBER_BYTES * len(members)
        made = self._by_index[index] = _Block(members)
        self._blocks.append(made)

    def add(self, index: int | None, delta: Raw) -> None:
        """Add a delta to the block of its index; a delta of no block is ignored."""
        if index in self._by_index:
            self.size_bytes += len(bytes(delta))
            self._by_index[index].add(members_of(delta))

    def joined(self) -> list[bytes]:
        """Return the JSON of each block."""
        return [block.raw() for block in self._blocks]


def _input_of(text: bytes) -> bytes:
    """Return the input of a call that a stream sent as text; b"" without any."""
    said = json_spans.text(text)
    if not said:
        return text if said is None else b""
    made = utf8(said)
    try:
        msgspec.json.decode(made)
    except UNREADABLE:
        return text  # the stream was cut, or a surrogate has no other half
    return made
