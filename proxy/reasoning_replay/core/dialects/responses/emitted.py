"""Emitted items: the stored form of output items, in which they may be injected later."""

import contextlib
import sys
from collections.abc import Iterable

import msgspec

from reasoning_replay.core.dialects.captures import ITEM_BYTES, size_of
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import Unspliceable, members, without

# Largest item that is stored with its JSON, in bytes; larger ones (a generated image, a long file)
# are stored as digests.
RAW_MAX_BYTES = 32 * 1024

# The member of a message that tells a preamble from a final answer. OpenAI asks for it back.
PHASE = b'"phase"'

# Output-only fields, which some upstreams refuse on input (Azure: `status`; OpenAI SDKs strip
# `created_by`).
_OUTPUT_ONLY = ("status", "created_by")


def reasoning_of(item: ResponsesItem) -> Reasoning | None:
    """Return a reasoning item in its injectable form; None if its JSON cannot be cut safely."""
    try:
        raw = _cut(item.raw, _OUTPUT_ONLY)
    except Unspliceable:
        return None
    blob = blob_digest(item)
    return Reasoning(item.id, raw, (blob,) if blob else (), bool(blob))


def emitted_of(item: ResponsesItem) -> Emitted:
    """Return the stored form of an item that is not reasoning."""
    raw = b""
    if len(item.raw) <= RAW_MAX_BYTES:
        with contextlib.suppress(Unspliceable):
            raw = _cut(item.raw, ("created_by",))
    names = item.type, item.id, item.call_id, item.name
    return Emitted(*names, item.content, raw=raw, spelling=item.spelling)


def has_phase(raw: bytes) -> bool:
    """Return whether a message has a `phase`, or cannot be read; its key may be escaped."""
    if PHASE in raw or b"\\u" not in raw:
        return PHASE in raw
    try:
        return "phase" in members(raw)
    except Unspliceable:
        return True


def phase_of(item: Emitted) -> bytes:
    """Return the JSON string with which a message was emitted as `phase`; b"" if there is none."""
    if item.type != "message" or PHASE not in item.raw:
        return b""
    found = members(item.raw).get("phase")  # `_cut` has read them before
    value = item.raw[found.start : found.end] if found is not None else b""
    return value if value.startswith(b'"') else b""


def _cut(raw: bytes, keys: Iterable[str]) -> bytes:
    """Return an item without some members; raise for invalid UTF-8, which would break a request."""
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise Unspliceable(str(error)) from error
    return without(raw, keys)


def blob_digest(item: ResponsesItem) -> bytes:
    """Return the digest that identifies an `encrypted_content`; b"" if the item has none."""
    blob = item.blob
    return digest(b"blob", utf8(blob)) if blob else b""


def is_open(part: Reasoning) -> bool:
    """Return whether reasoning is plain text: not encrypted, and not part of a checked pair."""
    return b'"reasoning_text"' in part.raw


class CapturedItem(msgspec.Struct, frozen=True, gc=False):
    """
    The stored part of one output item. Its other bytes are freed at once: an image can be large.

    Attributes:
        reasoning: None if the item is not reasoning, or cannot be injected.
        emitted: None if the item is reasoning.
    """

    id: str
    reasoning: Reasoning | None = None
    emitted: Emitted | None = None
    is_finished: bool = True

    @property
    def size_bytes(self) -> int:
        """Estimated memory, with that of all texts."""
        size = size_of(self.emitted) if self.emitted is not None else ITEM_BYTES
        size += len(self.reasoning.raw) if self.reasoning is not None else 0
        return size + sys.getsizeof(self.id)


def captured(item: ResponsesItem) -> CapturedItem:
    """Return the stored part of an item."""
    if item.role is Role.REASONING:
        return CapturedItem(item.id, reasoning=reasoning_of(item))
    return CapturedItem(item.id, emitted=emitted_of(item), is_finished=item.is_finished)
