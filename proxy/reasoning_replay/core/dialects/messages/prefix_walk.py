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
    is_of_prefix,
    normal,
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
    The edits that inject the reasoning of a turn into one message.

    Attributes:
        blocks_before: Number of blocks of the message before its last run of reasoning.
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
        due: Offsets of the messages in which the edits are due.
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
        groups: Its assistant messages.
        planned: Offset of a message -> the edits for it.

    Cost: each message is decoded and encoded once, and hashed up to three times.
    """
    spans = request.messages
    forms = [normal(request.body[start:end]) for start, end in spans]
    by_start = {group.message.start: group for group in groups}
    later = [by_start.get(start) for start, _ in spans]
    due: set[int] = set()
    prefix = start_of(request)
    for n, (start, end) in enumerate(spans):
        form = forms[n]
        made = planned.get(start)
        if made is not None and _fits(request, later[n], made, prefix):
            edits = (Edit(a - start, b - start, new) for a, b, new in made.edits)
            changed = normal(json_spans.apply(request.body[start:end], edits))
            rest = zip(forms[n + 1 :], later[n + 1 :], strict=True)
            if not made.is_bound or _was_seen(after(prefix, changed), after(prefix, form), rest):
                due.add(start)
                form = changed
        prefix = after(prefix, form)
    return PrefixWalk(due, prefix)


def _fits(
    request: MessagesRequest, group: MessageGroup | None, made: BoundEdits, prefix: bytes
) -> bool:
    """Return whether the history before a message's last run is the one that it is bound to."""
    if not made.is_bound:
        return True
    blocks = group.message.blocks[: made.blocks_before] if group is not None else []
    own = own_of(request.body[start:end] for start, end in blocks)
    return made.turn.binding == binding_of(prefix, own)


def _was_seen(
    given: bytes, lacking: bytes, rest: Iterable[tuple[bytes, MessageGroup | None]]
) -> bool:
    """
    Return whether upstream has seen a message with its reasoning, as far as later turns tell.

    Args:
        given: Digest of the history up to the message, with its reasoning.
        lacking: The same without its reasoning.
        rest: Normal form of each later message, and its group if it is an assistant's.
    """
    is_replayed = False
    for form, group in rest:
        if group is not None:
            turn = group.turn
            if turn is not None and is_of_prefix(turn.binding, given):
                return True
            if turn is not None and is_of_prefix(turn.binding, lacking):
                return False
            is_replayed = is_replayed or group.replayed > 0
        given, lacking = after(given, form), after(lacking, form)
    # Nothing tells. What the client sends itself must not be damaged.
    return not is_replayed
