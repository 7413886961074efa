"""
Prefix walk: which messages may get reasoning that is bound to the history before it.

Reasoning fits its message if the visible history before it is the one under which it was made. Of
what fits, the newest contiguous run is due: each block records the one before it, so it goes back
only if that one is there, or if no older one is there at all. That also keeps what upstream saw: a
block that it did not see before another one is not the one that this records.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.core.dialects.anthropic.binding import (
    NO_BLOCK,
    Binding,
    after,
    blocks_of,
    last_of,
    own_of,
    read_binding,
    start_of,
)
from reasoning_replay.core.dialects.anthropic.message_groups import MessageGroup
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire.json_spans import Edit

_UNKNOWN = b""  # no block has this digest


class BoundEdits(NamedTuple):
    """
    The edits that inject the reasoning of a turn into its group of messages.

    Attributes:
        blocks_before: Number of blocks of the group before its last run of reasoning.
        last: Digest of its last block of reasoning.
        is_bound: Whether the reasoning is bound to the history before it.
    """

    turn: Turn
    edits: Sequence[Edit]
    blocks_before: int
    last: bytes
    is_bound: bool


class PrefixWalk(NamedTuple):
    """
    The result of a walk.

    Attributes:
        due: The groups in which the edits are due, by `MessageGroup.first`.
        prefix: Digests of the request with those edits, as `binding.prefix_of`.
    """

    due: set[int]
    prefix: bytes


def walk(
    request: MessagesRequest,
    groups: Sequence[MessageGroup],
    planned: Mapping[int, BoundEdits],
    began: Binding | None = None,
) -> PrefixWalk:
    """
    Decide which of the planned edits are due.

    They are by `MessageGroup.first`; `began` precedes the messages of a view.

    Cost: each message is decoded, encoded and hashed once; twice if it has several groups.
    """
    histories: dict[int, bytes] = {}
    history = began.history if began is not None else start_of(request)
    for start, end in request.messages:
        histories[start] = history
        history = after(history, blocks_of(request.body[start:end]))
    links = []
    for group in groups:
        message = group.messages[0]
        before = histories[message.start]
        if group.skipped:
            blocks = blocks_of(request.body[message.start : message.end])
            before = after(before, blocks[: group.skipped])
        links.append(_link(request, group, planned.get(group.first), before))
    due = set(_due(links))
    there = [link.last if link.first in due else link.theirs for link in reversed(links)]
    older = [began.last] if began is not None else []
    return PrefixWalk(due, history + last_of([*there, *older]))


class _Link(NamedTuple):
    """
    The reasoning of one group, as a part of the chain.

    Attributes:
        before: Digest of the block that its first one, or its response, was made after; None: not
            known.
        last: Digest of the last block of its turn, if that may go: if it fits the visible history.
        is_bound: Whether the reasoning that may go is bound.
        theirs: Digest of the last block that the client sends; b"" without one.
        is_whole: Whether the client sends all of the turn's.
    """

    first: int
    before: bytes | None
    last: bytes = b""
    is_bound: bool = True
    theirs: bytes = b""
    is_whole: bool = False


def _link(
    request: MessagesRequest,
    group: MessageGroup,
    made: BoundEdits | None,
    history: bytes,
) -> _Link:
    turn = group.turn
    bound = read_binding(turn.binding) if turn is not None else None
    if bound is not None and bound.history != history:
        bound = None
    link = _Link(group.first, bound.last if bound is not None else None)
    if group.theirs:
        theirs = [item.blob for item in group.theirs]
        items = turn.items if turn is not None else ()
        is_whole = theirs == [part.blobs[0] for item in items for part in item.run]
        link = link._replace(theirs=theirs[-1], is_whole=is_whole)
    if made is not None:
        own = own_of(block.raw(request.body) for block in group.blocks[: made.blocks_before])
        if not made.is_bound or (bound is not None and bound.own == own):
            return link._replace(last=made.last, is_bound=made.is_bound)
    return link


def _due(links: Sequence[_Link]) -> Iterator[int]:
    """
    Yield the groups whose edits are due, newest first.

    A response that was made without any reasoning, after a failed lookup, begins a run of its own.
    The longest of these runs is due; what was made after it keeps it the longest. Reasoning that
    the client sends is there in any case, so only what fits it is due; so is what completes it.
    """
    wanted: bytes | None = None  # the block that must come next; None: there is no newer one
    runs: list[list[int]] = [[]]  # due, unless an older block of the client is not the one wanted
    is_free = True  # whether the client sends no newer block
    for link in reversed(links):
        before = link.before
        if link.last and not link.is_bound:
            yield link.first
        elif link.theirs:
            completes = link.last and wanted in (None, link.last)
            if completes:
                runs[-1].append(link.first)
            if completes or wanted in (None, link.theirs):
                yield from runs[-1]
            runs, is_free = [[]], False
            before = before if completes or link.is_whole else None
        elif link.last and wanted in (None, link.last):
            runs[-1].append(link.first)
        elif link.last and wanted == NO_BLOCK and is_free:
            runs.append([link.first])
        else:
            continue
        wanted = _UNKNOWN if before is None else before
    yield from max(runs, key=len)
