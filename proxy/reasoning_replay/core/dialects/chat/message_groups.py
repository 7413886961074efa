"""
Message groups: the assistant messages of a request, with the captured items that they hold.

A turn may be spread over many messages, and each of them asks about all: this is answered once.
"""

from functools import cached_property

import msgspec

from reasoning_replay.core.dialects.chat.items import CALL
from reasoning_replay.core.dialects.chat.members import ChatMessage
from reasoning_replay.core.dialects.chat.request import ChatRequest
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.turns import Turn


class MessageGroup(msgspec.Struct, gc=False):
    """
    The items of one assistant message.

    Attributes:
        places: Indices into `ChatRequest.places`, in ascending order.
        matches: The captured items of the places that are matched, by place.
        turns: The turns that they come from, by id.
    """

    message: ChatMessage
    places: list[int]
    matches: dict[int, Match]
    turns: dict[bytes, Turn]

    @property
    def is_in_order(self) -> bool:
        """Whether its matched items are in the order of their turn."""
        order = [match.k for match in self.matches.values()]
        return order == sorted(order)


def groups_of(request: ChatRequest, matched: Matches) -> list[MessageGroup]:
    """Return the assistant messages of a request that hold items, in order."""
    groups: list[MessageGroup] = []
    last: ChatMessage | None = None
    for index in request.anchors:
        message = request.places[index].item.message
        if message is not last:
            last = message
            groups.append(MessageGroup(message, [], {}, {}))
        group = groups[-1]
        group.places.append(index)
        if (match := matched.matches.get(index)) is not None:
            group.matches[index] = match
            group.turns[match.turn.id] = match.turn
    return groups


class TurnSpread:
    """
    One turn, and the messages that hold items of it.

    Attributes:
        groups: The messages, in order.
        is_certain: Whether all its calls are known by random ids; None: not asked yet.
    """

    def __init__(self, turn: Turn) -> None:
        """Start without messages."""
        self.turn = turn
        self.groups: list[MessageGroup] = []
        self.is_certain: bool | None = None

    @cached_property
    def is_mixed(self) -> bool:
        """Whether one of the messages also holds items of another turn."""
        return any(len(group.turns) > 1 for group in self.groups)

    @cached_property
    def is_replayed_later(self) -> bool:
        """Whether a message after the first one has reasoning of the client."""
        return any(group.message.replayed for group in self.groups[1:])

    @cached_property
    def calls(self) -> int:
        """Number of calls that the turn emitted."""
        return sum(item.type == CALL for item in self.turn.items)

    @cached_property
    def members(self) -> int:
        """Number of reasoning members that the turn emitted."""
        return sum(len(item.run) for item in self.turn.items)
