"""
Gemini events: the chunks of a streamed response, and the parts that they form together.

A response without a stream is one such chunk. Nothing here raises: a value of an unexpected type
counts as absent.
"""

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.lenient import LenientDecoder, array_of, elements_of, members_of
from reasoning_replay.core.dialects.usages import Usage, count_in
from reasoning_replay.core.wire import surrogates
from reasoning_replay.core.wire.json_spans import NONE


class _Content(msgspec.Struct, gc=False):
    parts: list[Raw] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    """The fields of one candidate that capture reads."""

    index: int | None = None
    content: _Content | None = None
    finish_reason: str | None = None

    @property
    def parts(self) -> list[Raw]:
        """Its parts."""
        return (self.content.parts or []) if self.content is not None else []

    @property
    def ended(self) -> str:
        """Why it ended; "" while it goes on."""
        return "" if self.finish_reason == _UNSPECIFIED else self.finish_reason or ""


class Chunk(msgspec.Struct, gc=False, rename="camel"):
    """The fields of a chunk, or of a whole JSON response, that capture reads."""

    candidates: list[Candidate] | None = None
    usage_metadata: Raw = NONE
    model_version: str | None = None
    response_id: str | None = None
    error: Raw = NONE

    @property
    def first(self) -> Candidate | None:
        """The candidate with index 0, or without an index; the others are not followed."""
        return next((one for one in self.candidates or () if not one.index), None)


# A lone surrogate is marked, because the other half may be in the next chunk.
read_chunk = LenientDecoder(Chunk, surrogates.marked).decode
# Estimated memory of a part without its JSON, in bytes.
_PART_BYTES = 64
# Stands for no reason, in gateways that write every member.
_UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"


def chunks_in(response: bytes) -> list[bytes]:
    """Return the chunks of a JSON response: without `alt=sse`, a stream is an array of them."""
    if response.lstrip()[:1] == b"[":
        return [bytes(raw) for raw in elements_of(response)]
    return [response]


def first_chunk(response: bytes) -> Chunk | None:
    """Return the first chunk of a JSON response, or of an event; None if it cannot be read."""
    return read_chunk(next(iter(chunks_in(response)), b""))


def read_usage(raw: Raw) -> Usage | None:
    """Return the token counts of a response; None if it has none."""
    said = members_of(raw)
    taken, written = count_in(said, "promptTokenCount"), count_in(said, "candidatesTokenCount")
    if taken is None and written is None:
        return None
    thought = count_in(said, "thoughtsTokenCount")
    return Usage(
        input_tokens=taken,
        cached_tokens=None if taken is None else count_in(said, "cachedContentTokenCount"),
        output_tokens=(written or 0) + (thought or 0),  # thoughts are counted apart
        reasoning_tokens=thought,
    )


class PartJoiner:
    """
    The parts of one candidate, in the order in which the chunks bring them.

    Attributes:
        size_bytes: Estimated memory, in bytes.
        count: Number of parts.
    """

    def __init__(self) -> None:
        """Start before the first chunk."""
        self.size_bytes = self.count = 0
        self._parts: list[bytes] = []

    def add(self, candidate: Candidate) -> None:
        """Add the parts of a chunk."""
        for raw in candidate.parts:
            part = bytes(raw)
            self._parts.append(part)
            self.count += 1
            self.size_bytes += len(part) + _PART_BYTES

    def joined(self) -> bytes:
        """Return the JSON of the content, as a request would hold it; surrogates are marked."""
        return b'{"role":"model","parts":%b}' % array_of(self._parts)
