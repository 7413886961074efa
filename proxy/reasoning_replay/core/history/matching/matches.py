"""
Matching: the search for the captured turn of each item, for the whole request at once.

Five passes assign blocks to turns: `remembered`, `by_id`, `ancestry` for the ancestors,
`by_content`, and `ancestry` for the descendants. An assignment is final: a later pass never changes
it. docs/internals/matching.md explains them.

Items that no pass assigns are missed or ambiguous; nothing is injected for them. Cost grows with
the history and with the number of turns that have the same content; the latter is bounded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from reasoning_replay.core.history.decided import NOTHING, Decided, Reopened
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import RESPONSE, LookupResult
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.ancestry import assign_ancestors, assign_descendants
from reasoning_replay.core.history.matching.by_content import assign_by_content
from reasoning_replay.core.history.matching.by_id import assign_by_id, match_names
from reasoning_replay.core.history.matching.remembered import (
    is_remembered,
    repeat_decisions,
    to_remember,
)
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.turns import Context, Turn, turn_id

_NOTHING_SEEN = Seen(b"", 0, ())


@dataclass(slots=True)
class Matches:
    """
    The result of matching for the items of a request.

    Attributes:
        matches: Index into `RequestHistory.places` -> the captured item. What is decided has none.
        ambiguous: Indices of items that more than one turn could have emitted.
        seen: Decisions that the next turn records; None if ids alone decide, or if the client does
            not only append.
        is_certain: Whether ids alone decided, or there was nothing to match.
        found: The turns that were found, matched or not.
        chosen: Indices of items for which one of equal turns was taken after a refusal.
        decided: What was decided already.
    """

    matches: dict[int, Match] = field(default_factory=dict)
    ambiguous: set[int] = field(default_factory=set)
    seen: Seen | None = None
    is_certain: bool = False
    found: Sequence[Turn] = ()
    chosen: set[int] = field(default_factory=set)
    decided: Decided = NOTHING

    def newest(self) -> Turn | None:
        """Return the turn of the last matched item; None without a match."""
        return self.matches[max(self.matches)].turn if self.matches else self.decided.newest

    def turns(self) -> dict[bytes, Turn]:
        """Return the turns of the matched items by their id."""
        return {match.turn.id: match.turn for match in self.matches.values()}

    def decided_to(self, end: Decided) -> Decided | None:
        """Return the decisions up to the end of the request; None: they must be made again."""
        if self.seen is None and not self.is_certain:
            return None  # the client does not only append
        turns = b"".join([self.decided.turns, *self.turns()])
        return structs.replace(end, turns=turns, newest=self.newest(), seen=self.seen)


def match_items(request: RequestHistory[HistoryItem], looked_up: LookupResult) -> Matches:
    """
    Match each item of a request with the captured item that it came from.

    Args:
        request: The parsed request; what it gives as decided is not matched again. If it names the
            previous response, upstream has the history up to that response, and only later turns
            are matched.
        looked_up: Result of the lookup; turns in any order.

    Returns:
        The matches. Each captured item occurs at most once; contradictory evidence is no match.

    Raises:
        Reopened: What is decided cannot stay: the request must be matched as a whole.
    """
    return _matched(request, looked_up, is_refused=False)


def match_refused(request: RequestHistory[HistoryItem], looked_up: LookupResult) -> Matches:
    """
    Do the same for a request that upstream refused.

    Earlier decisions about older items are ignored; and of turns with the same items after the same
    history, the oldest is taken.
    """
    return _matched(request, looked_up, is_refused=True)


def _matched(
    request: RequestHistory[HistoryItem], looked_up: LookupResult, *, is_refused: bool
) -> Matches:
    decided = request.decided
    if decided.items and not request.places:
        return Matches(seen=decided.seen, is_certain=decided.seen is None, decided=decided)
    if not looked_up.turns:
        unclear = set(looked_up.crowded - {RESPONSE})
        seen = _NOTHING_SEEN if request.run and not request.is_stateful else decided.seen
        return Matches(
            {}, unclear, seen, is_certain=seen is None and not request.run, decided=decided
        )
    found = Alignment(request, looked_up, is_refused=is_refused)
    seen = None
    is_certain = match_names(found) and (is_refused or not is_remembered(found))
    if not is_certain:
        if decided.items and decided.seen is None:
            raise Reopened  # ids decided what is older; the rest must be seen together with it
        found.begin()
        basis = None if is_refused else repeat_decisions(found)
        assign_by_id(found)
        assign_ancestors(found)
        assign_by_content(found)
        assign_descendants(found)
        seen = to_remember(found, basis)
    if request.is_stateful:
        later = _after(request.continues, found.matches, found.index.children)
        return Matches(later, decided=decided)
    crowded = looked_up.crowded - found.matches.keys() - {RESPONSE}
    ambiguous = found.ambiguous | crowded
    turns = looked_up.turns
    return Matches(found.matches, ambiguous, seen, is_certain, turns, found.chosen, decided)


def parent_of(
    request: RequestHistory[HistoryItem], matched: Matches, looked_up: LookupResult
) -> Turn | None:
    """Return the turn that a request continues: its newest match, or else the one that it names."""
    newest = matched.newest()
    return _named(request, looked_up) if newest is None else newest


def context_of(request: RequestHistory[HistoryItem], looked_up: LookupResult) -> Context:
    """
    Return the context of the response to a request.

    If the request names the previous response, the history begins with what that one's turn tells.
    """
    named = _named(request, looked_up)
    return request.context() if named is None else request.context_after(named)


def _named(request: RequestHistory[HistoryItem], looked_up: LookupResult) -> Turn | None:
    """Return the turn of the response that a request names; None without a name, or if unknown."""
    if not request.continues:
        return None
    named = turn_id(request.continues)
    return next((turn for turn in looked_up.turns if turn.id == named), None)


def is_whole(
    request: RequestHistory[HistoryItem], matched: Matches, looked_up: LookupResult
) -> bool:
    """
    Return whether the captured part of a request's conversation seems to be complete.

    It is complete if no item of a model follows the newest matched turn, if all ancestors of that
    turn are present, and if the oldest one does not itself follow a lookup that failed: that lookup
    missed the turns before it, which another conversation has. While the store fails, an incomplete
    local copy must not be used: each replica would inject another part of the reasoning, and what
    is decided is decided for good.
    """
    newest = matched.newest()
    if newest is None:
        return False
    last = max(matched.matches, default=-1)
    if any(place.item.role is Role.MODEL for place in request.places[last + 1 :]):
        return False
    turns = {turn.id: turn for turn in looked_up.turns}
    at: Turn | None = newest
    for _ in turns:
        if at is None or not at.parent:
            break
        at = turns.get(at.parent)
    return at is not None and not (at.seen is None and at.context.model_traces)


def _after(
    response_id: str, matches: Mapping[int, Match], children: Mapping[bytes, Sequence[Turn]]
) -> dict[int, Match]:
    """Return the matches with turns that descend from a response."""
    after: set[bytes] = set()
    left = [turn_id(response_id)]
    while left:
        new = {turn.id for turn in children.get(left.pop(), ())} - after
        after |= new
        left += new
    after.discard(turn_id(response_id))  # upstream already has the response itself
    return {n: match for n, match in matches.items() if match.turn.id in after}
