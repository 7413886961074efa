"""Chat dialect: the Chat Completions API as data and readers for the engine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure, Dialect, Readers
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.chat.client import WIRE
from reasoning_replay.core.dialects.chat.demanded import (
    DemandedMatches,
    lookups_of_calls,
    match_demanded,
)
from reasoning_replay.core.dialects.chat.heal.cure import RefusedChat, learnt_of, lessons
from reasoning_replay.core.dialects.chat.heal.diagnosis import (
    Demand,
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing,
    is_refusing,
    maybe_failing,
)
from reasoning_replay.core.dialects.chat.heal.fillers import with_fillers_for
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import Policy, Profile, Rounds, profile_of
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.routes import DialectEntry, RoutePath
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult, keys_of_request
from reasoning_replay.core.history.matching.matches import Matches, match_items, match_refused
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.turns import Lesson, Turn

# The kind of what a conversation taught about reasoning that upstream demands: of which messages,
# if only then these are known (`match_demanded`); and that calls get back the ids that it names.
DEMANDED = "demanded"
IDS = "ids"


@dataclass(frozen=True, slots=True)
class ChatDialect(Dialect[ChatRequest, Diagnosis]):
    """
    The Chat Completions dialect at one upstream.

    Attributes:
        profile: Profile of the upstream.
        rounds: Rounds that get reasoning; None: as the profile says.
        fills: Whether a message may say that there is no reasoning, if upstream demands it.
    """

    name: ClassVar[str] = "chat"
    readers: ClassVar = Readers(
        read_request, ChatCapture, diagnose, is_failing, is_refusing, maybe_failing
    )

    profile: Profile
    rounds: Rounds | None = None
    fills: bool = False

    @override
    def match(self, request: ChatRequest, found: LookupResult, refused: KnownRefusals) -> Matches:
        demand = _demand_known(refused)
        if demand is None:
            return match_items(request, found)
        if request.decided.items:
            raise Reopened  # calls decide about the whole history
        return match_demanded(request, refused.without_refused(found), demand)

    @override
    def plan(self, request: ChatRequest, matched: Matches, refused: KnownRefusals) -> Plan:
        policy = self._policy_for(request, refused)
        return plan_injection(request, matched, policy, refused.completes)

    @override
    def finished(
        self, request: ChatRequest, plan: Plan, parent: Turn | None, refused: KnownRefusals
    ) -> Plan:
        fillers = learnt_of(refused, request.model).fillers
        if not fillers or request.is_mended or request.is_switched_off:
            return plan
        return with_fillers_for(request, plan, fillers)

    @override
    def lookups_for_cure(self, sent: ChatRequest, refusal: Diagnosis) -> Sequence[Lookup]:
        asked = keys_of_request(sent)
        is_lacking = refusal.kind is RefusalKind.LACKS_REASONING
        return [*asked, *lookups_of_calls(sent)] if is_lacking else asked

    @override
    def cure(
        self,
        sent: ChatRequest,
        given: ChatRequest,
        refusal: Diagnosis,
        usable: LookupResult,
        refused: KnownRefusals,
        *,
        without_reasoning: bool = False,
    ) -> Cure | None:
        policy = self._policy_for(given, refused)
        is_lacking = refusal.kind is RefusalKind.LACKS_REASONING
        if is_lacking:
            policy = replace(policy, demands=True, restores_ids=True)
        demand = _demand_known(refused)
        if is_lacking:
            is_tried = demand is None and not self.fills
            matched: Matches = match_demanded(given, usable, refusal.demand, is_tried=is_tried)
        elif demand is not None:
            matched = match_demanded(given, usable, demand)
        else:
            matched = match_refused(given, usable)
        plan = plan_injection(given, matched, policy, lambda _: True)
        turns = usable.turns
        case = RefusedChat(
            sent,
            given,
            refusal,
            plan=plan,
            turns=turns,
            fills=self.fills,
            without_reasoning=without_reasoning,
        )
        cured = case.cure()
        if cured is None or not is_lacking:
            return cured
        learnt = []
        if isinstance(matched, DemandedMatches) and matched.is_taught:
            learnt.append(str(refusal.demand))
        if plan_injection(given, matched, replace(policy, restores_ids=False)).edits != plan.edits:
            learnt.append(IDS)
        return replace(
            cured, matched=matched, lessons=tuple(Lesson(DEMANDED, what) for what in learnt)
        )

    @override
    def lessons(self, refusal: Diagnosis, cure: Cure, model: str) -> Iterable[tuple[str, str]]:
        return lessons(refusal, cure, model)

    def _policy_for(self, request: ChatRequest, refused: KnownRefusals) -> Policy:
        """Return the limits for a request, with what its model taught within the last hour."""
        learnt = learnt_of(refused, request.model)
        return Policy(
            self.profile,
            self.rounds,
            learnt.refused,
            demands=learnt.demands,
            restores_ids=refused.has(DEMANDED, IDS),
        )


def _demand_known(refused: KnownRefusals) -> Demand | None:
    """Return what upstream demands in a conversation whose calls decide; None: they need not."""
    known = [demand for demand in Demand if refused.has(DEMANDED, demand)]
    return known[-1] if known else None


def _made(profile: Profile, settings: Mapping[str, str]) -> ChatDialect:
    rounds = settings["chat_rounds"]
    return ChatDialect(
        profile,
        rounds=None if rounds == "profile" else Rounds(rounds),
        fills=settings["chat_fill"] == "on",
    )


ENTRY = DialectEntry(
    ChatDialect.name,
    profile_of,
    _made,
    WIRE,
    paths=(RoutePath(Route.CHAT, "POST", "/chat/completions", creates=True),),
    others={"chat/completions": Route.CHAT_OTHER},
    kinds=RefusalKind,
    settings=("chat_rounds", "chat_fill"),
    finds_carriers=True,
)
