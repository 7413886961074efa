"""Exchange log: metrics, log line, trace and inspector entry of each finished exchange."""

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import monotonic

from aiohttp import web

from reasoning_replay.adapters.runtime.fail_open import FailOpen
from reasoning_replay.adapters.telemetry.label_values import Labels, outcome_labels, status_label
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import PHASES, Metrics
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.dialects.error_texts import Refusal
from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import ExchangeOutcome, RequestState, Route
from reasoning_replay.core.wire.forwarded import FORWARDED_FOR, Networks, client_address
from reasoning_replay.web.admin.inspector.recorder import Recorder
from reasoning_replay.web.errors import BUG, NO_HTTP2, NO_TLS, ErrorResponse
from reasoning_replay.web.exchange import Exchange, RequestReport, Times
from reasoning_replay.web.exchange_facts import Reader, flat_facts_of
from reasoning_replay.web.tracing import Tracer

_ERRORS = frozenset({ExchangeOutcome.UPSTREAM_ERROR, ExchangeOutcome.CUT_OFF, BUG.code})
_FAILURES = frozenset({"failed", "store_failed", "budget_exceeded"})
# A scanner may try these on many connections: they are counted, and told of once in this time.
_OTHER_PROTOCOLS = frozenset({NO_TLS.code, NO_HTTP2.code})
WARNING_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class ExchangeLog:
    """
    Log of finished exchanges; its failures never reach the client.

    Attributes:
        inspector: Keeps the newest exchanges; None: they are not kept.
        tracer: Ends the span of each exchange.
        trusted_proxies: Proxies whose `X-Forwarded-For` is read.
    """

    metrics: Metrics
    log: Log
    inspector: Recorder | None = None
    tracer: Tracer = field(default_factory=lambda: Tracer(None, {}))
    trusted_proxies: Networks = ()
    _warned_s: dict[str, float] = field(default_factory=dict)  # by the code of another protocol

    def client_of(self, request: web.BaseRequest) -> str:
        """Return the address of the client of a request; "" if it is unknown."""
        peer = request.remote or ""
        if not self.trusted_proxies:
            return peer
        return client_address(peer, self.trusted_proxies, request.headers.getall(FORWARDED_FOR, ()))

    def new(self, route: Route, method: str = "") -> Exchange:
        """Return an exchange that begins now; `settle` or `count` must follow."""
        return Exchange(route, Times(monotonic()), method)

    def begin(self, exchange: Exchange) -> None:
        """Show an exchange in metrics and inspector before it is sent; `settle` must follow."""
        with self.fail_open("metrics_failed", exchange):
            self._begin_series(exchange)
        if self.inspector is not None:
            with self.fail_open("inspector_failed", exchange):
                self.inspector.begin(exchange)

    def settle(self, exchange: Exchange) -> None:
        """Trace, count and log a finished exchange. Never raises."""
        times = exchange.times
        times.total_ms = (monotonic() - times.started_s) * 1000
        self.tracer.end(exchange)
        with self.fail_open("metrics_failed", exchange):
            self.count(exchange)
        if self.inspector is not None:
            with self.fail_open("inspector_failed", exchange):
                self.inspector.end(exchange)
        with self.fail_open("log_failed", exchange):
            self._write(exchange)
        exchange.end()

    def _write(self, exchange: Exchange) -> None:
        level = _level(exchange)
        if self.log.takes(level):
            self.log.write(level, "exchange", flat_facts_of(exchange, Reader.LOG))

    def refuse(self, fault: ErrorResponse, client: str) -> str:
        """
        Record a request that was refused before it became an exchange; return its id.

        It is "" for another protocol, which has no line of its own in the log.
        """
        exchange = self._refused(fault)
        if fault.code not in _OTHER_PROTOCOLS:
            exchange.client = client
            self.settle(exchange)
            return exchange.id
        self.count(exchange)
        if monotonic() - self._warned_s.get(fault.code, -WARNING_EVERY_S) >= WARNING_EVERY_S:
            self._warned_s[fault.code] = monotonic()
            hint = fault.message
            self.log.warning("wrong_protocol", reason=fault.code, client=client, hint=hint)
        return ""

    def count_refusal(self, fault: ErrorResponse) -> None:
        """Count a connection over the limit; it is not logged, because there may be thousands."""
        self.count(self._refused(fault))

    def _refused(self, fault: ErrorResponse) -> Exchange:
        exchange = self.new(Route.OTHER)
        exchange.status, exchange.outcome = fault.status, fault.code
        return exchange

    def failed(self, exchange: Exchange, error: Exception) -> None:
        """Log a bug of the proxy that ended an exchange."""
        reason = type(error).__name__
        self.log.error("bug", request_id=exchange.id, route=exchange.route, reason=reason)

    def fail_open(
        self, event: str, exchange: Exchange, then: Callable[[], None] | None = None
    ) -> FailOpen:
        """Return the context of a step: a failure is logged as `event`, and `then` is called."""

        def tell(step: str, error: Exception) -> None:
            self.warn(step, exchange, error)
            if then is not None:
                then()

        return FailOpen(event, tell)

    def warn(self, event: str, exchange: Exchange, error: Exception) -> None:
        """Log a bug that the client did not see."""
        self.log.warning(event, request_id=exchange.id, reason=type(error).__name__)

    def _begin_series(self, exchange: Exchange) -> None:
        """Let a scrape find the series of an exchange at 0 before they are counted."""
        self.metrics.begin(exchange.dialect, self.metrics.upstream_label(exchange.upstream))

    def count(self, exchange: Exchange) -> None:
        """Count a finished exchange."""
        metrics, route, times = self.metrics, exchange.route, exchange.times
        at = metrics.upstream_label(exchange.upstream)
        metrics.begin(exchange.dialect, at)  # not begun if it ended before it was sent
        metrics.exchanges[route, status_label(exchange.status), exchange.outcome, *at].inc()
        metrics.exchange_seconds[route, *at].observe((times.total_ms or 0.0) / 1000)
        if times.first_byte_ms:
            metrics.first_byte_seconds[at].observe(times.first_byte_ms / 1000)
        dialect, answer = exchange.dialect, exchange.response
        model = metrics.model_label(exchange.request.model)
        if route in REPLAYED_ROUTES:
            self._count_request(exchange.request, dialect, model, at)
            added = times.before_ms, times.between_ms, times.after_ms
            for phase, added_ms in zip(PHASES, added, strict=True):
                if added_ms:  # the exchange has reached this phase
                    metrics.overhead_seconds[phase, *at].observe(added_ms / 1000)
        if answer.state:
            metrics.captures[dialect, answer.state, *at].inc()
            if answer.reasoning_items:
                metrics.captured_items[dialect, *at].inc(answer.reasoning_items)
                metrics.captured_bytes[dialect, *at].inc(answer.reasoning_bytes)
        if answer.capture is not None:
            self._count_response(exchange, answer.capture, dialect, model, at)

    def count_heal(self, exchange: Exchange, refusal: Refusal, result: str) -> None:
        """Count what became of a cure of a refusal."""
        metrics = self.metrics
        upstream = metrics.upstream_label(exchange.upstream)
        metrics.inc(metrics.heals, exchange.dialect, refusal.kind.value, result, *upstream)

    def _count_request(
        self, request: RequestReport, dialect: str, model: Labels, at: Labels
    ) -> None:
        metrics = self.metrics
        if request.state:
            metrics.requests[dialect, request.state, *model, *at].inc()
        if request.way:
            metrics.decisions[dialect, request.way, *at].inc()
        for outcome, count in request.outcomes.items():
            metrics.items[dialect, *outcome_labels(outcome), *model, *at].inc(count)
        for form, count in request.forms.items():
            metrics.item_forms[dialect, form, *at].inc(count)
        for repair, count in request.repairs.items():
            metrics.repairs[dialect, repair, *at].inc(count)
        if request.injected_bytes:
            metrics.injected_bytes[dialect, *at].inc(request.injected_bytes)

    def _count_response(
        self, exchange: Exchange, capture: Capture, dialect: str, model: Labels, at: Labels
    ) -> None:
        """Count the facts that the upstream reports about its response."""
        metrics = self.metrics
        for reason, count in capture.removed.items():
            metrics.removed_items[reason, *at].inc(count)
        if capture.has_unknown_carrier:
            metrics.unknown_carriers[dialect, *at].inc()
        if capture.reasoning_context:
            metrics.reasoning_contexts[capture.reasoning_context, *at].inc()
        # A response can be retrieved many times, but it used its tokens once.
        if capture.usage is not None and exchange.route in CAPTURED_ROUTES:
            kind_of_request = exchange.request.kind
            for kind, tokens in capture.usage.billed.items():
                metrics.tokens[dialect, kind, kind_of_request, *model, *at].inc(tokens)
        if (told := exchange.cache) is not None and exchange.route in CAPTURED_ROUTES:
            metrics.cache_diagnoses[dialect, told.result, *at].inc()
            if told.reason:
                missed, request = told.missed_tokens, exchange.request.kind
                metrics.cache_missed_tokens[told.reason, request, *at].inc(missed)


