"""Exchange: one request and its response, with all per-request state."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reasoning_replay.adapters.resilience.safe_store import NO_TIME, Budget
from reasoning_replay.adapters.telemetry.log import NAME_MAX
from reasoning_replay.core.dialects.base import Cure, Decision
from reasoning_replay.core.dialects.cache_diagnoses import CACHE_DIAGNOSIS, CacheDiagnosis
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.dialects.error_texts import NO_NAMES, ErrorNames, Refusal
from reasoning_replay.core.dialects.registry import HANDLED_ROUTES, dialect_of
from reasoning_replay.core.dialects.states import ExchangeOutcome, RequestKind, RequestState, Route
from reasoning_replay.core.dialects.usages import Usage
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.plan import LACKING, ItemForm, Outcome
from reasoning_replay.core.tenancy.scope import Account
from reasoning_replay.web.errors import amount
from reasoning_replay.web.memory_budget import UNCOUNTED, MemoryLease

# Returns the tenant of a request by its headers; None if they do not identify one.
TenantOf = Callable[[Mapping[str, str]], bytes | None]

# Longest shown text about a failure of the upstream.
DETAIL_MAX = 240
# Kept characters of a name that a client or upstream chose; one more than is shown.
NAME_KEPT = NAME_MAX + 1
_ID_BITS = 64
_NOT_SENT = LACKING | {Outcome.INJECTED}
_NOT_TOLD = CacheDiagnosis("none")
_WITHOUT_STORE = frozenset({RequestState.STORE_FAILED, RequestState.BUDGET_EXCEEDED})


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Limits on exchanges, in bytes and seconds.

    Attributes:
        inspect_max_bytes: Largest request body that is inspected, as received and decoded, and
            largest response, or event of a stream, that is captured; a larger one passes unread.
        inspect_total_max_bytes: Most bytes of requests and responses that are held in total; one
            that finds no room passes unread.
        body_max_bytes: Largest request body; a larger one is rejected. 0: no limit.
        max_exchanges: Most exchanges in flight.
        tenant_max_exchanges: Most exchanges in flight of one tenant. 0: no limit.
        client_timeout_s: Longest pause within a request body, and longest time in which a
            WebSocket client reads nothing. For HTTP responses, the connection applies it.
        total_timeout_s: Longest exchange, except a WebSocket. 0: no limit.
    """

    inspect_max_bytes: int
    inspect_total_max_bytes: int
    body_max_bytes: int
    max_exchanges: int
    tenant_max_exchanges: int
    client_timeout_s: float
    total_timeout_s: float


@dataclass(slots=True)
class Times:
    """
    Times of one exchange, by the monotonic clock, and the time that the proxy added.

    Attributes:
        started_s: When the head of the request had been read.
        before_ms: From the last byte read of the request until it is sent, plus the time to find a
            cure.
        first_byte_ms: From sending the request to the head of the upstream's response.
        between_ms: How long chunks of the response were held; chunks held together count once.
        answered_s: When the upstream's last byte had been read; 0.0: not yet.
        after_ms: From `answered_s` until the end of the response was written to the client.
        total_ms: From `started_s` until the end of the exchange; None while it runs.
    """

    started_s: float
    before_ms: float = 0.0
    first_byte_ms: float = 0.0
    between_ms: float = 0.0
    answered_s: float = 0.0
    after_ms: float = 0.0
    total_ms: float | None = None


