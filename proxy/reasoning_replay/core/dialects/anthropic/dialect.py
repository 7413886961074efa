"""Messages dialect: the Anthropic Messages API as data and readers for the engine."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from reasoning_replay.core.dialects.anthropic.binding import prefix_of
from reasoning_replay.core.dialects.anthropic.capture import MessagesCapture
from reasoning_replay.core.dialects.anthropic.client import WIRE
from reasoning_replay.core.dialects.anthropic.heal.cure import (
    BETA,
    RefusedMessages,
    asking_to_drop,
    without_blocks,
)
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing_event,
    is_refusing_event,
)
from reasoning_replay.core.dialects.anthropic.placement import plan_injection
from reasoning_replay.core.dialects.anthropic.profiles import Profile, profile_of
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest, read_request
from reasoning_replay.core.dialects.base import Cure, Dialect, Readers
from reasoning_replay.core.dialects.cache_diagnoses import quoted
from reasoning_replay.core.dialects.refusal_memory import BLOB, KnownRefusals
from reasoning_replay.core.dialects.routes import DialectEntry, RoutePath
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.dialects.vendors import MESSAGES_VENDORS
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import Matches, match_refused
from reasoning_replay.core.history.plan import Plan

FOREIGN = "foreign"  # the repair that takes out reasoning that upstream has refused before
# Refusals that hold for all requests of a model.
_DIAGNOSTICS = "diagnostics"
_OF_MODELS = (RefusalKind.FIELD, RefusalKind.BINDING, RefusalKind.LACKS_REASONING)


@dataclass(frozen=True, slots=True)
class MessagesDialect(Dialect[MessagesRequest, Diagnosis]):
    """
    The Messages dialect at one upstream.

    Attributes:
        profile: Profile of the upstream.
        repairs: Repairs that are allowed before the first attempt.
        drops: Whether a cure may ask the API to leave out what is bound to another history.
    """

    name: ClassVar[str] = "messages"
    readers: ClassVar = Readers(
        read_request, MessagesCapture, diagnose, is_failing_event, is_refusing_event
    )

    profile: Profile
    repairs: Collection[str] = ()
    drops: bool = False

    @override
    def repaired(
        self, request: MessagesRequest, found: LookupResult, refused: KnownRefusals
    ) -> tuple[MessagesRequest, Mapping[str, int]]:
        # Takes out the client's blocks that upstream has refused.
        if FOREIGN not in self.repairs or refused.is_empty or not request.has_reasoning:
            return request, {}
        body, count = without_blocks(request, lambda _, item: refused.has(BLOB, item.blob))
        if not count:
            return request, {}
        return read_request.again(request, body), {FOREIGN: count}

    @override
    def plan(self, request: MessagesRequest, matched: Matches, refused: KnownRefusals) -> Plan:
        if refused.has(RefusalKind.FIELD, request.model):
            return Plan()
        return plan_injection(
            request,
            matched,
            self._profile_for(request, refused),
            refused.completes,
            demands=refused.has(RefusalKind.LACKS_REASONING, request.model),
        )

    @override
    def binding_of(self, request: MessagesRequest, refused: KnownRefusals) -> bytes:
        may_bind = self._profile_for(request, refused).may_bind(request.model)
        return prefix_of(request) if may_bind else b""

    @override
    def comparison_in(self, request: MessagesRequest, response_id: str) -> bytes:
        # The API compares only requests that carry the member, so the first one has it too.
        if _DIAGNOSTICS in request.values:
            return b""
        name = quoted(response_id) or b"null"
        return b',"%b":{"previous_message_id":%b}' % (_DIAGNOSTICS.encode(), name)

    @override
    def cure(
        self,
        sent: MessagesRequest,
        given: MessagesRequest,
        refusal: Diagnosis,
        usable: LookupResult,
        refused: KnownRefusals,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        profile = self._profile_for(sent, refused)
        is_about_binding = refusal.kind is RefusalKind.BINDING
        if is_about_binding:
            profile = replace(profile, binds=True)
        asked, _ = self.repaired(given, usable, refused)
        matched = match_refused(asked, usable)
        plan = plan_injection(asked, matched, profile, lambda _: True, demands=True)
        case = RefusedMessages(
            sent,
            given,
            refusal,
            plan=plan,
            turns=usable.turns,
            asked=asked,
            without_reasoning=without_reasoning,
        )
        cured = case.cure()
        asking = asking_to_drop(sent) if self.drops and is_about_binding else None
        if cured is None:
            return Cure(asking, header=BETA) if asking is not None else None
        if profile.may_bind(sent.model):
            cured = replace(cured, binding=prefix_of(read_request(cured.body, {})))
        if asking is None or cured.completed:
            return cured
        # Upstream leaves out what the cure leaves out, or less; the next request is cured anyway.
        return replace(cured, body=asking, header=BETA, is_clients_own=False)

    @override
    def lessons(self, refusal: Diagnosis, cure: Cure, model: str) -> Iterable[tuple[str, str]]:
        return [(refusal.kind, model)] if refusal.kind in _OF_MODELS else []

    def _profile_for(self, request: MessagesRequest, refused: KnownRefusals) -> Profile:
        """Return the profile of the upstream, with what a model taught within the last hour."""
        binds = refused.has(RefusalKind.BINDING, request.model)
        return replace(self.profile, binds=True) if binds else self.profile


def _made(profile: Profile, settings: Mapping[str, str]) -> MessagesDialect:
    drops = settings["messages_drop_block"] == "on"
    return MessagesDialect(profile, tuple(settings["repairs"].split(",")), drops)


_GOOGLE = "/publishers/anthropic/models"
# The clouds put the model into the path, and another word where Anthropic's API has `messages`. On
# Amazon Bedrock, models of this vendor alone. Its streams have another framing than server-sent
# events, so requests for one (`invoke-with-response-stream`) are passed through.
ENTRY = DialectEntry(
    MessagesDialect.name,
    profile_of,
    _made,
    WIRE,
    paths=(
        RoutePath(Route.MESSAGES, "POST", "/model/anthropic.{model}/invoke", creates=True),
        RoutePath(Route.MESSAGES, "POST", "/model/{region}.anthropic.{model}/invoke", creates=True),
        RoutePath(Route.COUNT_TOKENS, "POST", f"{_GOOGLE}/count-tokens:rawPredict"),
        RoutePath(Route.MESSAGES, "POST", f"{_GOOGLE}/{{model}}:rawPredict", creates=True),
        RoutePath(Route.MESSAGES, "POST", f"{_GOOGLE}/{{model}}:streamRawPredict", creates=True),
        RoutePath(Route.COUNT_TOKENS, "POST", "/messages/count_tokens"),
        RoutePath(Route.MESSAGES, "POST", "/messages", creates=True),
    ),
    others={"messages": Route.MESSAGES_OTHER},
    kinds=RefusalKind,
    settings=("repairs", "messages_drop_block"),
    repairs=(FOREIGN,),
    title="Messages API",
    base_path="",
    base_variable="ANTHROPIC_BASE_URL",
    vendors=MESSAGES_VENDORS,
    home="anthropic",
    has_error_events=True,
)
