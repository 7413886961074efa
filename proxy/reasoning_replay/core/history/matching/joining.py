"""
Joining: the merge of stored conversations that turn out to be one.

A request starts a new conversation if its lookup failed. A later lookup may find the turns of this
conversation after those of another; they are then moved there. This matters for two reasons: only a
few conversations are loaded for a request, and related turns must be kept and deleted together.
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
    Changes of a store that join conversations.

    Attributes:
        turns: The moved turns, with their new conversation and their parents.
        left: Conversations that have no turns any more.
    """

    turns: tuple[Turn, ...] = ()
    left: tuple[bytes, ...] = ()


NOT_JOINED = Joined()


def join(matched: Matches, turns: Sequence[Turn]) -> Joined:
    """
    Join each conversation that begins, without a parent, after a turn of another one.

    Args:
        matched: Matches of a request.
        turns: All turns that were found for it: complete conversations.
    """
    if isinstance(turns, IndexedTurns):  # always one conversation
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