def summary_header(exchange: Exchange, *, is_shadow: bool) -> str:
    """Return the value of `x-reasoning-replay`: a dictionary of counts (RFC 9651)."""
    request = exchange.request
    members = [f"{name}={count}" for name, count in {"injected": 0, **request.counts}.items()]
    if is_shadow:
        members.append("shadow")
    if request.repairs:
        members.append(f"repaired={request.repaired}")
    if request.healed:
        members.append(f"healed={request.healed}")
    if request.unhealed:
        members.append(f"unhealed={request.unhealed}")
    if request.state not in ("", RequestState.PLANNED):
        members.append(f"asked={request.state}")
    if exchange.wrong_path:
        members.append(f"wrong_path={exchange.wrong_path}")
    return ", ".join(members)


def _level(exchange: Exchange) -> str:
    """
    Return the level of the log line.

    error: it failed in the proxy or upstream. warning: a step failed, or a refusal was healed, and
    the exchange went on. info: all others, including client errors and clients that left.
    """
    if exchange.status >= HTTPStatus.INTERNAL_SERVER_ERROR or exchange.outcome in _ERRORS:
        return "error"
    has_failed = exchange.request.state in _FAILURES or exchange.response.state in _FAILURES
    return "warning" if has_failed or exchange.request.healed else "info"
