"""Chat dialect: the Chat Completions API as data and readers for the engine."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from typing_extensions import override

from reasoning_replay.core.dialects.base import Cure, Dialect, Readers
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.chat.heal.cure import RefusedChat, learnt_of, lessons
from reasoning_replay.core.dialects.chat.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing,
    is_refusing,
    maybe_failing,
)
from reasoning_replay.core.dialects.chat.heal.fillers import with_fillers_for
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import Policy, Profile, Rounds
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request, sent_messages
from reasoning_replay.core.dialects.refusal_memory import KnownRefusals
from reasoning_replay.core.dialects.routes import DialectEntry, RoutePath
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.matching.matches import Matches, match_items
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.sent_items import SentItems
from reasoning_replay.core.history.turns import Turn


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
    def plan(self, request: ChatRequest, matched: Matches, refused: KnownRefusals) -> Plan:
        policy = self._policy_for(request, refused)
        return plan_injection(request, matched, policy, refused.completes)

    @override
    def may_go_on(self, new: ChatRequest) -> bool:
        if not Policy(self.profile, self.rounds).is_current_only:
            return True
        items = [place.item for place in new.places]
        return not any(item.role is Role.CLIENT and item.type == "message" for item in items)

    @override
    def finished(
        self, request: ChatRequest, plan: Plan, parent: Turn | None, refused: KnownRefusals
    ) -> Plan:
        fillers = learnt_of(refused, request.model).fillers
        if not fillers or request.is_mended or request.is_switched_off:
            return plan
        return with_fillers_for(request, plan, fillers)

    @override
    def sent(self, request: ChatRequest, plan: Plan) -> SentItems:
        return sent_messages(request, plan)

    @override
    def cure(
        self,
        sent: ChatRequest,
        given: ChatRequest,
        refusal: Diagnosis,
        held: LookupResult,
        refused: KnownRefusals,
        *,
        is_last: bool = False,
    ) -> Cure | None:
        policy = self._policy_for(given, refused)
        if refusal.kind is RefusalKind.LACKS_REASONING:
            policy = replace(policy, demands=True)
        matched = match_items(given, held, anew=True)
        plan = plan_injection(given, matched, policy, lambda _: True)
        turns = held.turns
        case = RefusedChat(
            sent, given, refusal, plan=plan, turns=turns, fills=self.fills, is_last=is_last
        )
        return case.cure()

    @override
    def lessons(self, refusal: Diagnosis, cure: Cure, model: str) -> Iterable[tuple[str, str]]:
        return lessons(refusal, cure, model)

    def _policy_for(self, request: ChatRequest, refused: KnownRefusals) -> Policy:
        """Return the limits for a request, with what its model taught within the last hour."""
        learnt = learnt_of(refused, request.model)
        return Policy(self.profile, self.rounds, learnt.refused, demands=learnt.demands)


ENTRY = DialectEntry(
    ChatDialect.name,
    paths=(RoutePath(Route.CHAT, "POST", "/chat/completions", creates=True),),
    others={"chat/completions": Route.CHAT_OTHER},
    kinds=RefusalKind,
)
