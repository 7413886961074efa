"""Request planner: decides how a request is changed, once the store lookup is done."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from reasoning_replay.core.dialects.base import Caller, Decision, Question
from reasoning_replay.core.dialects.continuation import (
    NOTHING_FOUND,
    continuation_of,
    maybe_summary,
)
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
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
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.model_names import family, is_known_not_to_reason
from reasoning_replay.core.history.plan import Outcome, Plan
from reasoning_replay.core.history.sent_items import sent_items
from reasoning_replay.core.wire import json_spans

__all__ = ["RequestPlanner", "ResponsesSettings"]

_NO_REPAIRS: Mapping[Any, int] = MappingProxyType({})


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

    def profile_for(self, scope: bytes, model: str) -> Profile:
        """Return the profile of the upstream, less what it refused within the last hour."""
        profile = self._settings.profile
        if not (profile.takes_phase and self._refusals.knows_tenant(scope)):
            return profile
        if self._refusals.is_refused(scope, RefusalKind.FIELD, family(model)):
            return replace(profile, takes_phase=False)
        return profile

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
        request, held = question.request, found or NOTHING_FOUND
        if held.turns:
            held = self._refusals.without_refused(caller.scope, held)
        base, repairs = body, _NO_REPAIRS
        if request.body is body:  # no lone surrogate had to be replaced
            request, repairs = self._repaired(caller, request, held)
            base = request.body
        known = continuation_of(request, found, held, stores=request.stores)
        has_failed, origin, joined = known.has_failed, known.origin, known.joined
        plan = (
            Plan()
            if has_failed
            else plan_injection(
                request, known.matched, self.profile_for(caller.scope, request.model)
            )
        )
        state = RequestState.STATEFUL if request.is_stateful else known.state
        outcomes = plan.outcomes
        if self._settings.is_shadow:
            given = question.request
            summary = maybe_summary(
                caller, request, plan.notes, lambda: sent_items(given.head, given.places)
            )
            return Decision(state, body, origin, repairs, outcomes, 0, summary, joined)
        # Upstream reported that it stores nothing (zero data retention), and a blob is missing.
        keeps_nothing = known.parent is not None and not known.parent.is_stored
        lacks_blob = keeps_nothing and Outcome.GUARDED_FORM in outcomes
        wants = is_created and self._wants_include(caller.scope, request, lacks_blob=lacks_blob)
        include = include_edit(request) if wants else None
        edits = [*plan.edits, include] if include is not None else plan.edits
        edited = json_spans.apply(base, edits) if edits else base
        summary = maybe_summary(
            caller,
            request,
            plan.notes,
            lambda: sent_items(request.head, request.places, plan.edits),
        )
        injected_bytes = plan.injected_bytes
        return Decision(
            state,
            edited,
            origin,
            repairs,
            outcomes,
            injected_bytes,
            summary,
            joined,
            edits if base is body else None,
        )

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
            completes=partial(refusals.completes, scope),
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
