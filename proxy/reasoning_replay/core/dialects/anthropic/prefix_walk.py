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
        due: Offsets of the groups in which the edits are due.
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

    They are by the offset of their group; `began` precedes the messages of a view.

    Cost: each message is decoded, encoded and hashed once.
    """
    histories: dict[int, bytes] = {}
    history = began.history if began is not None else start_of(request)
    for start, end in request.messages:
        histories[start] = history
        history = after(history, blocks_of(request.body[start:end]))
    links = [
        _link(request, group, planned.get(group.start), histories[group.start]) for group in groups
    ]
    due = set(_due(links))
    there = [link.last for link in reversed(links) if link.is_theirs or link.start in due]
    older = [began.last] if began is not None else []
    return PrefixWalk(due, history + last_of([*there, *older]))


class _Link(NamedTuple):
    """
    The reasoning of one group, as a part of the chain.

    Attributes:
        before: Digest of the block that its first one, or its response, was made after; None: not
            known.
        last: Digest of its last block; NO_BLOCK if it gets none, and the client sends none.
        may_go: Whether it has edits that fit the visible history.
        is_bound: Whether the reasoning that may go is bound.
        is_theirs: Whether the client sends it, and it stays.
    """

    start: int
    before: bytes | None
    last: bytes = NO_BLOCK
    may_go: bool = False
    is_bound: bool = True
    is_theirs: bool = False


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
    link = _Link(group.start, bound.last if bound is not None else None)
    if made is not None:
        own = own_of(block.raw(request.body) for block in group.blocks[: made.blocks_before])
        if not made.is_bound or (bound is not None and bound.own == own):
            return link._replace(last=made.last, may_go=True, is_bound=made.is_bound)
    if not group.theirs:
        return link
    theirs = [item.blob for item in group.theirs]
    items = turn.items if turn is not None else ()
    is_whole = theirs == [part.blobs[0] for item in items for part in item.run]
    before = link.before if is_whole else None
    return link._replace(before=before, last=theirs[-1], is_theirs=True)


def _due(links: Sequence[_Link]) -> Iterator[int]:
    """
    Yield the offsets of the groups whose edits are due, newest first.

    A response that was made without any reasoning, after a failed lookup, begins a run of its own.
    The longest of these runs is due; what was made after it keeps it the longest.
    """
    wanted: bytes | None = None  # the block that must come next; None: there is no newer one
    runs: list[list[int]] = [[]]  # due, unless an older block of the client is not the one wanted
    is_free = True  # whether the client sends no newer block
    for link in reversed(links):
        if link.may_go and not link.is_bound:
            yield link.start
        elif link.may_go and wanted in (None, link.last):
            runs[-1].append(link.start)
        elif link.may_go and wanted == NO_BLOCK and is_free:
            runs.append([link.start])
        elif link.is_theirs:
            if wanted in (None, link.last):
                yield from runs[-1]
            runs, is_free = [[]], False
        else:
            continue
        wanted = _UNKNOWN if link.before is None else link.before
    yield from max(runs, key=len)
