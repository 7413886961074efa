"""
Matching: which captured turn each item of a request came from.

Evidence, strongest first:

1. the item's own id, also where a client uses it as `call_id`;
2. a `call_id` that looks random;
3. what the item says, together with what had been said before it: the whole history from the
   head on, or as much of it as a client that cuts its history still sends;
4. lineage: a turn remembers the turn before it, so what is certain late in a history
   settles what is doubtful earlier.

What evidence leaves open is ambiguous, and stays without an answer: reasoning that belongs to
another conversation is the worst fault there is. Cost grows linearly with the history.
"""

import itertools
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import IntEnum

from reasoning_replay.core.history.candidates import Candidates, may_be_called, says_the_same
from reasoning_replay.core.history.fingerprints import TRACE_BYTES, is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import RESPONSE, LookupResult
from reasoning_replay.core.history.request_history import Place, RequestHistory
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS, Context, Turn, turn_id

__all__ = ["Matches", "match_items", "parent_of"]

# A saying that fits more turns than this is no evidence, and comparing them all is not linear.
CANDIDATES_WEIGHED = 32


class Agreement(IntEnum):
    """How well what had been said before an item fits a turn; a higher one wins."""

    NONE = 0  # they contradict each other
    CUT_HISTORY = 1  # all that a cut history still has
    KEPT_HISTORY = 2  # as many of the newest messages as a turn remembers
    WHOLE_HISTORY = 3  # the same history from its first message on
    SAME_TURN = 4  # the turn of the item before goes on


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
    matched = _Recognition(request, Candidates(looked_up.turns), looked_up.crowded).run()
    matched.ambiguous |= looked_up.crowded - matched.matches.keys() - {RESPONSE}
    return matched


def parent_of(
    request: RequestHistory[HistoryItem], matched: Matches, looked_up: LookupResult
) -> Turn | None:
    """Return the turn that a request goes on from: the one that it names, or its newest."""
    if previous := request.continues:
        this = turn_id(previous)
        return next((turn for turn in looked_up.turns if turn.id == this), None)
    return matched.newest()


