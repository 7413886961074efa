"""Responses dialect: OpenAI's Responses API as data and readers for the engine."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure, Dialect, Readers, Retrieval
from reasoning_replay.core.dialects.cache_diagnoses import quoted
from reasoning_replay.core.dialects.captures import UNKNOWN_ORIGIN, Origin
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.client import WIRE
from reasoning_replay.core.dialects.responses.heal.captured import Case
from reasoning_replay.core.dialects.responses.heal.cure import RefusedResponses, lookups_for
from reasoning_replay.core.dialects.responses.heal.diagnosis import (
    Diagnosis,
    Form,
    RefusalKind,
    diagnose,
    is_failing_event,
    is_opening_event,
    is_refusing_event,
)
from reasoning_replay.core.dialects.responses.heal.learned import with_learned
from reasoning_replay.core.dialects.responses.heal.repair import Repair, is_sound, repair
from reasoning_replay.core.dialects.responses.include import include_edit
from reasoning_replay.core.dialects.responses.placement import plan_injection
from reasoning_replay.core.dialects.responses.profiles import Ids, Profile, profile_of
from reasoning_replay.core.dialects.responses.request import Request, read_request
from reasoning_replay.core.dialects.routes import DialectEntry, RoutePath
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import family, is_known_not_to_reason, tells_why
from reasoning_replay.core.history.plan import Outcome, Plan
from reasoning_replay.core.history.turns import Turn, turn_id

# Refusals that concern the model, and are expected from it for an hour after a cure.
_OF_MODEL = frozenset(
    {RefusalKind.INCLUDE, RefusalKind.NO_REASONING_MODEL, RefusalKind.LACKS_REASONING}
)
_NO_FAULT = Diagnosis(RefusalKind.OTHER)
_CACHE_OPTIONS = "prompt_cache_options"
_RETRIEVED = re.compile(r"/responses/([^/?]+)$")


def _id_in(path: str) -> str:
    found = _RETRIEVED.search(path)
    return found.group(1) if found is not None else ""


def _origin_of(response_id: str, found: LookupResult) -> Origin | None:
    this = turn_id(response_id)
    begun = next((turn for turn in found.turns if turn.id == this), None)
    if begun is None:
        return UNKNOWN_ORIGIN
    if any(item.run for item in begun.items):
        return None  # captured with blobs at its creation; a fetched response has none
    return Origin(
        context=begun.context,
        model=begun.models[0] if begun.models else "",
        conversation=begun.conversation,
        parent=begun.parent,
        stores=begun.is_stored,
        created_ms=begun.created_ms,
        seen=begun.seen,
        cache_key=begun.cache_key,
        lessons=begun.lessons,
        keeps_id=bool(begun.response_id),
    )


@dataclass(frozen=True, slots=True)
class ResponsesDialect(Dialect[Request, Diagnosis]):
    """
    The Responses dialect at one upstream.

    Attributes:
        profile: Profile of the upstream.
        include: When to request encrypted reasoning: `auto`, `always` or `never`.
        repairs: Repairs that are allowed before the first attempt.
    """

    name: ClassVar[str] = "responses"
    readers: ClassVar = Readers(
        read_request,
        ResponsesCapture,
        diagnose,
        is_failing_event,
        is_refusing_event,
        retrieval=Retrieval(_id_in, _origin_of),
        is_opening=is_opening_event,
    )
    has_accounts: ClassVar[bool] = True
    repeats_cures: ClassVar[bool] = True

    profile: Profile
    include: str = "auto"
    repairs: Collection[Repair] = ()

    @override
    def repaired(
        self, request: Request, found: LookupResult, refused: KnownRefusals
    ) -> tuple[Request, Mapping[Repair, int]]:
        if request.is_stateful:
            return request, {}
        is_unknown = not (found.turns or refused.may_concern_blobs)
        if is_unknown and is_sound(request):
            return request, {}  # the usual case
        if refused.is_empty and not request.has_reasoning:
            return request, {}
        usable = refused.without_refused(found)
        profile = self._profile_for(request, refused)
        case = Case(request, request, _NO_FAULT, usable, profile)
        body, counts = repair(case, refused, self.repairs)
        if Repair.LEARNED in self.repairs:
            current = case if body is request.body else case.of(body)
            body, cures = with_learned(current, refused)
            counts = {**counts, Repair.LEARNED: cures} if cures else counts
        if body is request.body:
            return request, counts
        again = read_request.again(request, body)
        again.restored = max(0, again.reasoning_count - request.reasoning_count)
        return again, counts

    @override
    def plan(self, request: Request, matched: Matches, refused: KnownRefusals) -> Plan:
        plan = plan_injection(request, matched, self._profile_for(request, refused))
        if not request.restored:
            return plan
        present = plan.outcomes.get(Outcome.PRESENT, 0)
        restored = min(request.restored, present)
        counts = Counter(plan.outcomes)
        counts.update({Outcome.INJECTED: restored, Outcome.PRESENT: -restored})
        return replace(plan, outcomes={what: count for what, count in counts.items() if count})

    @override
    def finished(
        self, request: Request, plan: Plan, parent: Turn | None, refused: KnownRefusals
    ) -> Plan:
        # Upstream reported that it stores nothing (zero data retention), and a blob is missing.
        keeps_nothing = parent is not None and not parent.is_stored
        lacks_blob = keeps_nothing and Outcome.GUARDED_FORM in plan.outcomes
        if not self._wants_include(request, refused, lacks_blob=lacks_blob):
            return plan
        edit = include_edit(request)
        return replace(plan, edits=(*plan.edits, edit)) if edit is not None else plan

    @override
    def lookups_for_cure(self, sent: Request, refusal: Diagnosis) -> Sequence[Lookup]:
        return lookups_for(sent, refusal)

    @override
    def comparison_in(self, request: Request, response_id: str) -> bytes:
        is_own = _CACHE_OPTIONS in request.values or request.is_stateful
        if is_own or request.raw("background") == b"true" or not tells_why(request.model):
            return b""
        name = quoted(response_id)
        return (
            b',"%b":{"comparison_response_id":%b}' % (_CACHE_OPTIONS.encode(), name)
            if name
            else b""
        )

    @override
    def cure(
        self,
        sent: Request,
        given: Request,
        refusal: Diagnosis,
        usable: LookupResult,
        refused: KnownRefusals,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        if without_reasoning:
            sent = given
            refusal = Diagnosis(RefusalKind.NO_REASONING_MODEL, form=Form.NAMELESS)
        profile = self._profile_for(sent, refused)
        return RefusedResponses(sent, given, refusal, usable, profile).cure()

    @override
    def lessons(self, refusal: Diagnosis, cure: Cure, model: str) -> Iterable[tuple[str, str]]:
        is_lasting = (
            refusal.kind in _OF_MODEL
            or refusal.member == "phase"
            or (refusal.kind is RefusalKind.NOT_FOUND and bool(refusal.form))
        )
        return [(refusal.kind, family(model))] if is_lasting else []

    def _profile_for(self, request: Request, refused: KnownRefusals) -> Profile:
        """Return the profile of the upstream, less what it refused within the last hour."""
        profile, model = self.profile, family(request.model)
        if refused.is_empty:
            return profile
        if profile.takes_phase and refused.has(RefusalKind.FIELD, model):
            profile = replace(profile, takes_phase=False)
        if refused.has(RefusalKind.NOT_FOUND, model):
            profile = replace(profile, ids=Ids.DROPPED, keeps_items=False)
        if refused.has(RefusalKind.BAD_ID, Form.NAMED):
            profile = replace(profile, ids=Ids.REQUIRED)
        if refused.has(RefusalKind.BAD_ID, Form.NAMELESS):
            profile = replace(profile, ids=Ids.DROPPED)
        if refused.has(RefusalKind.FIELD, Form.BY_ID):
            profile = replace(profile, omits=(*profile.omits, "encrypted_content"))
        if refused.has(RefusalKind.NO_REASONING_MODEL, model):
            profile = replace(profile, takes_reasoning=False)
        return profile

    def _wants_include(self, request: Request, refused: KnownRefusals, *, lacks_blob: bool) -> bool:
        """Return whether to ask for blobs: ids alone may not be enough for later requests."""
        profile = self.profile
        if not profile.takes_include:
            return False
        if request.is_stateful or request.is_background or is_known_not_to_reason(request.model):
            return False
        match self.include:
            case "never":
                return False
            case "auto" if request.stores and profile.keeps_items:
                if not (lacks_blob or request.has_easy_form):
                    return False
        return not refused.has(RefusalKind.INCLUDE, family(request.model))


def _made(profile: Profile, settings: Mapping[str, str]) -> ResponsesDialect:
    profile = replace(
        profile,
        takes_phase=profile.takes_phase and settings["phase"] == "on",
        drops_unanswered=settings["drop_unanswered"] == "on",
    )
    repairs = settings["repairs"].split(",")
    return ResponsesDialect(
        profile, settings["include"], frozenset(one for one in Repair if one.value in repairs)
    )


ENTRY = DialectEntry(
    ResponsesDialect.name,
    profile_of,
    _made,
    WIRE,
    paths=(
        RoutePath(Route.RESPONSES, "POST", "/responses", creates=True),
        RoutePath(Route.COMPACT, "POST", "/responses/compact"),
        RoutePath(Route.INPUT_TOKENS, "POST", "/responses/input_tokens"),
        RoutePath(Route.RETRIEVE, "GET", "/responses/{response_id}", replays=False),
        RoutePath(Route.CREATE, creates=True),
    ),
    others={"responses": Route.RESPONSES_OTHER},
    kinds=RefusalKind,
    settings=("include", "repairs", "phase", "drop_unanswered"),
    repairs=tuple(Repair),
    has_own_scope=False,
    title="Responses API",
    finds_carriers=True,
)
