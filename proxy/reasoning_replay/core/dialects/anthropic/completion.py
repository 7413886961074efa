"""
Completion: whether captured reasoning completes what the client sends of a message.

The API takes the latest message with the reasoning that it emitted, all of it and unchanged. Some
clients keep a part of it, or damage it.

- A part: each block of the client is one that was emitted, at its place, and others are missing.
  What is missing is inserted; no byte of the client changes.
- A damaged copy, at an API that signs its blocks: one without a signature, or with another text
  than its signature is for; or, in a message that random ids prove, one with a piece of a signature
  or of a text. The API refuses it in any request, so what was emitted goes in its place.
- Anything else is the client's own: moved, foreign, without its text. What was emitted goes in its
  place only if that was refused.

This follows from the request and the turn alone, so every replica does the same, at each request.
"""

from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from reasoning_replay.core.dialects.anthropic.binding import normal
from reasoning_replay.core.dialects.anthropic.block_edits import DueBlock
from reasoning_replay.core.dialects.anthropic.items import MessagesItem, read_block
from reasoning_replay.core.dialects.anthropic.message_groups import MessageGroup
from reasoning_replay.core.dialects.lenient import LenientDecoder
from reasoning_replay.core.history.turns import Reasoning
from reasoning_replay.core.wire import json_spans


def kept_of(
    group: MessageGroup,
    due: Sequence[DueBlock],
    *,
    signs: bool,
    is_proven: bool,
    is_refused: bool,
) -> Mapping[int, MessagesItem] | None:
    """
    Return which of the blocks that are due the client sends, by their index in `due`.

    Args:
        group: A group in which the client sends reasoning.
        due: All reasoning of its turn, in order.
        signs: Whether upstream signs its blocks.
        is_proven: Whether random ids prove the turn.
        is_refused: Whether upstream has refused what the client makes of reasoning.

    Returns:
        None: nothing is missing, or nothing may be changed. An empty mapping: what the client sends
        is replaced.
    """
    starts = [block.start for block in group.blocks]
    kept: dict[int, MessagesItem] = {}
    left = iter(group.theirs)
    own = next(left, None)
    for n, (_, number, part) in enumerate(due):
        if own and bisect(starts, own.start) == number and _is_same(own, part):
            kept[n] = own
            own = next(left, None)
    if own is None:
        return kept if len(kept) < len(due) else None
    if not due or not (is_refused or signs):
        return None
    emitted = [_words(read_block(block.part.raw)) for block in due]
    is_copy = is_proven and len(group.theirs) <= len(due)  # which also bounds the cost
    if is_refused or any(
        _is_damaged(_words(item), emitted, is_copy=is_copy) for item in group.theirs
    ):
        return {}
    return None


def _is_same(own: MessagesItem, part: Reasoning) -> bool:
    return own.raw == part.raw or normal(own.raw) == normal(part.raw)


class _Words(NamedTuple):
    """What a block says: its type, its text, and its signature or its redacted data."""

    kind: str
    text: str
    blob: str


def _is_damaged(sent: _Words, emitted: Sequence[_Words], *, is_copy: bool) -> bool:
    """
    Return whether a block has no signature that fits it.

    `is_copy` says whether one that shares anything with what was emitted is a copy of that.
    """
    if not sent.blob:
        return True
    for one in emitted:
        if sent.blob == one.blob:  # without its text, it may be accepted
            return sent.kind != one.kind or bool(sent.text and one.text and sent.text != one.text)
    return is_copy and any(
        _share(sent.blob, one.blob) or _share(sent.text, one.text) for one in emitted
    )


def _share(one: str, other: str) -> bool:
    """Return whether one text is in the other."""
    return bool(one and other) and (one in other or other in one)


class _Thought(msgspec.Struct):
    """The member of a block that its item does not have."""

    thinking: str | None = None


_THOUGHT = LenientDecoder(_Thought)


def _words(item: MessagesItem) -> _Words:
    thought = _THOUGHT.decode(item.raw) or _Thought()
    return _Words(item.type, thought.thinking or "", json_spans.text(item.value) or "")
