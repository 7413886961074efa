"""Chat dialect: the Chat Completions API as an implementation of `Dialect`."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from reasoning_replay.core.dialects.base import Caller, Cure, Decision, Question, RefusedBodies
from reasoning_replay.core.dialects.captures import ErrorNames, Origin
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.dialects.chat.decision import ChatSettings, RequestPlanner
from reasoning_replay.core.dialects.chat.heal.cure import RefusedChat, cure
from reasoning_replay.core.dialects.chat.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing,
    is_refusal,
    is_refusing,
    maybe_failing,
)
from reasoning_replay.core.dialects.chat.heal.memory import ChatRefusals
from reasoning_replay.core.dialects.chat.placement import plan_injection
from reasoning_replay.core.dialects.chat.request import ChatRequest, ParsedMessages, read_request
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.turns import Context, Reasoning
from reasoning_replay.core.tenancy.scope import Account

__all__ = ["ChatDialect"]

# Enough for the parsed messages of about twenty long conversations in flight.
PREFIXES_MAX_BYTES = 24 << 20
_UNKNOWN = Origin(context=Context(), model="")


class ChatDialect:
    """The Chat Completions dialect for one upstream."""

    name = "chat"

    def __init__(
        self,
        settings: ChatSettings,
        clock: Callable[[], float],
        lock: AbstractContextManager[object],
    ) -> None:
        """
        Create the state that all exchanges share.

        Args:
            settings: Plain values.
            clock: Monotonic clock, in seconds.
            lock: Lock of the prefix cache, which several threads use.
        """
        self._capture_max_bytes = settings.capture_max_bytes
        self._fills = settings.fills
        self._refusals = ChatRefusals(clock)
        self._planner = RequestPlanner(settings, self._refusals)
        self._prefixes: PrefixCache[ParsedMessages] = PrefixCache(PREFIXES_MAX_BYTES, lock)

    # Requests

    def ask(
        self,
        body: bytes,
        headers: Mapping[str, str],
        scope: bytes,
        path: str = "",  # noqa: ARG002 (the body names the model)
    ) -> Question[ChatRequest]:
        """See `Dialect.ask`."""
        request = read_request(body, headers, self._prefixes, scope)
        return Question(request, keys_of_request(request))

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question[ChatRequest],
        found: LookupResult | None,
        *,
        is_created: bool,  # noqa: ARG002 (every request creates a response)
    ) -> Decision:
        """See `Dialect.decide`."""
        return self._planner.decide(caller, body, question, found)

    # Responses

    def capture(self, origin: Origin | None) -> ChatCapture:
        """See `Dialect.capture`."""
        return ChatCapture(origin or _UNKNOWN, self._capture_max_bytes)

    def retrieved(self, path: str) -> str:  # noqa: ARG002 (no request fetches a completion)
        """See `Dialect.retrieved`."""
        return ""

    def origin_of(self, response_id: str, found: LookupResult) -> Origin | None:  # noqa: ARG002
        """See `Dialect.origin_of`."""
        return None

    # Refusals

    def is_refusal(self, status: int) -> bool:
        """See `Dialect.is_refusal`."""
        return is_refusal(status)

    def maybe_failing(self, start: bytes) -> bool | None:
        """See `Dialect.maybe_failing`."""
        return maybe_failing(start)

    def is_failing_event(self, data: bytes) -> bool:
        """See `Dialect.is_failing_event`."""
        return is_failing(data)

    def is_refusing_event(self, data: bytes) -> bool:
        """See `Dialect.is_refusing_event`."""
        return is_refusing(data)

    def error_names(self, body: bytes) -> ErrorNames:
        """See `Dialect.error_names`."""
        return error_names(body)

    def diagnose(self, status: int, body: bytes) -> Diagnosis:
        """See `Dialect.diagnose`."""
        return diagnose(status, body)

    def ask_for_cure(
        self,
        bodies: RefusedBodies,
        refusal: Diagnosis,  # noqa: ARG002 (a refusal names no id)
    ) -> Question[ChatRequest]:
        """See `Dialect.ask_for_cure`."""
        given = read_request(bodies.given, {})
        return Question(given, keys_of_request(given))

    def cure(
        self,
        scope: bytes | None,
        bodies: RefusedBodies,
        question: Question[ChatRequest],
        refusal: Diagnosis,
        found: LookupResult,
    ) -> Cure | None:
        """See `Dialect.cure`."""
        given = question.request
        if given.body is not bodies.given:  # it has a lone surrogate, so it cannot be edited
            return Cure(bodies.given, is_clients_own=True) if bodies.is_edited else None
        sent = read_request(bodies.sent, {}) if bodies.is_edited else given
        held, policy = found, self._planner.policy
        if scope is not None:
            held = self._refusals.without_refused(scope, found)
            learnt = self._refusals.learnt(scope, given.model)
            policy = replace(policy, refused=learnt.refused, demands=learnt.demands)
        if refusal.kind is RefusalKind.LACKS_REASONING:
            policy = replace(policy, demands=True)
        matched = match_items(given, held, anew=True)
        plan = plan_injection(given, matched, policy, lambda _: True)
        planned = plan.apply(given.body)
        case = RefusedChat(sent, given, refusal, planned, found.turns, self._fills, plan.completed)
        return cure(case)

    def learn(self, scope: bytes, refusal: Diagnosis, cure: Cure, model: str) -> None:
        """See `Dialect.learn`."""
        self._refusals.learn(scope, refusal, cure, model)

    def note_issued(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """See `Dialect.note_issued`."""
