"""
Message groups: the items of each assistant message of a request, with what they matched.

The API joins assistant messages that follow each other, so they are one group. Only if they are
whole turns, one after the other, they are a group each: messages, or a paused response and its
continuation in one message.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from reasoning_replay.core.dialects.anthropic.items import AssistantMessage, MessagesItem
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.turns import Turn

_TEXT_BLOCK = b'{"type":"text","text":%b}'


class Block(NamedTuple):
    """
    The byte range of a block.

    Attributes:
        is_content: Whether it is a string that is the whole content of its message.
    """

    start: int
    end: int
    is_content: bool = False

    def raw(self, body: bytes) -> bytes:
        """Return its JSON; a string is the block that it stands for."""
        value = body[self.start : self.end]
        return _TEXT_BLOCK % value if self.is_content else value


class MessageGroup(msgspec.Struct, gc=False):
    """
    The items of adjacent assistant messages, or of a part of them; mostly of one message.

    Attributes:
        first: Index of its first item in `MessagesRequest.places`.
        messages: Those messages that have items, in order.
        places: Indices of its items that are not reasoning, in ascending order.
        matches: The captured items of the places that are matched.
        theirs: The reasoning that the client sends.
        blocks: Its blocks, without the client's reasoning.
        skipped: Number of such blocks of its first message that are of the group before it.
    """

    first: int
    messages: list[AssistantMessage]
    places: list[int]
    matches: list[Match]
    theirs: list[MessagesItem]
    blocks: list[Block]
    skipped: int = 0

    @property
    def replayed(self) -> int:
        """Number of reasoning blocks that the client sends."""
        return len(self.theirs)

    @property
    def turns(self) -> dict[bytes, Turn]:
        """The turns that its items come from."""
        return {match.turn.id: match.turn for match in self.matches}

    @property
    def turn(self) -> Turn | None:
        """The turn that all its matched items come from; None without one."""
        turns = self.turns
        return next(iter(turns.values())) if len(turns) == 1 else None

    @property
    def has_whole_turn(self) -> bool:
        """Whether its items, reasoning aside, are those of one turn, all of them, in order."""
        if not self.matches:
            return False
        turn = self.matches[0].turn
        if not len(self.places) == len(self.matches) == len(turn.items):
            return False
        return all((at.turn.id, at.k) == (turn.id, k) for k, at in enumerate(self.matches))


def rows_of(request: MessagesRequest) -> Iterator[list[tuple[int, AssistantMessage]]]:
    """Yield each row of adjacent assistant messages: the index and the message of each item."""
    row: list[tuple[int, AssistantMessage]] = []
    for index, place in enumerate(request.places):
        message = place.item.message
        if message is not None:
            row.append((index, message))
        elif row:
            yield row
            row = []
    if row:
        yield row


def groups_of(request: MessagesRequest, matched: Matches) -> list[MessageGroup]:
    """Return the groups of the assistant messages that have items, in order."""
    groups: list[MessageGroup] = []
    for row in rows_of(request):
        parts = _parts_of(request, matched, row, may_split=True)
        if len(parts) > 1 and not all(part.has_whole_turn for part in parts):
            parts = _parts_of(request, matched, row, may_split=False)
        _add_blocks(parts, request)
        groups += parts
    return groups


def _parts_of(
    request: MessagesRequest,
    matched: Matches,
    row: Sequence[tuple[int, AssistantMessage]],
    *,
    may_split: bool,
) -> list[MessageGroup]:
    """Return the groups of a row of items, without their blocks; a whole turn may end one."""
    parts: list[MessageGroup] = []
    waiting: list[tuple[int, AssistantMessage]] = []  # reasoning that led to the next item
    for index, message in row:
        waiting.append((index, message))
        if request.places[index].item.role is Role.REASONING:
            continue
        match = matched.matches.get(index)
        if not parts or (may_split and match and _follows(parts[-1], match, message)):
            parts.append(_empty(waiting[0][0]))
        _add(parts[-1], waiting, request)
        parts[-1].places.append(index)
        if match is not None:
            parts[-1].matches.append(match)
        waiting = []
    if waiting:
        if not parts:
            parts.append(_empty(waiting[0][0]))
        _add(parts[-1], waiting, request)
    return parts


def _empty(first: int) -> MessageGroup:
    return MessageGroup(first, [], [], [], [], [])


def _add(
    group: MessageGroup, items: Sequence[tuple[int, AssistantMessage]], request: MessagesRequest
) -> None:
    """Add the messages of items, and the reasoning among them."""
    for index, message in items:
        if not group.messages or group.messages[-1] is not message:
            group.messages.append(message)
        item = request.places[index].item
        if item.role is Role.REASONING:
            group.theirs.append(item)


def _follows(before: MessageGroup, match: Match, message: AssistantMessage) -> bool:
    """
    Return whether an item begins another turn, after a whole one.

    Inside a message, only the continuation of a paused response does: its request ended with that
    response.
    """
    turn = match.turn
    if match.k or not before.has_whole_turn or turn.id == before.matches[0].turn.id:
        return False
    paused = before.matches[0].turn
    is_continued = turn.parent == paused.id and turn.context.depth == paused.context.depth
    return is_continued or message is not before.messages[-1]


def _add_blocks(parts: Sequence[MessageGroup], request: MessagesRequest) -> None:
    """Add to each group of a row its blocks."""
    starts = []
    last: AssistantMessage | None = None
    for part in parts:
        begins = part.messages[0]
        item = request.places[part.first].item
        starts.append(item.start if begins is last else begins.start)
        last = part.messages[-1]
    theirs = {item.start for part in parts for item in part.theirs}
    messages = {each.start: each for part in parts for each in part.messages}
    for message in messages.values():
        for block in _blocks_of(message):
            if block.start not in theirs:
                parts[bisect(starts, block.start) - 1].blocks.append(block)
    for before, part in pairwise(parts):
        begin = part.messages[0].start
        part.skipped = before.skipped if before.messages[0] is part.messages[0] else 0
        part.skipped += sum(block.start > begin for block in before.blocks)


def _blocks_of(message: AssistantMessage) -> list[Block]:
    if not message.blocks:
        return [Block(message.content_start, message.content_end, is_content=True)]
    return [Block(start, end) for start, end in message.blocks]
