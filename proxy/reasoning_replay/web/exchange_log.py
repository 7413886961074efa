"""Exchange log: metrics, log line, trace and inspector entry of each finished exchange."""

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web
from msgspec.structs import astuple

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import TOKENS, Metrics, status_label
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.wire.forwarded import FORWARDED_FOR, Networks, client_address
from reasoning_replay.web.admin.inspector.recorder import Recorder
from reasoning_replay.web.errors import BUG
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.exchange_facts import Reader, flat_facts_of
from reasoning_replay.web.tracing.tracer import Tracer

_ERRORS = frozenset({"upstream_error", "cut_off", BUG.code})
_FAILURES = frozenset({"failed", "store_failed", "budget_exceeded"})


@dataclass(frozen=True, slots=True)
class ExchangeLog:
    """
    Log of finished exchanges; its failures never reach the client.

    Attributes:
        clock: Monotonic clock, in seconds.
        inspector: Keeps the newest exchanges; None: they are not kept.
        tracer: Ends the span of each exchange.
        trusted_proxies: Proxies whose `X-Forwarded-For` is read.
    """

    metrics: Metrics
    log: Log
    clock: Callable[[], float]
    inspector: Recorder | None = None
    tracer: Tracer = field(default_factory=Tracer)
    trusted_proxies: Networks = ()

    def client_of(self, request: web.BaseRequest) -> str:
        """Return the address of the client of a request; "" if it is unknown."""
        peer = request.remote or ""
        if not self.trusted_proxies:
            return peer
        return client_address(peer, self.trusted_proxies, request.headers.getall(FORWARDED_FOR, ()))

    def new(self, route: Route, method: str = "") -> Exchange:
        """Return an exchange that begins now; `settle` must follow."""
        is_watched = self.inspector is not None and self.inspector.is_watched
        return Exchange(route, Times(self.clock()), method, is_watched=is_watched)

    def begin(self, exchange: Exchange) -> None:
        """Show an exchange in the inspector before its request is sent; `settle` must follow."""
        if self.inspector is not None:
            try:
                self.inspector.begin(exchange)
            except Exception as error:  # noqa: BLE001 (fail open: the inspector may miss one)
                self.warn("inspector_failed", exchange, error)

    def settle(self, exchange: Exchange) -> None:
        """Trace, count and log a finished exchange. Never raises."""
        times = exchange.times
        times.total_ms = (self.clock() - times.started_s) * 1000
        self.tracer.end(exchange)
        try:
            self.count(exchange)
        except Exception as error:  # noqa: BLE001 (fail open: a response matters more than a metric)
            self.warn("metrics_failed", exchange, error)
        if self.inspector is not None:
            try:
                self.inspector.end(exchange)
            except Exception as error:  # noqa: BLE001 (as above)
                self.warn("inspector_failed", exchange, error)
        try:
            level = _level(exchange)
            if self.log.takes(level):
                self.log.write(level, "exchange", flat_facts_of(exchange, Reader.LOG))
        except Exception as error:  # noqa: BLE001 (as above)
            self.warn("log_failed", exchange, error)
        exchange.end()

    def failed(self, exchange: Exchange, error: Exception) -> None:
        """Log a bug of the proxy that ended an exchange."""
        reason = type(error).__name__
        self.log.error("bug", request_id=exchange.id, route=exchange.route, reason=reason)

    def warn(self, event: str, exchange: Exchange, error: Exception) -> None:
        """Log a bug that the client did not see."""
        self.log.warning(event, request_id=exchange.id, reason=type(error).__name__)

    def count(self, exchange: Exchange) -> None:
        """Count a finished exchange."""
        metrics = self.metrics
        status = status_label(exchange.status)
        metrics.inc(metrics.exchanges, exchange.route, status, exchange.outcome)
        metrics.observe(
            metrics.exchange_seconds, (exchange.times.total_ms or 0.0) / 1000, exchange.route
        )
        if exchange.times.first_byte_ms:
            metrics.observe(metrics.first_byte_seconds, exchange.times.first_byte_ms / 1000)
        if exchange.route in REPLAYED_ROUTES:
            self._count_request(exchange)
            self._time_overhead(exchange)
        if exchange.response.state:
            dialect, answer = exchange.dialect, exchange.response
            metrics.inc(metrics.captures, dialect, answer.state)
            if answer.reasoning_items:
                metrics.inc(metrics.captured_items, dialect, by=answer.reasoning_items)
                metrics.inc(metrics.captured_bytes, dialect, by=answer.reasoning_bytes)
        if exchange.response.capture is not None:
            self._count_response(exchange, exchange.response.capture)

    def _count_request(self, exchange: Exchange) -> None:
        metrics, dialect, request = self.metrics, exchange.dialect, exchange.request
        model = metrics.model_label(request.model)
        if request.state:
            metrics.inc(metrics.requests, dialect, request.state, *model)
        if request.way:
            metrics.inc(metrics.decisions, dialect, request.way)
        for outcome, count in request.outcomes.items():
            metrics.inc(metrics.items, dialect, outcome.value, *model, by=count)
        for repair, count in request.repairs.items():
            metrics.inc(metrics.repairs, dialect, repair, by=count)
        if request.injected_bytes:
            metrics.inc(metrics.injected_bytes, dialect, by=request.injected_bytes)

    def _time_overhead(self, exchange: Exchange) -> None:
        """Observe each phase that the exchange has reached."""
        metrics, overhead = self.metrics, self.metrics.overhead_seconds
        if exchange.times.before_ms:
            metrics.observe(overhead, exchange.times.before_ms / 1000, "before")
        if exchange.times.between_ms:
            metrics.observe(overhead, exchange.times.between_ms / 1000, "between")
        if exchange.times.after_ms:
            metrics.observe(overhead, exchange.times.after_ms / 1000, "after")

    def _count_response(self, exchange: Exchange, capture: Capture) -> None:
        """Count the facts that the upstream reports about its response."""
        metrics = self.metrics
        for reason, count in capture.removed.items():
            metrics.inc(metrics.removed_items, reason, by=count)
        if capture.reasoning_context:
            metrics.inc(metrics.reasoning_contexts, capture.reasoning_context)
        # A response can be retrieved many times, but it used its tokens once.
        if capture.usage is not None and exchange.route in CAPTURED_ROUTES:
            request = exchange.request
            labels = request.kind, *metrics.model_label(request.model)
            for kind, tokens in zip(TOKENS, astuple(capture.usage), strict=True):
                if tokens:
                    metrics.inc(metrics.tokens, exchange.dialect, kind, *labels, by=tokens)


def summary_header(exchange: Exchange, *, is_shadow: bool) -> str:
    """Return the value of `x-reasoning-replay`: a dictionary of counts (RFC 9651)."""
    members = [
        f"{name}={count}" for name, count in {"injected": 0, **exchange.request.counts}.items()
    ]
    if is_shadow:
        members.append("shadow")
    if exchange.request.repairs:
        members.append(f"repaired={exchange.request.repaired}")
    if exchange.request.healed:
        members.append(f"healed={exchange.request.healed}")
    if exchange.request.state not in ("", "planned"):
        members.append(f"asked={exchange.request.state}")
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
