"""Emitted items: what is kept of an output item, in the form that may be injected later."""

import contextlib
from collections.abc import Iterable

from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.turns import Emitted, Reasoning
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.json_spans import Unspliceable, without

__all__ = ["blob_digest", "emitted_of", "is_open", "reasoning_of"]

# An item of more bytes (a generated image, a long file) is known by its digest alone.
RAW_MAX_BYTES = 32 * 1024

# Output-only: refused on input by some upstream (Azure: `status`; OpenAI SDKs strip `created_by`).
_OUTPUT_ONLY = ("status", "created_by")


def reasoning_of(item: ResponsesItem) -> Reasoning | None:
    """Return a reasoning item in the form that may be injected; None when its bytes cannot."""
    try:
        raw = _cut(item.raw, _OUTPUT_ONLY)
    except Unspliceable:
        return None
    blob = blob_digest(item)
    return Reasoning(item.id, raw, (blob,) if blob else (), bool(blob))


def emitted_of(item: ResponsesItem) -> Emitted:
    """Return what is kept of an item that is not reasoning."""
    raw = b""
    if len(item.raw) <= RAW_MAX_BYTES:
        with contextlib.suppress(Unspliceable):
            raw = _cut(item.raw, ("created_by",))
    return Emitted(item.type, item.id, item.call_id, item.name, item.content, raw=raw)


def _cut(raw: bytes, keys: Iterable[str]) -> bytes:
    """Return an item less some members; one that is no UTF-8 would spoil the request it is in."""
    if not raw.isascii():
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            raise Unspliceable(str(error)) from error
    return without(raw, keys)


def blob_digest(item: ResponsesItem) -> bytes:
    """Return the digest by which an `encrypted_content` is remembered; b"" when there is none."""
    blob = item.blob
    return digest(b"blob", blob.encode("utf-8", "surrogatepass")) if blob else b""


def is_open(part: Reasoning) -> bool:
    """Tell whether the text of reasoning is in the open: it is bound to nothing, and no pair."""
    return b'"reasoning_text"' in part.raw
