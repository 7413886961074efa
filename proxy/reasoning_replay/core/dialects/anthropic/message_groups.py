"""
Message groups: the items of each assistant message of a request, with what they matched.

The API joins assistant messages that follow each other, so they are one group. Only if each of them
holds a whole turn, a paused response and its continuation, they are a group each.
"""

from collections.abc import Iterator
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
    The items of adjacent assistant messages; mostly of one.

    Attributes:
        messages: Those messages that have items, in order.
        first: Index of its first item in `MessagesRequest.places`.
        places: Indices of its items that are not reasoning, in ascending order.
        matches: The captured items of the places that are matched.
        theirs: The reasoning that the client sends.
    """

    messages: list[AssistantMessage]
    first: int
    places: list[int]
    matches: list[Match]
    theirs: list[MessagesItem]

    @property
    def start(self) -> int:
        """Offset of its first message."""
        return self.messages[0].start

    @property
    def blocks(self) -> list[Block]:
        """The blocks of all its messages, without the client's reasoning."""
        theirs = {item.start for item in self.theirs}
        all_ = (block for message in self.messages for block in _blocks_of(message))
        return [block for block in all_ if block.start not in theirs]

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
    def is_whole(self) -> bool:
        """Whether its items are those of one turn without its reasoning, all of them, in order."""
        return not self.theirs and self.has_whole_turn

    @property
    def has_whole_turn(self) -> bool:
        """Whether its items, reasoning aside, are those of one turn, all of them, in order."""
        if not self.matches:
            return False
        turn = self.matches[0].turn
        if not len(self.places) == len(self.matches) == len(turn.items):
            return False
        return all((at.turn.id, at.k) == (turn.id, k) for k, at in enumerate(self.matches))

    def join(self, later: "MessageGroup") -> None:
        """Add the messages of a later group."""
        self.messages += later.messages
        self.places += later.places
        self.matches += later.matches
        self.theirs += later.theirs


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
        each: list[MessageGroup] = []
        for index, message in row:
            if not each or each[-1].messages[0] is not message:
                each.append(MessageGroup([message], index, [], [], []))
            item = request.places[index].item
            if item.role is Role.REASONING:
                each[-1].theirs.append(item)
                continue
            each[-1].places.append(index)
            if index in matched.matches:
                each[-1].matches.append(matched.matches[index])
        groups += _joined(each)
    return groups


def _joined(row: list[MessageGroup]) -> list[MessageGroup]:
    """Join the messages of a row: those of each turn if all are whole, else all of them."""
    parts = row[:1]
    for group in row[1:]:
        if parts[-1].is_whole:
            parts.append(group)
        else:
            parts[-1].join(group)
    if not all(part.is_whole for part in parts):
        for part in parts[1:]:
            parts[0].join(part)
        del parts[1:]
    return parts


def _blocks_of(message: AssistantMessage) -> list[Block]:
    if not message.blocks:
        return [Block(message.content_start, message.content_end, is_content=True)]
    return [Block(start, end) for start, end in message.blocks]
