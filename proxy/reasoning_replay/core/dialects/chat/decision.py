"""Request planner: decides how a request is changed, once the store lookup is done."""

from dataclasses import dataclass

from reasoning_replay.core.dialects.base import Caller, Decision, Question
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import Policy, Profile, Rounds
from reasoning_replay.core.dialects.chat.request import ChatRequest
from reasoning_replay.core.dialects.continuation import (
    NOTHING_FOUND,
    continuation_of,
    maybe_summary,
)
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Plan

__all__ = ["ChatSettings", "RequestPlanner"]


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """
    The settings of this dialect, as plain values.

    Attributes:
        is_shadow: Whether requests are decided on but sent unchanged.
        profile: Profile of the upstream.
        rounds: Rounds that get reasoning; None: as the profile says.
        capture_max_bytes: Largest event, and most that is kept of one response, in bytes.
    """

    is_shadow: bool
    profile: Profile
    rounds: Rounds | None
    capture_max_bytes: int


class RequestPlanner:
    """Planner for the requests to one upstream. It changes no shared state."""

    def __init__(self, settings: ChatSettings) -> None:
        """Keep the shared settings."""
        self._is_shadow = settings.is_shadow
        self.policy = Policy(settings.profile, settings.rounds)

    def decide(
        self,
        caller: Caller,  # noqa: ARG002 (for the memory of refusals)
        body: bytes,
        question: Question[ChatRequest],
        found: LookupResult | None,
    ) -> Decision:
        """See `Dialect.decide`."""
        request, held = question.request, found or NOTHING_FOUND
        known = continuation_of(
            request, found, held, stores=False, switched_off=request.is_switched_off
        )
        plan = Plan() if known.has_failed else plan_injection(request, known.matched, self.policy)
        is_sent = not self._is_shadow
        return Decision(
            state=known.state,
            body=plan.apply(body) if is_sent else body,
            origin=known.origin,
            outcomes=plan.outcomes,
            injected_bytes=plan.injected_bytes if is_sent else 0,
            summary=maybe_summary(request, plan.notes),
            joined=known.joined,
        )
