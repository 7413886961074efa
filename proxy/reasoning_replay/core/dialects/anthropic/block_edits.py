"""
Block edits: how the reasoning of a turn is written into the messages of its group.

Each block goes directly before the block that it led to; a run that nothing follows, to the end.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.core.dialects.anthropic.items import MessagesItem
from reasoning_replay.core.dialects.anthropic.message_groups import Block, MessageGroup
from reasoning_replay.core.history.turns import Reasoning
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import COMMA, Edit, inserted

_TEXT = b'{"type":"text","text":'


class DueBlock(NamedTuple):
    """
    A block of reasoning, and where it is due.

    Attributes:
        place: Index into `MessagesRequest.places` of the item that it goes with.
        number: Number of blocks of the group before it.
    """

    place: int
    number: int
    part: Reasoning


def edits_of(
    group: MessageGroup, due: Sequence[DueBlock], kept: Mapping[int, MessagesItem]
) -> list[Edit] | None:
    """
    Return the edits that give a group all the blocks that are due.

    Args:
        group: The group.
        due: All reasoning of its turn, in order.
        kept: Those that the client sends, by their index in `due`. If it is empty, whatever
            reasoning the client sends is taken out.

    Returns:
        The edits, which do not overlap; None if a message would be left without any block.
    """
    edits, emptied = ([], {}) if kept else _without_theirs(group)
    blocks = group.blocks
    next_of: dict[int, int] = {}  # number -> offset of the next block of the client there
    runs: dict[int, list[bytes]] = {}
    end = blocks[-1].end
    at_end: list[bytes] = []
    for n, (_, number, part) in reversed([*enumerate(due)]):
        own = kept.get(n)
        if own is not None:
            next_of[number] = own.start
            end = max(end, own.end)
        elif number in next_of or number < len(blocks):
            at = next_of[number] if number in next_of else blocks[number].start
            runs.setdefault(at, []).insert(0, part.raw)
        else:
            at_end.insert(0, part.raw)
    for block in (each for each in blocks if each.is_content):
        before, after = runs.pop(block.start, []), [] if block is not blocks[-1] else at_end
        if before or after:
            edits.append(Edit(block.start, block.start, b"[" + COMMA.join([*before, _TEXT])))
            edits.append(Edit(block.end, block.end, COMMA.join([b"}", *after]) + b"]"))
    for at, run in runs.items():
        if at in emptied:
            edits.append(Edit(*emptied.pop(at), COMMA.join(run)))
        else:
            edits += [edit for raw in run for edit in inserted(at, raw)]
    if at_end and not blocks[-1].is_content:
        edits += [Edit(end, end, COMMA + raw) for raw in at_end]
    return edits if not emptied else None


def _without_theirs(group: MessageGroup) -> tuple[list[Edit], dict[int, tuple[int, int]]]:
    """
    Return the edits that take the client's reasoning out of a group.

    A message that has nothing else is not emptied. The second result has the range of its blocks,
    by the offset of the block after it.
    """
    edits: list[Edit] = []
    emptied: dict[int, tuple[int, int]] = {}
    others: list[Block] = group.blocks
    for message in group.messages:
        gone = {item.number for item in group.theirs if item.message is message}
        if gone and len(gone) == len(message.blocks):
            after = next((block.start for block in others if block.start > message.start), -1)
            emptied[after] = message.blocks[0][0], message.blocks[-1][1]
        elif gone:
            edits += json_spans.removals(message.blocks, gone)
    return edits, emptied