class _Recognition:
    """One run of `match_items`: certain matches first, then what those make certain."""

    def __init__(
        self, request: RequestHistory[HistoryItem], known: Candidates, crowded: AbstractSet[int]
    ) -> None:
        self._request = request
        self._known = known
        self._crowded = crowded
        self._depth_before = 0
        self._result = Matches()
        emitted = (place for place in request.places if place.item.role is Role.MODEL)
        self._first_emitted = next(emitted, None)

    def run(self) -> Matches:
        if self._settle_what_is_certain():
            return self._result
        matches = self._result.matches
        places = self._request.places
        ancestors = self._ancestors()
        before: Match | None = None
        for index, place in enumerate(places):
            if index not in matches and place.item.role is Role.MODEL:
                self._weigh(index, place, before, ancestors)
            if index in matches:
                before, self._depth_before = matches[index], place.depth
        self._settle_by_children()
        self._settle_by_neighbours()
        return self._result

    def _settle_what_is_certain(self) -> bool:
        """Match by names; tell whether nothing else can be an item of what was recalled."""
        self._result.matches, is_all = self._known.settle(self._request.places)
        return is_all

    def _claim(self, index: int, match: Match) -> None:
        self._result.matches[index] = match
        self._result.ambiguous.discard(index)
        self._known.use(match)

    def _ancestors(self) -> set[bytes]:
        """Return the turns matched for certain, and those that they descend from."""
        found: set[bytes] = set()
        for match in self._result.matches.values():
            at = match.turn.id
            while at and at not in found:
                found.add(at)
                turn = self._known.turns.get(at)
                at = turn.parent if turn is not None else b""
        return found

    def _weigh(
        self, index: int, place: Place[HistoryItem], before: Match | None, ancestors: set[bytes]
    ) -> None:
        """Match by what was said and after what; note an ambiguity."""
        chain = self._request.chains[place.depth]
        for candidates in self._known.likenesses(place.item, chain, before, CANDIDATES_WEIGHED + 1):
            if len(candidates) > CANDIDATES_WEIGHED:
                self._result.ambiguous.add(index)
                return
            led = self._led_to(index)
            fitting = self._fitting(_leading_to(candidates, led), place, before)
            if fitting:
                self._prefer(index, place, fitting, before, ancestors)
                return

    def _led_to(self, index: int) -> HistoryItem | None:
        """Return the call that stands directly behind a message, if nobody knows where from."""
        places = self._request.places
        if places[index].item.type != "message":
            return None
        for beside in range(index + 1, len(places)):
            item = places[beside].item
            if item.role is not Role.REASONING:
                is_unknown = item.role is Role.MODEL and beside not in self._result.matches
                return item if is_unknown and is_distinctive(item.call_id, item.name) else None
        return None

    def _fitting(
        self, candidates: Iterable[Match], place: Place[HistoryItem], before: Match | None
    ) -> list[Match]:
        """Return the candidates that fit best what had been said before; [] if none does."""
        context = self._request.context(place)
        weighed = [(match, self._agreement(match, place, context, before)) for match in candidates]
        best = max((agreement for _, agreement in weighed), default=Agreement.NONE)
        return [match for match, agreement in weighed if agreement == best] if best else []

    def _prefer(
        self,
        index: int,
        place: Place[HistoryItem],
        fitting: list[Match],
        before: Match | None,
        ancestors: set[bytes],
    ) -> None:
        """Choose among likenesses by what else is known of them; note an ambiguity."""
        request = self._request
        if index in self._crowded:
            # Not all that are alike could be loaded: only lineage tells that it is one of these.
            family = (b"",) if before is None else (before.turn.id,)
            kin = [m for m in fitting if m.turn.id in ancestors or m.turn.id in family]
            fitting = kin or [m for m in fitting if m.turn.parent and m.turn.parent in family]
        preferences: list[Callable[[Match], bool]] = [
            lambda match: match.emitted.call_id == place.item.call_id,
            lambda match: before is not None and match.turn.parent == before.turn.id,
            lambda match: match.turn.id in ancestors,
            lambda match: match.turn.context.frame == place.frame,
            lambda match: bool(request.hint) and match.turn.context.hint == request.hint,
        ]
        for prefers in preferences:
            fitting = [match for match in fitting if prefers(match)] or fitting
        if len({match.turn.id for match in fitting}) == 1:
            self._claim(index, min(fitting, key=lambda match: match.k))
        else:
            self._result.ambiguous.add(index)

    def _agreement(  # noqa: PLR0911 (one line for each reason, in the order they are weighed)
        self, match: Match, place: Place[HistoryItem], context: Context, before: Match | None
    ) -> Agreement:
        """Tell how well what had been said before an item fits a turn."""
        if before is not None and match.turn.id == before.turn.id:
            goes_on = match.k > before.k or place.depth == self._depth_before
            return Agreement.SAME_TURN if goes_on else Agreement.NONE
        theirs = match.turn.context
        if context.frame and theirs.frame and context.frame != theirs.frame:
            return Agreement.NONE  # another application, or another agent of it
        if before is not None and match.turn.parent not in (b"", before.turn.id):
            return Agreement.NONE  # it is known to follow another turn
        is_next = before is not None and match.turn.parent == before.turn.id
        if not is_next and _differ(context.answered, theirs.answered):
            return Agreement.NONE  # the model had said something else before
        if theirs.chain == context.chain:
            # Where nobody has said anything yet, only the frame tells one beginning from another.
            is_told = context.depth or (context.frame and context.frame == theirs.frame)
            return Agreement.WHOLE_HISTORY if is_told else Agreement.NONE
        window = min(context.depth, theirs.depth, TAIL_LINKS) * LINK_BYTES
        if window and context.tail[-window:] != theirs.tail[-window:]:
            return Agreement.NONE
        if window == TAIL_LINKS * LINK_BYTES:
            return Agreement.KEPT_HISTORY
        if context.depth >= theirs.depth:
            return Agreement.NONE  # more was said before than that turn had heard
        # The head was cut, here right up to the item if nothing is left before it.
        # Then nothing speaks for it but that no other turn of this tenant ever said the same.
        is_first = place is self._first_emitted
        fits = window or (is_first and context.frame in (b"", theirs.frame))
        return Agreement.CUT_HISTORY if fits else Agreement.NONE

    def _settle_by_children(self) -> None:
        """Settle what is ambiguous by the lineage of the turn that follows in the history."""
        after: Match | None = None
        for index in range(len(self._request.places) - 1, -1, -1):
            if index in self._result.matches:
                after = self._result.matches[index]
            elif index in self._result.ambiguous and after is not None:
                after = self._parents_item(index, after) or after

    def _parents_item(self, index: int, after: Match) -> Match | None:
        parent = self._known.turns.get(after.turn.parent)
        if parent is None:
            return None
        place = self._request.places[index]
        item, context = place.item, self._request.context(place)
        options = [Match(parent, k) for k in range(len(parent.items))]
        options = [option for option in options if says_the_same(item, option.emitted)]
        options = [o for o in options if self._agreement(o, place, context, None)]
        for option in self._known.free(options, item)[-1:]:
            self._claim(index, option)
            return option
        return None

    def _settle_by_neighbours(self) -> None:
        """Settle what stands directly beside a matched item as it did in its turn."""
        places = self._request.places
        spoken = [n for n, place in enumerate(places) if place.item.role is not Role.REASONING]
        for step in (-1, 1):
            for index, beside in itertools.pairwise(spoken[::step]):
                match = self._result.matches.get(index)
                if match is None or beside in self._result.matches:
                    continue
                if not 0 <= match.k + step < len(match.turn.items):
                    continue
                item, neighbour = places[beside].item, Match(match.turn, match.k + step)
                # What a model says is its text; what it does, clients spell in their own way.
                if item.type == "message" or self._known.is_another(item, neighbour.emitted):
                    continue
                for free in self._known.free([neighbour], item):
                    if may_be_called(item, free.emitted):
                        self._claim(beside, free)


def _leading_to(candidates: list[Match], led: HistoryItem | None) -> list[Match]:
    """
    Return the candidates that can have led to a call.

    One that has led to others is another answer, which happens to begin with the same words: what
    was made twice, where only the wrong one is known.
    """
    if led is None:
        return candidates
    return [
        match
        for match in candidates
        if not (calls := [later for later in match.turn.items[match.k + 1 :] if later.call_id])
        or any(may_be_called(led, call) for call in calls)
    ]


def _differ(ours: bytes, theirs: bytes) -> bool:
    """Tell whether two runs that a model is known to have made have nothing in common."""
    if not ours or not theirs:
        return False
    traces = {theirs[at : at + TRACE_BYTES] for at in range(0, len(theirs), TRACE_BYTES)}
    return traces.isdisjoint(ours[at : at + TRACE_BYTES] for at in range(0, len(ours), TRACE_BYTES))
