"""
Prefix walk: which messages may get reasoning that is bound to the history before it.

Reasoning is due in a message only if the history before the message, as it is sent, is the one
under which it was made. If so, the binding of the next known turn tells what upstream saw of that
message: with its reasoning, or without. It stays that way, or the reasoning of later turns would
become invalid.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.core.dialects.messages.binding import (
    after,
    binding_of,
    blocks_of,
    is_of_prefix,
    own_of,
    start_of,
)
from reasoning_replay.core.dialects.messages.message_groups import MessageGroup
from reasoning_replay.core.dialects.messages.request import MessagesRequest
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["BoundEdits", "PrefixWalk", "walk"]


class BoundEdits(NamedTuple):
    """
    The edits that inject the reasoning of a turn into its group of messages.

    Attributes:
        blocks_before: Number of blocks of the group before its last run of reasoning.
        is_bound: Whether the reasoning is bound to the history before it.
    """

    turn: Turn
    edits: Sequence[Edit]
    blocks_before: int
    is_bound: bool


class PrefixWalk(NamedTuple):
    """
    The result of a walk.

    Attributes:
        due: Offsets of the groups in which the edits are due.
        prefix: Digest of the request with those edits.
    """

    due: set[int]
    prefix: bytes


def walk(
    request: MessagesRequest, groups: Sequence[MessageGroup], planned: Mapping[int, BoundEdits]
) -> PrefixWalk:
    """
    Decide which of the planned edits are due.

    Args:
        request: Parsed request.
        groups: Its groups of assistant messages.
        planned: Offset of a group -> the edits for it.

    Cost: each message is decoded and encoded once, and hashed up to three times.
    """
    steps = _steps(request, groups)
    due: set[int] = set()
    prefix = start_of(request)
    for n, (group, spans, blocks) in enumerate(steps):
        made = planned.get(group.start) if group is not None else None
        if group is not None and made is not None and _fits(request, group, made, prefix):
            changed = _edited(request, spans, made.edits)
            given, lacking = after(prefix, changed), after(prefix, blocks)
            if not made.is_bound or _was_seen(given, lacking, steps[n + 1 :]):
                due.add(group.start)
                prefix = given
                continue
        prefix = after(prefix, blocks)
    return PrefixWalk(due, prefix)


class _Step(NamedTuple):
    """
    The messages of a group, or one other message.

    Attributes:
        spans: Byte range of each message.
        blocks: Normal form of their blocks.
    """

    group: MessageGroup | None
    spans: list[tuple[int, int]]
    blocks: list[bytes]


def _steps(request: MessagesRequest, groups: Sequence[MessageGroup]) -> list[_Step]:
    """Return the messages of a request, those of a group together."""
    by_start = {group.start: group for group in groups}
    steps: list[_Step] = []
    end = 0  # of the last step
    for span in request.messages:
        blocks = blocks_of(request.body[slice(*span)])
        if span[0] < end:
            steps[-1].spans.append(span)
            steps[-1].blocks.extend(blocks)
            continue
        group = by_start.get(span[0])
        end = group.messages[-1].end if group is not None else span[1]
        steps.append(_Step(group, [span], blocks))
    return steps


def _edited(
    request: MessagesRequest, spans: Iterable[tuple[int, int]], edits: Sequence[Edit]
) -> list[bytes]:
    """Return the normal form of the blocks of edited messages."""
    made: list[bytes] = []
    for start, end in spans:
        inside = (Edit(a - start, b - start, new) for a, b, new in edits if start <= a < end)
        made += blocks_of(json_spans.apply(request.body[start:end], inside))
    return made


def _fits(request: MessagesRequest, group: MessageGroup, made: BoundEdits, prefix: bytes) -> bool:
    """Return whether the history before a group's last run is the one that it is bound to."""
    if not made.is_bound:
        return True
    before = group.blocks[: made.blocks_before]
    own = own_of(block.raw(request.body) for block in before)
    return made.turn.binding == binding_of(prefix, own)


def _was_seen(given: bytes, lacking: bytes, rest: Iterable[_Step]) -> bool:
    """
    Return whether upstream has seen a group with its reasoning, as far as later turns tell.

    Args:
        given: Digest of the history up to the group, with its reasoning.
        lacking: The same without its reasoning.
        rest: The later messages.
    """
    is_replayed = False
    for group, _, blocks in rest:
        if group is not None:
            turn = group.turn
            if turn is not None and is_of_prefix(turn.binding, given):
                return True
            if turn is not None and is_of_prefix(turn.binding, lacking):
                return False
            is_replayed = is_replayed or group.replayed > 0
        given, lacking = after(given, blocks), after(lacking, blocks)
    # Nothing tells. What the client sends itself must not be damaged.
    return not is_replayed
