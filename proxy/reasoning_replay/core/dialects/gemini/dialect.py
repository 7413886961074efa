"""Gemini dialect: `generateContent` as data and readers for the engine."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure, Dialect, Readers
from reasoning_replay.core.dialects.gemini.capture import GeminiCapture
from reasoning_replay.core.dialects.gemini.client import WIRE
from reasoning_replay.core.dialects.gemini.heal.arrangement import arranged
from reasoning_replay.core.dialects.gemini.heal.cure import (
    ARRANGED,
    RefusedGemini,
    signatures_in,
    without,
)
from reasoning_replay.core.dialects.gemini.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing,
    is_refusing,
    maybe_failing,
)
from reasoning_replay.core.dialects.gemini.placement import plan_injection
from reasoning_replay.core.dialects.gemini.profiles import profile_of
from reasoning_replay.core.dialects.gemini.request import HOLDERS, GeminiRequest, read_request
from reasoning_replay.core.dialects.refusal_memory import BLOB, KnownRefusals
from reasoning_replay.core.dialects.routes import DialectEntry, RoutePath
from reasoning_replay.core.dialects.vendors import GEMINI_VENDORS, UpstreamProfile
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import Matches, match_items, match_refused
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import Plan

GENERATE_CONTENT = "generate_content"
COUNT_TOKENS = "gemini_count_tokens"
FOREIGN = "foreign"  # the repair that takes out signatures that upstream has refused before


@dataclass(frozen=True, slots=True)
class GeminiDialect(Dialect[GeminiRequest, Diagnosis]):
    """
    The Gemini dialect at one upstream.

    Attributes:
        profile: Profile of the upstream.
        repairs: Repairs that are allowed before the first attempt.
        replaces_sentinels: Whether a stored signature takes the place of a client's value that asks
            the API not to check.
    """

    name: ClassVar[str] = "gemini"
    readers: ClassVar = Readers(
        read_request, GeminiCapture, diagnose, is_failing, is_refusing, maybe_failing
    )

    profile: UpstreamProfile
    repairs: Collection[str] = ()
    replaces_sentinels: bool = False

    @override
    def repaired(
        self, request: GeminiRequest, found: LookupResult, refused: KnownRefusals
    ) -> tuple[GeminiRequest, Mapping[str, int]]:
        # Takes out the client's signatures that upstream has refused. Parts that were arranged once
        # are arranged again.
        if refused.is_empty:
            return request, {}
        if refused.has(ARRANGED, ""):
            usable = refused.without_refused(found)
            request = read_request.again(
                request, arranged(request, match_items(request, usable), usable.turns)
            )
        gone = [one for one in signatures_in(request) if refused.has(BLOB, one.blob)]
        if FOREIGN not in self.repairs or not gone:
            return request, {}
        return read_request.again(request, without(request, gone)), {FOREIGN: len(gone)}

    @override
    def plan(self, request: GeminiRequest, matched: Matches, refused: KnownRefusals) -> Plan:
        if refused.has(RefusalKind.FIELD, family(request.model)):
            return Plan()
        return plan_injection(
            request, matched, refused.completes, replaces_sentinels=self.replaces_sentinels
        )

    @override
    def cure(
        self,
        sent: GeminiRequest,
        given: GeminiRequest,
        refusal: Diagnosis,
        usable: LookupResult,
        refused: KnownRefusals,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        is_damage = refusal.kind in RefusedGemini.completable
        asked, matched = given, match_refused(given, usable)
        if refusal.kind in RefusedGemini.about_order:
            asked = read_request.again(given, arranged(given, matched, usable.turns))
        if asked is not given:
            matched = match_refused(asked, usable)
        plan = plan_injection(
            asked, matched, lambda _: is_damage, replaces_sentinels=self.replaces_sentinels
        )
        case = RefusedGemini(
            sent,
            given,
            refusal,
            plan=plan,
            turns=usable.turns,
            asked=asked,
            without_reasoning=without_reasoning,
        )
        return case.cure()

    @override
    def lessons(self, refusal: Diagnosis, cure: Cure, model: str) -> Iterable[tuple[str, str]]:
        return [(refusal.kind, family(model))] if refusal.kind is RefusalKind.FIELD else []


def _made(profile: UpstreamProfile, settings: Mapping[str, str]) -> GeminiDialect:
    replaces = settings["gemini_sentinel"] == "replace"
    return GeminiDialect(profile, tuple(settings["repairs"].split(",")), replaces)


ENTRY = DialectEntry(
    GeminiDialect.name,
    profile_of,
    _made,
    WIRE,
    paths=tuple(
        RoutePath(route, "POST", f"/{holder}/{{model}}:{method}", creates=route == GENERATE_CONTENT)
        for holder in HOLDERS
        for route, method in (
            (COUNT_TOKENS, "countTokens"),
            (GENERATE_CONTENT, "streamGenerateContent"),
            (GENERATE_CONTENT, "generateContent"),
        )
    ),
    others={"interactions": "interactions"},  # another API of Gemini, with other shapes
    kinds=RefusalKind,
    settings=("repairs", "gemini_sentinel"),
    repairs=(FOREIGN,),
    title="Gemini API",
    base_path="",
    base_variable="GOOGLE_GEMINI_BASE_URL",
    vendors=GEMINI_VENDORS,
    home="gemini",
    has_own_version=True,
    key_parameters={"key": "x-goog-api-key"},
)
