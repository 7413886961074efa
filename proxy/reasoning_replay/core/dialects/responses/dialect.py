"""Responses dialect: OpenAI's Responses API as an implementation of `Dialect`."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from reasoning_replay.core.dialects.base import Caller, Cure, Decision, Question, RefusedBodies
from reasoning_replay.core.dialects.captures import ErrorNames, Origin
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.responses.decision import RequestPlanner, ResponsesSettings
from reasoning_replay.core.dialects.responses.heal.cure import cure, lookups_for
from reasoning_replay.core.dialects.responses.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing_event,
    is_refusal,
    is_refusing_event,
)
from reasoning_replay.core.dialects.responses.request import ParsedInput, Request, read_request
from reasoning_replay.core.dialects.responses.routes import retrieved
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.turns import Context, Reasoning, turn_id
from reasoning_replay.core.tenancy.scope import Account

__all__ = ["ResponsesDialect"]

# Enough for the parsed inputs of about twenty long conversations in flight.
PREFIXES_MAX_BYTES = 24 << 20
# Refusals that concern the model, and are expected from it for an hour after a cure.
_OF_MODEL = frozenset({RefusalKind.INCLUDE, RefusalKind.NO_REASONING_MODEL})
_UNKNOWN = Origin(context=Context(), model="")


class ResponsesDialect:
    """The Responses dialect for one upstream."""

    name = "responses"

    def __init__(
        self,
        settings: ResponsesSettings,
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
        self._refusals = RefusalMemory(clock)
        self._planner = RequestPlanner(settings, self._refusals)
        self._prefixes: PrefixCache[ParsedInput] = PrefixCache(PREFIXES_MAX_BYTES, lock)

    # Requests

    def ask(
        self,
        body: bytes,
        headers: Mapping[str, str],
        scope: bytes,
        path: str = "",  # noqa: ARG002 (the body names the model)
    ) -> Question[Request]:
        """See `Dialect.ask`."""
        request = read_request(body, headers, self._prefixes, scope)
        return Question(request, keys_of_request(request))

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
        return self._planner.decide(caller, body, question, found, is_created=is_created)

    # Responses

    def capture(self, origin: Origin | None) -> ResponsesCapture:
        """See `Dialect.capture`."""
        return ResponsesCapture(origin or _UNKNOWN, self._capture_max_bytes)

    def retrieved(self, path: str) -> str:
        """See `Dialect.retrieved`."""
        return retrieved(path)

    def origin_of(self, response_id: str, found: LookupResult) -> Origin | None:
        """See `Dialect.origin_of`."""
        this = turn_id(response_id)
        begun = next((turn for turn in found.turns if turn.id == this), None)
        if begun is None:
            return _UNKNOWN
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
        )

    # Refusals

    def is_refusal(self, status: int) -> bool:
        """See `Dialect.is_refusal`."""
        return is_refusal(status)

    def maybe_failing(self, start: bytes) -> bool | None:  # noqa: ARG002 (no start is an error)
        """See `Dialect.maybe_failing`; this API always sends a status that tells."""
        return False

    def is_failing_event(self, data: bytes) -> bool:
        """See `Dialect.is_failing_event`."""
        return is_failing_event(data)

    def is_refusing_event(self, data: bytes) -> bool:
        """See `Dialect.is_refusing_event`."""
        return is_refusing_event(data)

    def error_names(self, body: bytes) -> ErrorNames:
        """See `Dialect.error_names`."""
        return error_names(body)

    def diagnose(self, status: int, body: bytes) -> Diagnosis:
        """See `Dialect.diagnose`."""
        return diagnose(status, body)

    def ask_for_cure(self, bodies: RefusedBodies, refusal: Diagnosis) -> Question[Request]:
        """See `Dialect.ask_for_cure`."""
        sent = read_request(bodies.sent, {})
        return Question(sent, lookups_for(sent, refusal))

    def cure(
        self,
        scope: bytes | None,
        bodies: RefusedBodies,
        question: Question[Request],
        refusal: Diagnosis,
        found: LookupResult,
    ) -> Cure | None:
        """See `Dialect.cure`."""
        sent = question.request
        if sent.body is not bodies.sent:  # it has a lone surrogate, so it cannot be edited
            return Cure(bodies.given, is_clients_own=True) if bodies.is_edited else None
        given = read_request(bodies.given, {}) if bodies.is_edited else sent
        held = self._refusals.without_refused(scope, found) if scope is not None else found
        profile = self._planner.profile_for(scope or b"", sent.model)
        cured = cure(sent, given, refusal, held, profile)
        if cured is None or not cured.withheld:
            return cured
        # Turns as stored: runs withheld for an hour only must not be withheld for good.
        named = {turn.id for turn in cured.withheld}
        return replace(cured, withheld=tuple(t for t in found.turns if t.id in named))

    def learn(self, scope: bytes, refusal: Diagnosis, cure: Cure, model: str) -> None:
        """See `Dialect.learn`."""
        self._refusals.learn(scope, cure)
        if refusal.kind in _OF_MODEL or refusal.member == "phase":
            self._refusals.refuse(scope, refusal.kind, family(model))

    def note_issued(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """See `Dialect.note_issued`."""
        self._refusals.issue(account, reasoning)
