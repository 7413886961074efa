"""Exchange: one request and its response, with all per-request state."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reasoning_replay.adapters.resilience.safe_store import NO_TIME, Budget
from reasoning_replay.core.dialects.base import Capture, Cure, Decision
from reasoning_replay.core.dialects.states import ExchangeOutcome, RequestState, Route
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.matching.joining import NOT_JOINED, Joined
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.tenancy.scope import Account

__all__ = ["AnswerReport", "Exchange", "Limits", "RequestReport", "TenantOf", "Times"]

# Tells whose a request is by its headers; None when they do not say.
TenantOf = Callable[[Mapping[str, str]], bytes | None]

_ID_BITS = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Bounds on exchanges, in bytes and seconds.

    Attributes:
        inspect_max_bytes: Of a request's body as it comes; a larger one is streamed on unread.
        inspect_total_max_bytes: Of all of them at once; beyond, further ones are.
        decoded_max_bytes: Of an encoded one once it is decoded; a larger one is sent on unread.
        capture_max_bytes: Of an answer, or of one event of a stream; a larger one is not captured.
        body_max_bytes: Of any request's body; a larger one is refused. 0: no limit.
        max_exchanges: At once.
        tenant_max_exchanges: At once, of one tenant. 0: no limit.
        tenant_of: Tells whose a request is; called only where tenants have a limit.
        client_timeout_s: How long a client may be silent amid a body; its connection looks to it.
        total_timeout_s: For an exchange, but not for a WebSocket. 0: no limit.
    """

    inspect_max_bytes: int
    inspect_total_max_bytes: int
    decoded_max_bytes: int
    capture_max_bytes: int
    body_max_bytes: int
    max_exchanges: int
    tenant_max_exchanges: int
    tenant_of: TenantOf
    client_timeout_s: float
    total_timeout_s: float


@dataclass(slots=True)
class Times:
    """
    When things happened, by the clock of the process, and how long the proxy took.

    Attributes:
        started_s: When the head of the request had been read.
        before_ms: From the last byte of the request, as far as it is read, to sending it.
        first_byte_ms: From then until the upstream's head.
        between_ms: While pieces of the answer were held; two at the same time count once.
        answered_s: When the upstream's last byte had been read; 0.0: not yet.
        after_ms: From then until the end of the answer was given to the client's connection.
    """

    started_s: float
    before_ms: float = 0.0
    first_byte_ms: float = 0.0
    between_ms: float = 0.0
    answered_s: float = 0.0
    after_ms: float = 0.0


@dataclass(slots=True)
class RequestReport:
    """
    What became of the request.

    Attributes:
        state: A RequestState; "" on routes that are not replayed.
        model: As the client asked for it; "" if unknown.
        outcomes: What became of its reasoning, counted.
        repairs: How many items each repair touched before the first attempt.
        injected_bytes: Of the reasoning injected into the request that was accepted.
        summary: What people may see of its items; None where they were not read.
        healed: The kind of refusal that was cured; "" for none.
    """

    state: str = ""
    model: str = ""
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    injected_bytes: int = 0
    summary: ItemSummary | None = None
    healed: str = ""

    @property
    def counts(self) -> dict[str, int]:
        """Each outcome that occurred, by its word."""
        return {outcome.value: count for outcome, count in self.outcomes.items() if count}

    @property
    def repaired(self) -> int:
        """How many items were repaired before the first attempt."""
        return sum(self.repairs.values())

    def note_decision(self, decision: Decision) -> None:
        """Take what was decided."""
        self.state = decision.state
        self.repairs.update(decision.repairs)
        self.outcomes.update(decision.outcomes)
        self.injected_bytes = decision.injected_bytes
        self.summary = decision.summary
        if decision.origin is not None:
            self.model = decision.origin.model

    def note_failure(self) -> None:
        """Note that preparing the request failed: it is sent as it came."""
        self.state, self.summary, self.injected_bytes = RequestState.FAILED, None, 0
        self.outcomes.clear()
        self.repairs.clear()

    def note_cure(self, kind: str, cure: Cure) -> None:
        """Note that a cured request was accepted in place of the first; `kind` is the refusal's."""
        self.healed = kind
        self.injected_bytes = cure.injected_bytes
        outcomes = self.outcomes
        refused = outcomes.pop(Outcome.INJECTED, 0) - cure.injected
        if cure.injected:
            outcomes[Outcome.INJECTED] = cure.injected
        if refused > 0:
            outcomes[Outcome.REFUSED] = outcomes.get(Outcome.REFUSED, 0) + refused
        if cure.is_clients_own:
            outcomes.pop(Outcome.DEGRADED, None)
            self.repairs.clear()


@dataclass(slots=True)
class AnswerReport:
    """
    What became of the answer.

    Attributes:
        state: A CaptureState; "" while nothing was captured.
        capture: Follows the answer; None when it is not captured.
        saved_names: Names of records and keys of the turn that were given to the store already.
        joined: Conversations to join to its own in the store; nothing once that is done.
        reasoning_items, reasoning_bytes: Of the reasoning that the store has of the answer.
    """

    state: str = ""
    capture: Capture | None = None
    saved_names: frozenset[bytes] = frozenset()
    joined: Joined = NOT_JOINED
    reasoning_items: int = 0
    reasoning_bytes: int = 0


@dataclass(slots=True)
class Exchange:
    """
    One request and its response. Each phase fills in its part.

    Attributes:
        route: See Route.
        times: See Times.
        method: Of the request; "" where there was none.
        scope: Whose; None when nothing may be kept or injected.
        account: The account that the upstream issues reasoning to, as far as the request names it.
        conversation: The one it continues, then the one its answer belongs to; b"" if unknown.
        store_budget: How long it may still wait for the store; none until its scope is known.
        request, answer: What became of both.
        status: Of the response to the client; 0: no head was sent.
        outcome: An ExchangeOutcome, or the code of an error of the proxy.
        received_bytes, sent_bytes: Of bodies, from the client and to it.
        upstream_request_id: In the upstream's words; "" if it gave none.
        trace_id: Of the trace that it is part of; "" without tracing.
    """

    route: Route
    times: Times
    method: str = ""
    scope: bytes | None = None
    account: Account = ()
    conversation: bytes = b""
    store_budget: Budget = NO_TIME
    request: RequestReport = field(default_factory=RequestReport)
    answer: AnswerReport = field(default_factory=AnswerReport)
    status: int = 0
    outcome: str = ExchangeOutcome.CLIENT_GONE
    received_bytes: int = 0
    sent_bytes: int = 0
    upstream_request_id: str = ""
    trace_id: str = ""
    _id: str = ""

    @property
    def id(self) -> str:
        """Its name in the log: 16 random hexadecimal digits."""
        if not self._id:
            self._id = f"{random.getrandbits(_ID_BITS):016x}"
        return self._id

    def note_decision(self, decision: Decision) -> None:
        """Take what was decided about the request."""
        self.request.note_decision(decision)
        self.answer.joined = decision.joined
        if decision.origin is not None:
            self.conversation = decision.origin.conversation

    def note_failure(self) -> None:
        """Note that preparing the request failed: it is sent as it came, and not captured."""
        self.request.note_failure()
        self.answer.capture = None
