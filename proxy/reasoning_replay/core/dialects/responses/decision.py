"""Request planner: decides how a request is changed, once the store lookup is done."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from reasoning_replay.core.dialects.base import Caller, Decision, Origin, Question
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import (
    Repair,
    Repairs,
    is_sound,
    repair,
)
from reasoning_replay.core.dialects.responses.include import include_edit
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.responses.refusal_memory import RefusalMemory
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.item_summary import ItemSummary, summarise
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.joining import NOT_JOINED, Joined, join
from reasoning_replay.core.history.matching.matches import is_whole, match_items, parent_of
from reasoning_replay.core.history.model_names import family, is_known_not_to_reason
from reasoning_replay.core.history.plan import Outcome, Plan, PlanNote
from reasoning_replay.core.history.seen import Seen
from reasoning_replay.core.history.sent_items import sent_items
from reasoning_replay.core.history.turns import Turn, turn_id
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["RequestPlanner", "ResponsesSettings"]

_NO_REPAIRS: Mapping[Any, int] = MappingProxyType({})
_NOTHING_FOUND = LookupResult()


@dataclass(frozen=True, slots=True)
class ResponsesSettings:
    """
    The settings of this dialect, as plain values.

    Attributes:
        is_shadow: Whether requests are decided on but sent unchanged.
        profile: Profile of the upstream.
        include: When to request encrypted reasoning: `auto`, `always` or `never`.
        repairs: Repairs that are allowed before the first attempt.
        capture_max_bytes: Largest event, and most that is kept of one response, in bytes.
    """

    is_shadow: bool
    profile: Profile
    include: str
    repairs: Collection[Repair]
    capture_max_bytes: int


class RequestPlanner:
    """Planner for the requests to one upstream. It changes no shared state."""

    def __init__(self, settings: ResponsesSettings, refusals: RefusalMemory) -> None:
        """Keep the shared settings and the refusal memory, which is only read."""
        self._settings = settings
        self._refusals = refusals
        self.profile = settings.profile

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question[Request],
        found: LookupResult | None,
        *,
        is_created: bool,
    ) -> Decision:
        """See `Dialect.decide`."""
        request, held = question.request, found or _NOTHING_FOUND
        if held.turns:
            held = self._refusals.without_refused(caller.scope, held)
        base, repairs = body, _NO_REPAIRS
        if request.body is body:  # no lone surrogate had to be replaced
            request, repairs = self._repaired(caller, request, held)
            base = request.body
        matched = match_items(request, held)
        parent = parent_of(request, matched, held)
        joined = NOT_JOINED if held.is_stale else join(matched, held.turns)
        has_failed = found is None or (held.is_stale and not is_whole(request, matched, held))
        # Not remembered after a failed lookup or a join: a miss must not become permanent.
        seen = None if has_failed or joined.left else matched.seen
        origin = _origin(request, parent, joined, seen)
        plan = Plan() if has_failed else plan_injection(request, matched, self.profile)
        state = RequestState.STORE_FAILED if has_failed else RequestState.PLANNED
        if request.is_stateful:
            state = RequestState.STATEFUL
        outcomes = plan.outcomes
        if self._settings.is_shadow:
            summary = _summary(request, plan.notes, question.request)
            return Decision(state, body, origin, repairs, outcomes, 0, summary, joined)
        # Upstream reported that it stores nothing (zero data retention), and a blob is missing.
        keeps_nothing = parent is not None and not parent.is_stored
        lacks_blob = keeps_nothing and Outcome.GUARDED_FORM in outcomes
        wants = is_created and self._wants_include(caller.scope, request, lacks_blob=lacks_blob)
        include = include_edit(request) if wants else None
        edits = [*plan.edits, include] if include is not None else plan.edits
        edited = json_spans.apply(base, edits) if edits else base
        summary = _summary(request, plan.notes, request, plan.edits)
        injected_bytes = plan.injected_bytes
        return Decision(state, edited, origin, repairs, outcomes, injected_bytes, summary, joined)

    def _repaired(
        self, caller: Caller, request: Request, held: LookupResult
    ) -> tuple[Request, Mapping[Repair, int]]:
        """Repair what is certainly wrong, and parse the result again."""
        scope, refusals = caller.scope, self._refusals
        if request.is_stateful:
            return request, _NO_REPAIRS
        is_unknown = not (held.turns or refusals.knows(caller))
        if is_unknown and is_sound(request):
            return request, _NO_REPAIRS  # the usual case
        repairs = Repairs(
            allowed=self._settings.repairs,
            is_refused=lambda blob: (
                refusals.is_refused(scope, RefusalKind.BLOB, blob)
                or refusals.is_of_another_account(caller.account, blob)
            ),
            takes_reasoning=not refusals.is_refused(
                scope, RefusalKind.NO_REASONING_MODEL, family(request.model)
            ),
            profile=self._settings.profile,
        )
        repaired = repair(request, held.turns, repairs)
        if repaired.body is request.body:
            return request, repaired.counts
        again = read_request(repaired.body, {})
        again.hint = request.hint
        return again, repaired.counts

    def _wants_include(self, scope: bytes, request: Request, *, lacks_blob: bool) -> bool:
        """Return whether to ask for blobs: ids alone may not be enough for later requests."""
        profile = self._settings.profile
        if not profile.takes_include:
            return False
        if request.is_stateful or request.is_background or is_known_not_to_reason(request.model):
            return False
        match self._settings.include:
            case "never":
                return False
            case "auto" if request.stores and profile.keeps_items:
                if not (lacks_blob or request.has_easy_form):
                    return False
        return not self._refusals.is_refused(scope, RefusalKind.INCLUDE, family(request.model))


def _origin(request: Request, parent: Turn | None, joined: Joined, seen: Seen | None) -> Origin:
    """Return the facts about a request that are stored with the turn of its response."""
    conversation = parent.conversation if parent is not None else b""
    if conversation in joined.left:
        conversation = joined.turns[0].conversation
    named = turn_id(request.continues) if request.continues else b""
    return Origin(
        context=request.context(),
        model=request.model,
        conversation=conversation,
        parent=parent.id if parent is not None else named,
        stores=request.stores,
        seen=seen,
    )


def _summary(
    request: Request, notes: Sequence[PlanNote], sent: Request, edits: Sequence[Edit] = ()
) -> ItemSummary | None:
    """
    Return the item summary; None on a fault, which must not fail the request.

    Args:
        request: The request that the notes are about.
        notes: Notes of the plan.
        sent: The request that is sent, before the edits of its items.
        edits: Those edits.
    """
    try:
        return summarise(request, notes, sent_items(sent.head, sent.places, edits))
    except Exception:  # noqa: BLE001 (fail open: the request does not need it)
        return None
