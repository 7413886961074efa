"""Messages dialect: the Anthropic Messages API as an implementation of `Dialect`."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from reasoning_replay.core.dialects.base import Caller, Cure, Decision, Question, RefusedBodies
from reasoning_replay.core.dialects.captures import ErrorNames, Origin
from reasoning_replay.core.dialects.error_texts import error_names
from reasoning_replay.core.dialects.messages.binding import prefix_of
from reasoning_replay.core.dialects.messages.capture import MessagesCapture
from reasoning_replay.core.dialects.messages.decision import MessagesSettings, RequestPlanner
from reasoning_replay.core.dialects.messages.heal.block_dropping import BETA, asking_to_drop
from reasoning_replay.core.dialects.messages.heal.cure import Planned, RefusedMessages, cure
from reasoning_replay.core.dialects.messages.heal.diagnosis import (
    Diagnosis,
    RefusalKind,
    diagnose,
    is_failing_event,
    is_refusal,
    is_refusing_event,
)
from reasoning_replay.core.dialects.messages.placement import plan_injection
from reasoning_replay.core.dialects.messages.request import (
    MessagesRequest,
    ParsedMessages,
    read_request,
)
from reasoning_replay.core.dialects.refusal_memory import RefusalMemory
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.matching.matches import match_items
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.turns import Context, Reasoning
from reasoning_replay.core.tenancy.scope import Account

__all__ = ["MessagesDialect"]

# Enough for the parsed messages of about twenty long conversations in flight.
PREFIXES_MAX_BYTES = 24 << 20
_UNKNOWN = Origin(context=Context(), model="")
# Refusals that hold for all requests of a model.
_OF_MODELS = (RefusalKind.FIELD, RefusalKind.BINDING, RefusalKind.LACKS_REASONING)


class MessagesDialect:
    """The Messages dialect for one upstream."""

    name = "messages"

    def __init__(
        self,
        settings: MessagesSettings,
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
        self._drops = settings.drops
        self._refusals = RefusalMemory(clock)
        self._planner = RequestPlanner(settings, self._refusals)
        self._prefixes: PrefixCache[ParsedMessages] = PrefixCache(PREFIXES_MAX_BYTES, lock)

    # Requests

    def ask(
        self, body: bytes, headers: Mapping[str, str], scope: bytes, path: str = ""
    ) -> Question[MessagesRequest]:
        """See `Dialect.ask`."""
        request = read_request(body, headers, self._prefixes, scope, path)
        return Question(request, keys_of_request(request))

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question[MessagesRequest],
        found: LookupResult | None,
        *,
        is_created: bool,  # noqa: ARG002 (a count of tokens has the same input)
    ) -> Decision:
        """See `Dialect.decide`."""
        return self._planner.decide(caller, body, question, found)

    # Responses

    def capture(self, origin: Origin | None) -> MessagesCapture:
        """See `Dialect.capture`."""
        return MessagesCapture(origin or _UNKNOWN, self._capture_max_bytes)

    def retrieved(self, path: str) -> str:  # noqa: ARG002 (no request fetches a response)
        """See `Dialect.retrieved`."""
        return ""

    def origin_of(self, response_id: str, found: LookupResult) -> Origin | None:  # noqa: ARG002
        """See `Dialect.origin_of`."""
        return None

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

    def diagnose(self, status: int, body: bytes) -> Diagnosis:
        """See `Dialect.diagnose`."""
        return diagnose(status, body)

    def error_names(self, body: bytes) -> ErrorNames:
        """See `Dialect.error_names`."""
        return error_names(body)

    def ask_for_cure(self, bodies: RefusedBodies, refusal: Diagnosis) -> Question[MessagesRequest]:  # noqa: ARG002
        """See `Dialect.ask_for_cure`."""
        sent = read_request(bodies.sent, {}, path=bodies.path)
        return Question(sent, keys_of_request(sent))

    def cure(
        self,
        scope: bytes | None,
        bodies: RefusedBodies,
        question: Question[MessagesRequest],
        refusal: Diagnosis,
        found: LookupResult,
    ) -> Cure | None:
        """See `Dialect.cure`."""
        sent = question.request
        if sent.body is not bodies.sent:  # it has a lone surrogate, so it cannot be edited
            return Cure(bodies.given, is_clients_own=True) if bodies.is_edited else None
        given = read_request(bodies.given, {}, path=bodies.path) if bodies.is_edited else sent
        held = self._refusals.without_refused(scope, found) if scope is not None else found
        profile = self._planner.profile_for(scope or b"", sent.model)
        is_about_binding = refusal.kind is RefusalKind.BINDING
        if is_about_binding:
            profile = replace(profile, binds=True)

        def planned() -> Planned:
            asked = given if scope is None else self._planner.repaired(scope, given)[0]
            matched = match_items(asked, held, anew=True)
            plan, _ = plan_injection(asked, matched, profile, lambda _: True, demands=True)
            starts = {start: index for index, (start, _) in enumerate(asked.messages)}
            completed = {starts[start]: of for start, of in plan.completed.items()}
            return Planned(plan.apply(asked.body), completed)

        cured = cure(RefusedMessages(sent, given, refusal, planned, held.turns))
        asking = asking_to_drop(sent) if self._drops and is_about_binding else None
        if cured is None:
            return Cure(asking, header=BETA) if asking is not None else None
        # Turns as stored: runs withheld for an hour only must not be withheld for good.
        named = {turn.id for turn in cured.withheld}
        cured = replace(
            cured,
            withheld=tuple(turn for turn in found.turns if turn.id in named),
            binding=prefix_of(read_request(cured.body, {}))
            if profile.may_bind(sent.model)
            else b"",
        )
        if asking is None or cured.completed:
            return cured
        # Upstream leaves out what the cure leaves out, or less; the next request is cured anyway.
        return replace(cured, body=asking, header=BETA, is_clients_own=False)

    def learn(self, scope: bytes, refusal: Diagnosis, cure: Cure, model: str) -> None:
        """See `Dialect.learn`."""
        self._refusals.learn(scope, cure)
        if refusal.kind in _OF_MODELS:
            self._refusals.refuse(scope, refusal.kind, model)

    def note_issued(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """See `Dialect.note_issued`; a block names no account that a request names as well."""
