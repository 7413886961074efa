"""
Engine: the way of a request, which is the same in every dialect.

    ask -> (look up) -> decide -> (send) -> capture; if it is refused: ask -> cure -> learn

A dialect is data and readers (`base.Dialect`). The engine holds all state: the prefix cache and the
refusal memory. Both are bounded, and every call may run in a thread.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from msgspec import structs

from reasoning_replay.core.dialects.base import (
    Caller,
    Cure,
    Decision,
    Dialect,
    Question,
    Refusal,
    RefusedBodies,
)
from reasoning_replay.core.dialects.captures import UNKNOWN_ORIGIN, Capture, Origin
from reasoning_replay.core.dialects.continuation import NOTHING_FOUND, continuation_of
from reasoning_replay.core.dialects.refusal_memory import BLOB, DAMAGED, RefusalMemory
from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.dialects.states import RequestState
from reasoning_replay.core.history.item_summary import ItemSummary, summarise
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.lookup_keys import LookupResult, keys_of_request
from reasoning_replay.core.history.plan import Plan
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.history.sent_items import NOT_SENT, SentItems
from reasoning_replay.core.history.turns import Reasoning
from reasoning_replay.core.tenancy.scope import Account

__all__ = ["Engine"]

# Enough for the parsed histories of about twenty long conversations in flight.
PREFIXES_MAX_BYTES = 24 << 20
_NO_PLAN = Plan()
_NO_REPAIRS: Mapping[str, int] = MappingProxyType({})


class Engine:
    """
    The engine of one dialect at one upstream.

    Attributes:
        name: Name of the dialect.
        readers: Its readers.
    """

    def __init__(
        self,
        dialect: Dialect[Any, Any],
        clock: Callable[[], float],
        lock: AbstractContextManager[object],
        capture_max_bytes: int,
        *,
        is_shadow: bool = False,
    ) -> None:
        """
        Create the state that all exchanges share.

        Args:
            dialect: The wire format.
            clock: Monotonic clock, in seconds.
            lock: Lock of the prefix cache, which several threads use.
            capture_max_bytes: Largest event, and most that is kept of one response, in bytes.
            is_shadow: Whether requests are decided on but sent unchanged.
        """
        self.name = dialect.name
        self.readers = dialect.readers
        self._dialect = dialect
        self._read = dialect.readers.request
        self._capture_max_bytes = capture_max_bytes
        self._is_shadow = is_shadow
        self._refusals = RefusalMemory(clock)
        self._prefixes: PrefixCache[HistoryPrefix[Any]] = PrefixCache(PREFIXES_MAX_BYTES, lock)

    # Requests

    def ask(
        self, body: bytes, headers: Mapping[str, str], scope: bytes, path: str = ""
    ) -> Question:
        """
        Parse a request and return the store lookups that it needs.

        The path, without its query, names the model in some dialects.

        Raises:
            TooMany: The request has too many items or values to process.
            Unspliceable: Parsers could disagree on the body; it must be forwarded unchanged.
        """
        request = self._read(body, headers, self._prefixes, scope, path)
        return Question(request, keys_of_request(request))

    def decide(
        self,
        caller: Caller,
        body: bytes,
        question: Question,
        found: LookupResult | None,
        *,
        is_created: bool,
    ) -> Decision:
        """
        Decide which reasoning a request lacks, and inject it.

        Args:
            caller: Scope and account of the request.
            body: Body as the client sent it, after content decoding.
            question: Result of `ask`.
            found: Result of the lookups; None if the store did not respond.
            is_created: Whether the request creates a response that will be captured.
        """
        dialect, given = self._dialect, question.request
        refused = self._refusals.known_to(caller.scope, caller.account)
        held = refused.without_refused(found or NOTHING_FOUND)
        request, repairs = given, _NO_REPAIRS
        if not given.is_mended:
            request, repairs = dialect.repaired(given, held, refused)
        known = continuation_of(request, found, held)
        plan = sent = _NO_PLAN
        if not known.has_failed:
            plan = sent = dialect.plan(request, known.matched, refused)
        edited = request
        if self._is_shadow:
            edited, sent = given, _NO_PLAN
        elif is_created:
            plan = sent = dialect.finished(request, plan, known.parent, refused)
        base = body if edited is given else edited.body
        origin, binding = known.origin, sent.binding
        if binding is None:
            binding = dialect.binding_of(edited, refused)
        if binding:
            origin = structs.replace(origin, binding=binding)

        def digests() -> SentItems:
            return dialect.sent(edited, sent) if caller.is_watched else NOT_SENT

        return Decision(
            state=RequestState.STATEFUL if request.is_stateful else known.state,
            body=sent.apply(base),
            origin=origin,
            repairs=repairs,
            outcomes=plan.outcomes,
            injected_bytes=sent.injected_bytes,
            summary=_maybe_summary(request, plan, digests),
            joined=known.joined,
            edits=sent.edits if base is body else None,
        )

    # Responses

    def capture(self, origin: Origin | None) -> Capture:
        """Return the capture for a response; `origin` is None if the request is unknown."""
        return self.readers.capture(origin or UNKNOWN_ORIGIN, self._capture_max_bytes)

    def note_issued(self, account: Account, reasoning: Iterable[Reasoning]) -> None:
        """Record for which account upstream issued the reasoning of a response."""
        if self._dialect.has_accounts:
            self._refusals.issue(account, reasoning)

    # Refusals

    def ask_for_cure(self, bodies: RefusedBodies, refusal: Refusal) -> Question:
        """
        Parse a refused request and return the store lookups that a cure needs.

        Raises:
            Unspliceable: The body cannot be parsed safely.
        """
        sent = self._read(bodies.sent, {}, path=bodies.path)
        return Question(sent, self._dialect.lookups_for_cure(sent, refusal))

    def cure(
        self,
        scope: bytes | None,
        bodies: RefusedBodies,
        question: Question,
        refusal: Refusal,
        found: LookupResult,
    ) -> Cure | None:
        """Return the request to send instead of a refused one; None to forward the refusal."""
        sent = question.request
        if sent.is_mended:  # it has a lone surrogate, so it cannot be edited
            return Cure(bodies.given, is_clients_own=True) if bodies.is_edited else None
        given = self._read(bodies.given, {}, path=bodies.path) if bodies.is_edited else sent
        refused = self._refusals.known_to(scope or b"")
        held = refused.without_refused(found)
        cured = self._dialect.cure(sent, given, refusal, held, refused)
        if cured is None or not cured.withheld:
            return cured
        # Turns as stored: runs withheld for an hour only must not be withheld for good.
        named = {turn.id for turn in cured.withheld}
        return replace(cured, withheld=tuple(turn for turn in found.turns if turn.id in named))

    def learn(self, scope: bytes, refusal: Refusal, cure: Cure, model: str) -> None:
        """
        Record an accepted cure: upstream would refuse the content that it leaves out again.

        The model is the one of the request's `Origin`: the body may not name it.
        """
        lessons: list[tuple[str, str | bytes]] = [
            *((BLOB, blob) for blob in cure.lost),
            *((DAMAGED, conversation) for conversation in cure.completed),
            *self._dialect.lessons(refusal, cure, model),
        ]
        for kind, what in lessons:
            self._refusals.refuse(scope, kind, what)


def _maybe_summary(
    request: ParsedRequest[HistoryItem], plan: Plan, digests: Callable[[], SentItems]
) -> ItemSummary | None:
    """Return the item summary; None on a fault, which must not fail the request."""
    try:
        return summarise(request, plan.notes, digests())
    except Exception:  # noqa: BLE001 (fail open: the request does not need it)
        return None
