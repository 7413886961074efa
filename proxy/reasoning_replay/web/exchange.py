"""Exchange: one request and its response, with all per-request state."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reasoning_replay.adapters.resilience.safe_store import NO_TIME, Budget
from reasoning_replay.core.dialects.base import Capture, Cure, Decision
from reasoning_replay.core.history.item_summary import ItemSummary
from reasoning_replay.core.history.plan import Outcome
from reasoning_replay.core.tenancy.scope import Account

__all__ = ["Exchange", "Limits", "TenantOf"]

# Tells whose a request is by its headers; None when they do not say.
TenantOf = Callable[[Mapping[str, str]], bytes | None]

_ID_BYTES = 8


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
        tenant_of: Tells whose a request is; asked only where tenants have a limit.
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
class Exchange:
    """
    State of one exchange; filled in phase by phase.

    Attributes:
        scope: Whose; None when nothing may be kept or injected.
        conversation: Which, as far as it is known: the request's, then its answer's; b"" if not.
        asked: One of `metrics.ASKED`, or "" on other routes.
        store_budget: How long it may still wait for the store; none until it is known whose it is.
        account: Whom blobs are issued to, as far as the request says.
        outcomes: What became of the reasoning of the request.
        repairs: How many of its items were mended before it was sent.
        edited: Whether the request goes out otherwise than it came.
        strip: What is shown of the request's items; None where they were not read.
        capture: Follows the answer; None when it is not captured.
        saved_names: Names of records and keys of the turn that were given to the store already. It
            sees to those of a save that is late and then fails.
        model: As the client asked for it; "" if that is unknown.
        injected_bytes: Of the reasoning items that were put into the request that was taken.
        captured_items, captured_bytes: Of the reasoning that the store has of the answer.
        before_ms: From the last byte of the request, as far as it is read, to sending it on.
        between_ms: While pieces of the answer were held, two at the same time counted once.
        answered_s: When upstream's last byte had been read; 0.0: it has not.
        after_ms: From then until the client had been given the end of it.
        received_bytes, sent_bytes: Of bodies, from the client and to it.
        upstream_request_id: What upstream calls it, in its own words; "" if it does not.
        trace_id: Of the trace that it is part of; "" if nobody traces.
    """

    route: str
    started_s: float
    scope: bytes | None = None
    conversation: bytes = b""
    store_budget: Budget = NO_TIME
    account: Account = ()
    asked: str = ""
    captured: str = ""
    outcomes: dict[Outcome, int] = field(default_factory=dict)
    repairs: dict[str, int] = field(default_factory=dict)
    edited: bool = False
    strip: ItemSummary | None = None
    healed: str = ""
    capture: Capture | None = None
    saved_names: frozenset[bytes] = frozenset()
    captured_items: int = 0
    captured_bytes: int = 0
    status: int = 0
    outcome: str = "client_gone"
    method: str = ""
    model: str = ""
    injected_bytes: int = 0
    before_ms: float = 0.0
    between_ms: float = 0.0
    answered_s: float = 0.0
    after_ms: float = 0.0
    first_byte_ms: float = 0.0
    received_bytes: int = 0
    sent_bytes: int = 0
    upstream_request_id: str = ""
    trace_id: str = ""
    _id: str = ""

    @property
    def id(self) -> str:
        """Names it in every line of the log about it: random, 16 hexadecimal digits."""
        if not self._id:
            self._id = os.urandom(_ID_BYTES).hex()
        return self._id

    @property
    def counts(self) -> dict[str, int]:
        """How many reasoning items came to what, in words; what none came to is left out."""
        return {outcome.value: count for outcome, count in self.outcomes.items() if count}

    @property
    def repaired(self) -> int:
        """How many items were mended before the request was sent."""
        return sum(self.repairs.values())

    def take(self, decision: Decision) -> None:
        """Note what was decided about the request."""
        self.asked = decision.state
        self.repairs.update(decision.repairs)
        self.outcomes.update(decision.outcomes)
        self.injected_bytes = decision.injected_bytes
        self.strip = decision.summary
        if decision.origin is not None:
            self.conversation = decision.origin.conversation
            self.model = decision.origin.model

    def forget(self) -> None:
        """Note that preparing the request failed: it goes out as it came."""
        self.asked, self.capture, self.edited, self.strip = "failed", None, False, None
        self.injected_bytes = 0
        self.outcomes.clear()
        self.repairs.clear()

    def heal(self, kind: str, cure: Cure) -> None:
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
