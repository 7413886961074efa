"""Continuation: the conversation that a request continues, as every dialect decides it."""

from dataclasses import dataclass, replace

from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.item_index import IndexedTurns
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import (
    Matches,
    context_of,
    is_whole,
    parent_of,
)
from reasoning_replay.core.history.turns import Turn, turn_id

NOTHING_FOUND = LookupResult()


@dataclass(frozen=True, slots=True)
class Continuation:
    """
    What is known of the conversation that a request continues.

    Attributes:
        matched: Origin of each matched item.
        parent: The turn that it continues; None if unknown.
        has_failed: Whether the lookup failed, so that nothing may be injected.
        origin: Facts about the request that are stored with the turn of its response.
    """

    matched: Matches
    parent: Turn | None
    has_failed: bool
    origin: Origin

    @property
    def state(self) -> RequestState:
        """State of the request, if upstream does not hold its history."""
        return RequestState.STORE_FAILED if self.has_failed else RequestState.PLANNED


def continuation_of(
    request: ParsedRequest[HistoryItem],
    found: LookupResult | None,
    refused: KnownRefusals,
    matched: Matches,
) -> Continuation:
    """
    Return the conversation that a request continues, by its matches.

    `found` is None if the store did not respond. The reasoning that upstream refused is withheld
    from the turns that are matched.

    Raises:
        Reopened: As `match_items`.
    """
    result = found or NOTHING_FOUND
    if not refused.is_empty:
        matched = replace(matched, matches=refused.without_refused_of(matched.matches))
    parent = parent_of(request, matched, result)
    has_failed = found is None or (result.is_stale and not is_whole(request, matched, result))
    # Not remembered after a failed lookup: a miss must not become permanent.
    seen = None if has_failed else matched.seen
    conversation = parent.conversation if parent is not None else b""
    named = turn_id(request.continues) if request.continues else b""
    after_ms = 0
    if conversation and isinstance(result.turns, IndexedTurns):  # all of it, oldest first
        after_ms = result.turns[-1].created_ms
    elif conversation:
        of_turns = (one.created_ms for one in result.turns if one.conversation == conversation)
        after_ms = max(of_turns, default=0)
    origin = Origin(
        context=context_of(request, result),
        model=request.model,
        conversation=conversation,
        parent=parent.id if parent is not None else named,
        stores=request.stores,
        after_ms=after_ms,
        seen=seen,
        switched_off=request.is_switched_off,
    )
    return Continuation(matched, parent, has_failed, origin)
