"""Request planner: decides how a request is changed, once the store lookup is done."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from reasoning_replay.core.dialects.base import Caller, Decision, Question
from reasoning_replay.core.dialects.chat.heal.fillers import with_known_fillers
from reasoning_replay.core.dialects.chat.heal.memory import ChatRefusals
from reasoning_replay.core.dialects.chat.heal.message_editor import messages_of
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.profiles import Policy, Profile, Rounds
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.dialects.chat.sent_messages import sent_messages
from reasoning_replay.core.dialects.continuation import (
    NOTHING_FOUND,
    continuation_of,
    maybe_summary,
)
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Outcome, Plan, PlanNote
from reasoning_replay.core.history.sent_items import SentItems

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
        fills: Whether a message may say that there is no reasoning, if upstream demands it.
    """

    is_shadow: bool
    profile: Profile
    rounds: Rounds | None
    capture_max_bytes: int
    fills: bool = False


class RequestPlanner:
    """Planner for the requests to one upstream. It changes no shared state."""

    def __init__(self, settings: ChatSettings, refusals: ChatRefusals) -> None:
        """Keep the shared settings and the memory of refusals, which is only read."""
        self._refusals = refusals
        self._is_shadow = settings.is_shadow
        self.policy = Policy(settings.profile, settings.rounds)

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question[ChatRequest],
        found: LookupResult | None,
    ) -> Decision:
        """See `Dialect.decide`."""
        request, held = question.request, found or NOTHING_FOUND
        held = self._refusals.without_refused(caller.scope, held)
        known = continuation_of(
            request, found, held, stores=False, switched_off=request.is_switched_off
        )
        learnt = self._refusals.learnt(caller.scope, request.model)
        policy = self.policy
        if any(learnt):
            policy = replace(policy, refused=learnt.refused, demands=learnt.demands)
        plan = Plan()
        if not known.has_failed:
            completes = partial(self._refusals.completes, caller.scope)
            plan = plan_injection(request, known.matched, policy, completes)
        is_sent = not self._is_shadow
        outcomes, sent = plan.outcomes, plan.apply(body) if is_sent else body
        may_fill = is_sent and request.body is body and not request.is_switched_off
        filled_in: list[int] = []
        if learnt.fillers and may_fill:
            sent, filled_in = with_known_fillers(sent, learnt.fillers)
        if filled_in:
            outcomes = {**outcomes, Outcome.DEGRADED: len(filled_in)}
        return Decision(
            state=known.state,
            body=sent,
            origin=known.origin,
            outcomes=outcomes,
            injected_bytes=plan.injected_bytes if is_sent else 0,
            summary=maybe_summary(
                caller,
                request,
                (*plan.notes, *_notes_of(request, filled_in)),
                lambda: _sent(request, plan if is_sent else Plan(), sent if filled_in else None),
            ),
            joined=known.joined,
            edits=None if filled_in or not is_sent else plan.edits,
        )


def _notes_of(request: ChatRequest, filled_in: Sequence[int]) -> Iterator[PlanNote]:
    """Yield a note at the first item of each message with a filler; its reasoning is unknown."""
    if not filled_in:
        return
    given = messages_of(request)
    places: dict[int, int] = {}
    for index, place in enumerate(request.places):
        places.setdefault(place.item.message.start, index)
    for message in filled_in:
        if given[message].start in places:
            yield PlanNote(places[given[message].start], Outcome.DEGRADED)


def _sent(request: ChatRequest, plan: Plan, filled: bytes | None) -> SentItems:
    """Return the digests of a request; `filled` is its body with fillers, if it has some."""
    digests = sent_messages(request, plan)
    if filled is None:
        return digests
    return sent_messages(read_request(filled, {}))._replace(injected=digests.injected)