@dataclass(slots=True)
class RequestReport:
    """
    Report on the request of an exchange.

    Attributes:
        state: A RequestState; "" on routes that are not replayed.
        way: A Way; "" if nothing was decided.
        model: Model that the client requested; "" if unknown.
        outcomes: Number of reasoning items for each outcome.
        forms: Number of items in each form.
        repairs: Number of items that each repair changed before the first attempt.
        injected_bytes: Size of the reasoning injected into the accepted request.
        is_compared: Whether it names a response, to learn why the prompt cache missed.
        summary: Types, ids and sizes of its items, for the inspector; None if they were not read.
        healed: Kind of the refusal that was cured; "" if none was.
        parent: Id of the turn that the request continues; b"" if unknown.
        hint: What to do about a request that was not read, or a refusal that was not cured; "" if
            there is nothing to say.
        unhealed: Name of the refusal that the client gets, if nothing can cure it; else "".
    """

    state: str = ""
    way: str = ""
    model: str = ""
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    forms: dict[ItemForm, int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    injected_bytes: int = 0
    is_compared: bool = False
    summary: ItemSummary | None = None
    healed: str = ""
    parent: bytes = b""
    hint: str = ""
    unhealed: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """The outcomes and forms that occurred, by name; `lacking` is the sum of its reasons."""
        named: dict[str, int] = {}
        reasons: dict[str, int] = {}
        for what, count in self.outcomes.items():
            if count:
                (reasons if what in LACKING else named)[what.value] = count
        if reasons:
            named |= {"lacking": sum(reasons.values()), **reasons}
        for form, count in self.forms.items():
            if count:
                named[form.value] = count
        return named

    @property
    def kind(self) -> RequestKind:
        """What became of the reasoning that the client left out."""
        if self.injected_bytes:
            return RequestKind.INJECTED
        # What shadow mode would inject is not sent, and without the store nothing is known.
        lacks = any(count and what in _NOT_SENT for what, count in self.outcomes.items())
        is_unknown = self.state in _WITHOUT_STORE
        return RequestKind.LACKING if lacks or is_unknown else RequestKind.WHOLE

    @property
    def repaired(self) -> int:
        """Number of items repaired before the first attempt."""
        return sum(self.repairs.values())

    def note_decision(self, decision: Decision) -> None:
        """Record the decision."""
        self.state, self.way = decision.state, decision.way
        self.repairs.update(decision.repairs)
        self.outcomes.update(decision.outcomes)
        self.forms.update(decision.forms)
        self.injected_bytes = decision.injected_bytes
        self.is_compared = decision.is_compared
        self.summary = decision.summary
        if decision.origin is not None:
            self.model = decision.origin.model
            self.parent = decision.origin.parent

    def note_unread(self, state: RequestState) -> None:
        """Record why the request is forwarded unchanged."""
        self.state, self.way, self.summary, self.injected_bytes = state, "", None, 0
        self.is_compared = False
        self.outcomes.clear()
        self.forms.clear()
        self.repairs.clear()

    def note_too_large(self, size: str, max_bytes: int) -> None:
        """Record that it is over `inspect_max_bytes`; `size` is what is known of its size."""
        self.state = RequestState.TOO_LARGE
        self.hint = (
            f"the request has {size}, and inspect_max_bytes is {amount(max_bytes)}: "
            "raise that (and inspect_total_max_bytes), or send less"
        )

    def note_refusal(self, refusal: Refusal) -> None:
        """Record a refusal that the client gets."""
        self.unhealed, self.hint = refusal.incurable, refusal.hint

    def note_cure(self, kind: str, cure: Cure) -> None:
        """Record that upstream accepted the cured request; `kind` is the kind of the refusal."""
        self.healed = kind
        if kind == CACHE_DIAGNOSIS or cure.is_clients_own:
            self.is_compared = False
        if cure.is_same_history:
            return
        if cure.is_clients_own:
            self.note_own_sent()
            return
        self.injected_bytes = cure.injected_bytes
        outcomes = self.outcomes
        before = {what: outcomes.pop(what, 0) for what in (Outcome.INJECTED, Outcome.PRESENT)}
        present = max(0, before[Outcome.PRESENT] + cure.present)
        after = {Outcome.INJECTED: cure.injected, Outcome.PRESENT: present}
        outcomes.update({what: count for what, count in after.items() if count})
        refused = sum(before.values()) - sum(after.values())
        if refused > 0:
            outcomes[Outcome.REFUSED] = outcomes.get(Outcome.REFUSED, 0) + refused
        for reason in reversed(Outcome):
            if refused < 0 and reason in LACKING and reason in outcomes:
                found = min(outcomes[reason], -refused)  # it was lacking, and the cure injects it
                outcomes[reason] -= found
                refused += found
        self.forms[ItemForm.PHASE] = cure.phases
        if cure.degraded:
            self.forms[ItemForm.DEGRADED] = cure.degraded

    def note_own_sent(self) -> None:
        """Record that upstream answered the client's own bytes, without an edit of the proxy."""
        if refused := self.outcomes.pop(Outcome.INJECTED, 0):
            self.outcomes[Outcome.REFUSED] = self.outcomes.get(Outcome.REFUSED, 0) + refused
        self.injected_bytes, self.is_compared = 0, False
        self.forms.clear()
        self.repairs.clear()


@dataclass(slots=True)
class ResponseReport:
    """
    Report on the response of an exchange.

    Attributes:
        state: A CaptureState; "" while nothing is captured.
        is_stream: Whether it is a stream of events.
        capture: Capture of the response; None if it is not captured.
        reasoning_items, reasoning_bytes: Number and size of the reasoning items that were stored.
        turn: Id of the turn that was passed to the store; b"" if none was.
        refusal: Names of the error with which the upstream last refused the request.
        usage: Tokens that the upstream counted; None while the response is captured, or if unknown.
        diagnosis: Why the prompt cache missed; None as above.
    """

    state: str = ""
    is_stream: bool = False
    capture: Capture | None = None
    reasoning_items: int = 0
    reasoning_bytes: int = 0
    turn: bytes = b""
    refusal: ErrorNames = NO_NAMES
    usage: Usage | None = None
    diagnosis: CacheDiagnosis | None = None

    def end(self) -> None:
        """Drop all that is not told of a finished exchange."""
        if self.capture is not None:
            self.refusal, self.usage = self.error, self.capture.usage
            self.diagnosis, self.capture = self.capture.cache_diagnosis, None

    @property
    def tokens(self) -> Usage | None:
        """Tokens that the upstream counted so far; None if unknown."""
        return self.usage if self.capture is None else self.capture.usage

    @property
    def cache_diagnosis(self) -> CacheDiagnosis | None:
        """Why the prompt cache missed, so far; None if unknown."""
        return self.diagnosis if self.capture is None else self.capture.cache_diagnosis

    @property
    def error(self) -> ErrorNames:
        """Names of the upstream's error, also of one that ends a stream."""
        if self.capture is None or any(self.refusal):
            return self.refusal
        return self.capture.error


@dataclass(slots=True)
class Exchange:
    """
    One request and its response. Each phase fills in its part.

    Attributes:
        method: HTTP method of the request; "" if it has none.
        upstream: Name of its upstream; "" if there is only one, or it is unknown.
        tenant: Scope of the request's tenant, for people; None if it is unknown.
        scope: Key space of the tenant in the request's dialect; None if nothing may be stored or
            injected.
        former_scope: The same by the second `scope_secret`; None unless there is one.
        account: Account that the upstream issues reasoning to, as far as the request names it.
        conversation: Conversation that the request continues, then the one that the response
            belongs to; b"" if unknown.
        store_budget: How long it may still wait for the store; NO_TIME until its scope is known.
        status: Status of the response to the client; 0: no head was sent.
        outcome: An ExchangeOutcome, or the code of an error of the proxy.
        error, error_detail: Why the upstream failed: an ErrorCause, and the place with the reason;
            "" for other outcomes.
        client: IP address of the peer; "" if unknown.
        wrong_path: Likely mistake in a base URL or in the choice of the API, a PathFault; "" if the
            path is right.
        received_bytes, sent_bytes: Size of the bodies from the client and to it.
        upstream_bytes: Size of the body that upstream got, in the last attempt; 0: it was streamed.
        upstream_request_id: The upstream's id of the request; "" if it sent none.
        trace_id: Id of its trace; "" without tracing.
        lease: Memory that its request holds, in all its forms.
    """

    route: str
    times: Times
    method: str = ""
    upstream: str = ""
    tenant: bytes | None = None
    scope: bytes | None = None
    former_scope: bytes | None = None
    account: Account = ()
    conversation: bytes = b""
    store_budget: Budget = NO_TIME
    request: RequestReport = field(default_factory=RequestReport)
    response: ResponseReport = field(default_factory=ResponseReport)
    status: int = 0
    outcome: str = ExchangeOutcome.CLIENT_GONE
    error: str = ""
    error_detail: str = ""
    client: str = ""
    wrong_path: str = ""
    received_bytes: int = 0
    sent_bytes: int = 0
    upstream_bytes: int = 0
    upstream_request_id: str = ""
    trace_id: str = ""
    lease: MemoryLease = field(default_factory=lambda: MemoryLease(UNCOUNTED))
    _id: str = ""

    @property
    def id(self) -> str:
        """The request id in the log and the response: 16 random hexadecimal digits."""
        if not self._id:
            self._id = f"{random.getrandbits(_ID_BITS):016x}"
        return self._id

    @property
    def is_open(self) -> bool:
        """Whether it still runs."""
        return self.times.total_ms is None

    @property
    def cache(self) -> CacheDiagnosis | None:
        """What the upstream told of its prompt cache; None if it was not asked, or it failed."""
        told = self.response.cache_diagnosis
        is_due = self.request.is_compared and self.outcome == ExchangeOutcome.OK
        return _NOT_TOLD if told is None and is_due else told

    @property
    def final_outcome(self) -> str:
        """Its outcome; "" while it runs."""
        return "" if self.times.total_ms is None else self.outcome

    @property
    def unusual_method(self) -> str:
        """Its method; "" on routes that imply it."""
        return "" if self.route in HANDLED_ROUTES else self.method

    @property
    def counted_sent_bytes(self) -> int | None:
        """Size of the body to the client; None for a `response.create`, where it is not counted."""
        return None if self.route == Route.CREATE else self.sent_bytes

    @property
    def dialect(self) -> str:
        """Name of the dialect of its route; "" if that has none."""
        return dialect_of(self.route)

    def note_decision(self, decision: Decision) -> None:
        """Record the decision about the request."""
        self.request.note_decision(decision)
        if decision.origin is not None:
            self.conversation = decision.origin.conversation

    def note_unread(self, state: RequestState = RequestState.FAILED) -> None:
        """Record why the request is forwarded unchanged, and its response not captured."""
        self.request.note_unread(state)
        self.response.capture = None

    def end(self) -> None:
        """Drop all that is not told of a finished exchange: the inspector keeps the newest ones."""
        self.request.model = self.request.model[:NAME_KEPT]
        self.upstream_request_id = self.upstream_request_id[:NAME_KEPT]
        self.response.end()
