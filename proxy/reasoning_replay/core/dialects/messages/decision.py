"""Request planner: decides how a request is changed, once the store lookup is done."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from msgspec import structs

from reasoning_replay.core.dialects.base import Caller, Decision, Question
from reasoning_replay.core.dialects.continuation import (
    NOTHING_FOUND,
    continuation_of,
    maybe_summary,
)
from reasoning_replay.core.dialects.messages.binding import prefix_of
from reasoning_replay.core.dialects.messages.heal.block_editor import without_blocks
from reasoning_replay.core.dialects.messages.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.messages.placement import plan_injection
from reasoning_replay.core.dialects.messages.profiles import Profile
from reasoning_replay.core.dialects.messages.request import MessagesRequest, read_request
from reasoning_replay.core.dialects.refusal_memory import BLOB, RefusalMemory
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.sent_items import SentItems, digests_of, sent_items

__all__ = ["FOREIGN", "MessagesSettings", "RequestPlanner"]

FOREIGN = "foreign"  # the repair that takes out reasoning that upstream has refused before
_NO_REPAIRS: Mapping[Any, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MessagesSettings:
    """
    The settings of this dialect, as plain values.

    Attributes:
        is_shadow: Whether requests are decided on but sent unchanged.
        profile: Profile of the upstream.
        repairs: Repairs that are allowed before the first attempt.
        capture_max_bytes: Largest event, and most that is kept of one response, in bytes.
        drops: Whether a cure may ask the API to leave out what is bound to another history.
    """

    is_shadow: bool
    profile: Profile
    repairs: Collection[str]
    capture_max_bytes: int
    drops: bool = False


class RequestPlanner:
    """Planner for the requests to one upstream. It changes no shared state."""

    def __init__(self, settings: MessagesSettings, refusals: RefusalMemory) -> None:
        """Keep the shared settings and the refusal memory, which is only read."""
        self._is_shadow = settings.is_shadow
        self._takes_out_foreign = FOREIGN in settings.repairs
        self._refusals = refusals
        self._profile = settings.profile

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question[MessagesRequest],
        found: LookupResult | None,
    ) -> Decision:
        """See `Dialect.decide`."""
        given, held = question.request, found or NOTHING_FOUND
        if held.turns:
            held = self._refusals.without_refused(caller.scope, held)
        request, repairs = given, _NO_REPAIRS
        if given.body is body and not self._is_shadow:  # no lone surrogate had to be replaced
            request, repairs = self.repaired(caller.scope, given)
        known = continuation_of(
            request, found, held, stores=False, switched_off=request.is_switched_off
        )
        scope, model, is_refused = caller.scope, request.model, self._refusals.is_refused
        if known.has_failed or is_refused(scope, RefusalKind.FIELD, model):
            plan, prefix = Plan(), self._prefix_of(scope, request)
        else:
            demands = is_refused(scope, RefusalKind.LACKS_REASONING, model)
            completes = partial(self._refusals.completes, scope)
            profile = self.profile_for(scope, model)
            plan, prefix = plan_injection(
                request, known.matched, profile, completes, demands=demands
            )
        if self._is_shadow:
            prefix = self._prefix_of(caller.scope, request)
        base = body if request is given else request.body
        return Decision(
            state=known.state,
            body=base if self._is_shadow else plan.apply(base),
            origin=structs.replace(known.origin, binding=prefix),
            repairs=repairs,
            outcomes=plan.outcomes,
            injected_bytes=0 if self._is_shadow else plan.injected_bytes,
            summary=maybe_summary(
                caller,
                request,
                plan.notes,
                lambda: _sent(request, plan if not self._is_shadow else Plan()),
            ),
            joined=known.joined,
            edits=plan.edits if base is body and not self._is_shadow else None,
        )

    def profile_for(self, scope: bytes, model: str) -> Profile:
        """Return the profile of the upstream, with what a model taught within the last hour."""
        binds = self._refusals.is_refused(scope, RefusalKind.BINDING, model)
        return replace(self._profile, binds=True) if binds else self._profile

    def _prefix_of(self, scope: bytes, request: MessagesRequest) -> bytes:
        """Return the digests of a request that is sent without edits."""
        may_bind = self.profile_for(scope, request.model).may_bind(request.model)
        return prefix_of(request) if may_bind else b""

    def repaired(
        self, scope: bytes, request: MessagesRequest
    ) -> tuple[MessagesRequest, Mapping[str, int]]:
        """Take out the client's blocks that upstream has refused, and parse the result again."""
        refusals = self._refusals
        if not (self._takes_out_foreign and request.has_reasoning and refusals.knows_tenant(scope)):
            return request, _NO_REPAIRS
        body, count = without_blocks(
            request, lambda _, item: refusals.is_refused(scope, BLOB, item.blob)
        )
        if not count:
            return request, _NO_REPAIRS
        again = read_request(body, {})
        again.model, again.hint = request.model, request.hint
        return again, {FOREIGN: count}


def _sent(request: MessagesRequest, plan: Plan) -> SentItems:
    """Return the digests of a request as it is sent."""
    if not plan.completed:  # no block is removed
        return sent_items(request.head, request.places, plan.edits)
    theirs = {place.item.raw for place in request.places}
    now = read_request(plan.apply(request.body), {})
    items = [place.item for place in now.places]
    added = (item for item in items if item.role is Role.REASONING and item.raw not in theirs)
    return sent_items(now.head, now.places)._replace(injected=digests_of(added))
