"""Exchange recorder: metrics, log line, trace and inspector entry of each finished exchange."""

from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from msgspec.structs import asdict, astuple

from reasoning_replay.adapters.telemetry.log import Log, Value, called
from reasoning_replay.adapters.telemetry.metrics import TOKENS, Metrics, status_label
from reasoning_replay.core.dialects.captures import Capture
from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, HANDLED_ROUTES, REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.admin.inspector.recorder import Recorder
from reasoning_replay.web.errors import BUG
from reasoning_replay.web.exchange import DETAIL_MAX, Exchange
from reasoning_replay.web.tracing.tracer import Tracer

__all__ = ["ExchangeRecorder", "summary_header"]

_ERRORS = frozenset({"upstream_error", "cut_off", BUG.code})
_FAILURES = frozenset({"failed", "store_failed", "budget_exceeded"})


@dataclass(frozen=True, slots=True)
class ExchangeRecorder:
    """
    Recorder of finished exchanges; its failures never reach the client.

    Attributes:
        clock: Monotonic clock, in seconds.
        recorder: The newest exchanges, for the inspector; None: they are not kept.
        tracer: Ends the span of each exchange.
    """

    metrics: Metrics
    log: Log
    clock: Callable[[], float]
    recorder: Recorder | None = None
    tracer: Tracer = field(default_factory=Tracer)

    def begin(self, exchange: Exchange) -> None:
        """Show an exchange in the inspector before its request is sent; `settle` must follow."""
        if self.recorder is not None:
            try:
                self.recorder.begin(exchange)
            except Exception as error:  # noqa: BLE001 (fail open: the inspector may miss one)
                self.warn("inspector_failed", exchange, error)

    def settle(self, exchange: Exchange) -> None:
        """Trace, count and log a finished exchange. Never raises."""
        took_s = self.clock() - exchange.times.started_s
        self.tracer.end(exchange, took_s)
        try:
            self.count(exchange, took_s)
        except Exception as error:  # noqa: BLE001 (fail open: a response matters more than a metric)
            self.warn("metrics_failed", exchange, error)
        self._record(exchange, took_s)
        try:
            level = _level(exchange)
            if self.log.takes(level):
                self.log.write(level, "exchange", _fields(exchange, took_s))
        except Exception as error:  # noqa: BLE001 (as above)
            self.warn("log_failed", exchange, error)

    def failed(self, exchange: Exchange, error: Exception) -> None:
        """Log a bug of the proxy that ended an exchange."""
        reason = type(error).__name__
        self.log.error("bug", request_id=exchange.id, route=exchange.route, reason=reason)

    def warn(self, event: str, exchange: Exchange, error: Exception) -> None:
        """Log a bug that the client did not see."""
        self.log.warning(event, request_id=exchange.id, reason=type(error).__name__)

    def _record(self, exchange: Exchange, took_s: float) -> None:
        if self.recorder is not None:
            try:
                self.recorder.end(exchange, took_s)
            except Exception as error:  # noqa: BLE001 (as above)
                self.warn("inspector_failed", exchange, error)

    def count(self, exchange: Exchange, took_s: float = 0.0) -> None:
        """Count a finished exchange."""
        metrics = self.metrics
        status = status_label(exchange.status)
        metrics.inc(metrics.exchanges, exchange.route, status, exchange.outcome)
        metrics.observe(metrics.exchange_seconds, took_s, exchange.route)
        if exchange.times.first_byte_ms:
            metrics.observe(metrics.first_byte_seconds, exchange.times.first_byte_ms / 1000)
        if exchange.route in REPLAYED_ROUTES:
            self._count_request(exchange)
            self._time_overhead(exchange)
        if exchange.answer.state:
            dialect, answer = exchange.dialect, exchange.answer
            metrics.inc(metrics.captures, dialect, answer.state)
            if answer.reasoning_items:
                metrics.inc(metrics.captured_items, dialect, by=answer.reasoning_items)
                metrics.inc(metrics.captured_bytes, dialect, by=answer.reasoning_bytes)
        if exchange.answer.capture is not None:
            self._count_answer(exchange, exchange.answer.capture)

    def _count_request(self, exchange: Exchange) -> None:
        metrics, dialect, request = self.metrics, exchange.dialect, exchange.request
        if request.state:
            metrics.inc(metrics.requests, dialect, request.state)
        for outcome, count in request.outcomes.items():
            metrics.inc(metrics.items, dialect, outcome.value, by=count)
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

    def _count_answer(self, exchange: Exchange, capture: Capture) -> None:
        """Count the facts that the upstream reports about its response."""
        metrics = self.metrics
        for reason, count in capture.removed.items():
            metrics.inc(metrics.removed_items, reason, by=count)
        if capture.reasoning_context:
            metrics.inc(metrics.reasoning_contexts, capture.reasoning_context)
        # A response can be retrieved many times, but it used its tokens once.
        if capture.usage is not None and exchange.route in CAPTURED_ROUTES:
            for kind, tokens in zip(TOKENS, astuple(capture.usage), strict=True):
                if tokens:
                    metrics.inc(metrics.tokens, exchange.dialect, kind, by=tokens)


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
    has_failed = exchange.request.state in _FAILURES or exchange.answer.state in _FAILURES
    return "warning" if has_failed or exchange.request.healed else "info"


def _fields(exchange: Exchange, took_s: float) -> dict[str, Value]:
    """Return the fields of the log line; a test compares them with docs/observability.md."""
    usage = exchange.answer.capture.usage if exchange.answer.capture is not None else None
    is_create = exchange.route == Route.CREATE  # its sent bytes are not counted
    return {
        "route": exchange.route,
        "dialect": exchange.dialect or None,
        "status": exchange.status or None,
        "outcome": exchange.outcome,
        "error": exchange.error or None,
        "error_detail": called(exchange.error_detail, DETAIL_MAX),
        "client": exchange.client or None,
        "wrong_path": exchange.wrong_path or None,
        "method": None if exchange.route in HANDLED_ROUTES else called(exchange.method),
        "model": called(exchange.request.model),
        "asked": exchange.request.state or None,
        "captured": exchange.answer.state or None,
        "healed": exchange.request.healed or None,
        "repaired": exchange.request.repaired or None,
        **exchange.request.counts,
        "injected_bytes": exchange.request.injected_bytes or None,
        "captured_items": exchange.answer.reasoning_items,
        "captured_bytes": exchange.answer.reasoning_bytes or None,
        **(asdict(usage) if usage is not None else {}),
        "before_ms": round(exchange.times.before_ms, 2),
        "between_ms": round(exchange.times.between_ms, 2),
        "after_ms": round(exchange.times.after_ms, 2),
        "first_byte_ms": round(exchange.times.first_byte_ms, 1),
        "total_ms": round(took_s * 1000, 1),
        "received_bytes": exchange.received_bytes,
        "sent_bytes": None if is_create else exchange.sent_bytes,
        "scope": exchange.tenant.hex() if exchange.tenant else None,
        "conversation": exchange.conversation.hex() or None,
        "request_id": exchange.id,
        "upstream_request_id": called(exchange.upstream_request_id),
        "trace_id": exchange.trace_id or None,
    }
