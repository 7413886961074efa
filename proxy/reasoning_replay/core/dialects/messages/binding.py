"""
Binding: digests of the history that reasoning is bound to.

The newest models bind each reasoning block to everything before it: `system`, `tools`, all older
messages, and the blocks before it in its own message (platform.claude.com, preserved thinking).
Cache marks are no part of it, and a string is the same as one text block. Adjacent messages of one
role are joined, so a digest grows block by block. A message without content, which only sets the
effort, is no part of it either; any other `system` message is, also one that is cleared later
(`clear_at`): the API demands that it stays.
A binding is the digest of the prefix of its message. If a run of reasoning is inside the message,
the digest of the message's own blocks before that run follows.
"""

from collections.abc import Iterable

import msgspec

from reasoning_replay.core.dialects.messages.request import MessagesRequest
from reasoning_replay.core.wire.digest import DIGEST_BYTES, digest

__all__ = [
    "after",
    "binding_of",
    "blocks_of",
    "is_of_prefix",
    "normal",
    "own_of",
    "prefix_of",
    "start_of",
]

_MARK = "cache_control"
_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, UnicodeEncodeError)
# Only this member has text or blocks inside; those of others are data, which must not be changed.
_NESTED = "content"


def start_of(request: MessagesRequest) -> bytes:
    """Return the digest of what precedes the first message."""
    parts = (_normal_list(request.raw(name)) for name in ("system", "tools"))
    return digest(b"prefix", *parts)


def after(prefix: bytes, blocks: Iterable[bytes]) -> bytes:
    """Return the digest of a prefix and the message after it, given as its `blocks_of`."""
    for block in blocks:
        prefix = digest(prefix, block)
    return prefix


def prefix_of(request: MessagesRequest) -> bytes:
    """Return the digest of a whole request: the prefix of its response."""
    prefix = start_of(request)
    for start, end in request.messages:
        prefix = after(prefix, blocks_of(request.body[start:end]))
    return prefix


def own_of(blocks: Iterable[bytes]) -> bytes:
    """Return the digest of the blocks of a message before its last run; b"" without any."""
    forms = [normal(block) for block in blocks]
    return digest(b"own", *forms) if forms else b""


def binding_of(prefix: bytes, own: bytes) -> bytes:
    """Return the binding of a turn; b"" if its prefix is unknown."""
    return prefix + own if prefix else b""


def is_of_prefix(binding: bytes, prefix: bytes) -> bool:
    """Return whether a binding has this prefix, whatever its own blocks are."""
    return binding[:DIGEST_BYTES] == prefix


def blocks_of(message: bytes) -> list[bytes]:
    """Return the normal form of each block of a message, with the other members of the message."""
    try:
        form = _block(msgspec.json.decode(message))
        if isinstance(form, dict) and _NESTED not in form:
            return []
        if not isinstance(form, dict) or not isinstance(form.get(_NESTED), list):
            return [msgspec.json.encode(form)]
        return [msgspec.json.encode(form | {_NESTED: block}) for block in form[_NESTED]]
    except _ERRORS:
        return [message]


def normal(raw: bytes) -> bytes:
    """Return the normal form of a block."""
    try:
        return msgspec.json.encode(_block(msgspec.json.decode(raw)))
    except _ERRORS:
        return raw


def _normal_list(raw: bytes) -> bytes:
    """Return the normal form of a text, or of a list of blocks or tools."""
    try:
        return msgspec.json.encode(_blocks(msgspec.json.decode(raw)))
    except _ERRORS:
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


def _blocks(value: object) -> object:
    if isinstance(value, str):
        return [{"text": value, "type": "text"}]
    return [_block(each) for each in value] if isinstance(value, list) else _block(value)
