"""Matching: which captured turn each item of a request came from."""

from dataclasses import dataclass, field

from reasoning_replay.core.history.alignment import Alignment
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import RESPONSE, LookupResult
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.turns import Turn, turn_id

__all__ = ["Matches", "match_items", "parent_of"]


@dataclass(slots=True)
class Matches:
    """
    What became of a request's items.

    Attributes:
        matches: Index into `Request.places` -> where that item came from.
        ambiguous: Indices of items that more than one turn could have emitted.
    """

    matches: dict[int, Match] = field(default_factory=dict)
    ambiguous: set[int] = field(default_factory=set)

    def newest(self) -> Turn | None:
        """Return the turn that the end of the history came from; None when none was matched."""
        return self.matches[max(self.matches)].turn if self.matches else None


def match_items(request: RequestHistory[HistoryItem], looked_up: LookupResult) -> Matches:
    """
    Tell which captured turn each item of a request came from.

    Args:
        request: As read.
        looked_up: What a store holds for it; turns in any order.

    Returns:
        Each captured item at most once, and nothing where evidence contradicts itself.
    """
    if not looked_up.turns:
        crowded = looked_up.crowded
        return Matches(ambiguous=set(crowded - {RESPONSE})) if crowded else Matches()
    found = Alignment(request, looked_up)
    found.run()
    crowded = looked_up.crowded - found.matches.keys() - {RESPONSE}
    return Matches(found.matches, found.ambiguous | crowded)


def parent_of(
    request: RequestHistory[HistoryItem], matched: Matches, looked_up: LookupResult
) -> Turn | None:
    """Return the turn that a request goes on from: the one that it names, or its newest."""
    if previous := request.continues:
        this = turn_id(previous)
        return next((turn for turn in looked_up.turns if turn.id == this), None)
    return matched.newest()
