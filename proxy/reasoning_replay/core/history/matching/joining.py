"""
Joining: conversations that turn out to be one.

A request whose lookup failed begins a conversation of its own. When a later lookup finds its turns
behind those of another, they become part of that one: only so many conversations are loaded for a
request, and what belongs together is to be kept, and deleted, together.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import structs

from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.turns import Turn

__all__ = ["NOT_JOINED", "Joined", "join"]


class Joined(NamedTuple):
    """
    What changes in a store when conversations are joined.

    Attributes:
        turns: As they are kept from now on: in the conversation that stays, with their parents.
        left: Conversations that all their turns have left.
    """

    turns: tuple[Turn, ...] = ()
    left: tuple[bytes, ...] = ()


NOT_JOINED = Joined()


def join(matched: Matches, turns: Sequence[Turn]) -> Joined:
    """
    Join the conversations that begin, without a parent, behind a turn of another one.

    Args:
        matched: Where the items of a request came from.
        turns: All that were found for it: conversations as a whole.
    """
    if isinstance(turns, IndexedTurns):  # they are one conversation
        return NOT_JOINED
    stays, before = b"", b""
    parents: dict[bytes, bytes] = {}
    left: dict[bytes, None] = {}
    for _, match in sorted(matched.matches.items()):
        turn = match.turn
        stays = stays or turn.conversation
        is_begun = not turn.parent and turn.context.is_known and turn.conversation != stays
        if before and is_begun and turn.id not in parents:
            parents[turn.id] = before
            left[turn.conversation] = None
        before = turn.id
    moved = [
        structs.replace(turn, conversation=stays, parent=parents.get(turn.id, turn.parent))
        for turn in turns
        if turn.conversation in left
    ]
    return Joined(tuple(moved), tuple(left)) if left else NOT_JOINED
