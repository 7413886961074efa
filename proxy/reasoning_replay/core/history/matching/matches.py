"""
Matching: which captured turn each item of a request came from, decided for the whole request.

The items that a model made between two messages of the other side are a block: they come from one
response, in its order. Blocks are given to turns in five passes. Each fixes what it finds, and a
later pass never decides against an earlier one:

1. following: what was decided about the older part of the request, as upstream has seen it;
2. names: an id or a `call_id` that was drawn at random gives a block to its turn;
3. ancestry: each turn knows its parent, and how much had been said before it, so the turns before
   a block that is fixed fall into their places;
4. sayings: what a block says, after the same history as its turn. Of all explanations the one that
   covers most of the history wins; those that differ and cover as much leave it ambiguous;
5. descent: the turn behind a fixed one, where only one of its children says what follows.

What is left open is missed or ambiguous; neither gets anything. Cost grows with the history, and
with the turns that say what it says, of which a bounded number is compared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import RESPONSE, LookupResult
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.following import follow, is_remembered, to_remember
from reasoning_replay.core.history.matching.lineage import give_to_ancestors, give_to_descendants
from reasoning_replay.core.history.matching.names import give_by_names
from reasoning_replay.core.history.matching.sayings import give_by_sayings
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Turn, turn_id

__all__ = ["Matches", "is_whole", "match_items", "parent_of"]

_NOTHING_SEEN = Seen(b"", 0, ())


@dataclass(slots=True)
class Matches:
    """
    What became of a request's items.

    Attributes:
        matches: Index into `Request.places` -> where that item came from.
        ambiguous: Indices of items that more than one turn could have emitted.
        seen: What the turn that answers remembers of this; None where names decide it.
    """

    matches: dict[int, Match] = field(default_factory=dict)
    ambiguous: set[int] = field(default_factory=set)
    seen: Seen | None = None

    def newest(self) -> Turn | None:
        """Return the turn that the end of the history came from; None when none was matched."""
        return self.matches[max(self.matches)].turn if self.matches else None


def match_items(
    request: RequestHistory[HistoryItem], looked_up: LookupResult, *, anew: bool = False
) -> Matches:
    """
    Tell which captured turn each item of a request came from.

    Args:
        request: As read. Where it names the response before it, upstream has all that led to that
            response, and only what came after it is matched.
        looked_up: What a store holds for it; turns in any order.
        anew: Whether what was decided about older items is decided anew: upstream refuses it.

    Returns:
        Each captured item at most once, and nothing where evidence contradicts itself.
    """
    if not looked_up.turns:
        crowded = looked_up.crowded
        seen = _NOTHING_SEEN if request.run and not request.is_stateful else None
        return Matches(ambiguous=set(crowded - {RESPONSE}), seen=seen)
    found = Alignment(request, looked_up)
    seen = None
    is_all = found.settle()
    if not is_all or (is_remembered(found) and not anew):
        found.begin()
        if not anew:
            follow(found)
        give_by_names(found)
        give_to_ancestors(found)
        give_by_sayings(found)
        give_to_descendants(found)
        seen = to_remember(found)
    if request.is_stateful:
        return Matches(_after(request.continues, found.matches, looked_up))
    crowded = looked_up.crowded - found.matches.keys() - {RESPONSE}
    return Matches(found.matches, found.ambiguous | crowded, seen)


def parent_of(
    request: RequestHistory[HistoryItem], matched: Matches, looked_up: LookupResult
) -> Turn | None:
    """Return the turn that a request goes on from: its newest, or else the one that it names."""
    newest = matched.newest()
    if newest is None and request.continues:
        named = turn_id(request.continues)
        return next((turn for turn in looked_up.turns if turn.id == named), None)
    return newest


def is_whole(
    request: RequestHistory[HistoryItem], matched: Matches, looked_up: LookupResult
) -> bool:
    """
    Tell whether nothing seems to be missing of what is known of a request's conversation.

    Everything behind the newest turn that was matched is the client's, and each turn of its line is
    there. Without the store, a local copy with gaps would have each replica inject another half.
    """
    newest = matched.newest()
    if newest is None:
        return False
    last = max(matched.matches)
    if any(place.item.role is Role.MODEL for place in request.places[last + 1 :]):
        return False
    turns = {turn.id: turn for turn in looked_up.turns}
    at: Turn | None = newest
    for _ in turns:
        if at is None or not at.parent:
            break
        at = turns.get(at.parent)
    return at is not None


def _after(
    response_id: str, matches: Mapping[int, Match], looked_up: LookupResult
) -> dict[int, Match]:
    """Return the matches whose turn goes on from a response, directly or by others."""
    if not response_id:
        return {}
    parents = {turn.id: turn.parent for turn in looked_up.turns}
    is_after = {turn_id(response_id): True}
    for turn in {match.turn.id for match in matches.values()} - is_after.keys():
        line: dict[bytes, None] = {}
        at = turn
        while at in parents and at not in is_after and at not in line:
            line[at] = None
            at = parents[at]
        is_after |= dict.fromkeys(line, is_after.get(at, False))
    is_after[turn_id(response_id)] = False  # upstream has the response itself
    return {n: match for n, match in matches.items() if is_after[match.turn.id]}
