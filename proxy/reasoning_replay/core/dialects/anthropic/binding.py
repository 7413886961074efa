"""
Binding: digests of the history that reasoning is bound to.

The newest models bind each reasoning block to what is visible before it: `system`, `tools`, all
older messages, and the blocks before it in its own message. Each block also records the one before
it: reasoning may be missing from the start of a history, not from its middle (platform.claude.com,
prefix checks on thinking blocks).
Cache marks are no part of it, and a string is the same as one text block. Adjacent messages of one
role are joined, so a digest grows block by block. A message without content, which only sets the
effort, is no part of it; any other `system` message is, also one that is cleared later
(`clear_at`): the API demands that it stays.
The prefix of a response is the digest of the visible history, and that of the last reasoning block.
A binding is the prefix of its message. If a run of reasoning is inside the message, the digest of
the message's own blocks before that run follows.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from reasoning_replay.core.dialects.anthropic.items import REASONING
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.dialects.lenient import UNREADABLE
from reasoning_replay.core.wire.digest import DIGEST_BYTES, digest

_MARK = "cache_control"
# Only this member has text or blocks inside; those of others are data, which must not be changed.
_NESTED = "content"
# In place of the digest of a block: no reasoning comes before.
NO_BLOCK = bytes(DIGEST_BYTES)


class Binding(NamedTuple):
    """
    The parts of a binding.

    Attributes:
        history: Digest of the visible history before the message.
        last: Digest of the last reasoning block in it; NO_BLOCK without any.
        own: Digest of the message's own blocks before its last run; b"" without any.
    """

    history: bytes
    last: bytes
    own: bytes


def start_of(request: MessagesRequest) -> bytes:
    """Return the digest of what precedes the first message."""
    parts = (_encoded(request.raw(name), _blocks) for name in ("system", "tools"))
    return digest(b"history", *parts)


def after(prefix: bytes, blocks: Iterable[bytes]) -> bytes:
    """Return the digest of a history and the message after it, given as its `blocks_of`."""
    for block in blocks:
        prefix = digest(prefix, block)
    return prefix


def prefix_of(request: MessagesRequest) -> bytes:
    """Return the digests of a whole request: the prefix of its response."""
    history = start_of(request)
    for start, end in request.messages:
        history = after(history, blocks_of(request.body[start:end]))
    return history + last_of(place.item.blob for place in reversed(request.places))


def last_of(blobs: Iterable[bytes]) -> bytes:
    """Return the first of these digests of blocks, newest first, that is one."""
    return next(filter(None, blobs), NO_BLOCK)


def own_of(blocks: Iterable[bytes]) -> bytes:
    """Return the digest of the blocks of a message before its last run; b"" without any."""
    forms = [normal(block) for block in blocks]
    return digest(b"own", *forms) if forms else b""


def binding_of(prefix: bytes, own: bytes) -> bytes:
    """Return the binding of a turn; b"" if its prefix is unknown."""
    return prefix + own if prefix else b""


def read_binding(binding: bytes) -> Binding | None:
    """Return the parts of a binding; None if it is unknown."""
    if not binding:
        return None
    ends = DIGEST_BYTES, 2 * DIGEST_BYTES
    return Binding(binding[: ends[0]], binding[ends[0] : ends[1]], binding[ends[1] :])


def blocks_of(message: bytes) -> list[bytes]:
    """
    Return the normal form of each visible block of a message, with the message's other members.

    Reasoning is not visible.
    """
    try:
        form = _block(msgspec.json.decode(message))
        if isinstance(form, dict) and _NESTED not in form:
            return []
        if not isinstance(form, dict) or not isinstance(form.get(_NESTED), list):
            return [msgspec.json.encode(form)]
        blocks = [block for block in form[_NESTED] if not _is_reasoning(form, block)]
        return [msgspec.json.encode(form | {_NESTED: block}) for block in blocks]
    except UNREADABLE:
        return [message]


def normal(raw: bytes) -> bytes:
    """Return the normal form of a block."""
    return _encoded(raw, _block)


def _encoded(raw: bytes, form: Callable[[object], object]) -> bytes:
    """Return a form of a value as JSON; a value that cannot be read stays as it is."""
    try:
        return msgspec.json.encode(form(msgspec.json.decode(raw)))
    except UNREADABLE:
        return raw


def _block(value: object) -> object:
    """Return a block without its mark and its null members, which are sorted."""
    if not isinstance(value, dict):
        return value
    return {
        key: _blocks(inner) if key == _NESTED else inner
        for key, inner in sorted(value.items())
        if inner is not None and key != _MARK
    }


def _is_reasoning(message: dict[str, object], block: object) -> bool:
    kind = block.get("type") if isinstance(block, dict) else None
    return isinstance(kind, str) and kind in REASONING and message.get("role") == "assistant"


def _blocks(value: object) -> object:
    """Return the normal form of a text, or of a list of blocks or tools."""
    if isinstance(value, str):
        return [{"text": value, "type": "text"}]
    return [_block(each) for each in value] if isinstance(value, list) else _block(value)
