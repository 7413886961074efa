"""Message groups: the items of each assistant message of a request, with what they matched."""

import msgspec

from reasoning_replay.core.dialects.messages.items import AssistantMessage
from reasoning_replay.core.dialects.messages.request import MessagesRequest
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.turns import Turn

__all__ = ["MessageGroup", "groups_of"]


class MessageGroup(msgspec.Struct, gc=False):
    """
    The items of one assistant message.

    Attributes:
        first: Index of its first item in `MessagesRequest.places`.
        places: Indices of its items that are not reasoning, in ascending order.
        matches: The captured items of the places that are matched.
        replayed: Number of reasoning blocks that the client sends.
    """

    message: AssistantMessage
    first: int
    places: list[int]
    matches: list[Match]
    replayed: int = 0

    @property
    def turns(self) -> dict[bytes, Turn]:
        """The turns that its items come from."""
        return {match.turn.id: match.turn for match in self.matches}

    @property
    def turn(self) -> Turn | None:
        """The turn that all its matched items come from; None without one."""
        turns = self.turns
        return next(iter(turns.values())) if len(turns) == 1 else None


def groups_of(request: MessagesRequest, matched: Matches) -> list[MessageGroup]:
    """Return the assistant messages that have items, in order."""
    matches = matched.matches
    groups: list[MessageGroup] = []
    for index, place in enumerate(request.places):
        item = place.item
        if item.message is None:
            continue
        if not groups or groups[-1].message is not item.message:
            groups.append(MessageGroup(item.message, index, [], []))
        group = groups[-1]
        if item.role is Role.REASONING:
            group.replayed += 1
            continue
        group.places.append(index)
        if index in matches:
            group.matches.append(matches[index])
    return groups
