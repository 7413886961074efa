"""
OpenTelemetry tracer: a SERVER span for each exchange, a CLIENT span for each attempt upstream.

    client's span -> exchange -> an attempt, and a second one if the request is healed
                  -> WebSocket -> its handshake, and each `response.create`
"""

import time
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

from aiohttp import web
from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from reasoning_replay.adapters.telemetry.tracing import Tracing
from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, HANDLED
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.dialects.vendors import Upstream
from reasoning_replay.core.wire.headers import Headers
from reasoning_replay.core.wire.trace_context import TRACEPARENT, with_parent
from reasoning_replay.settings.urls import port_of
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.tracing.span_attributes import (
    OPERATIONS,
    OURS,
    Attributes,
    attributes_of,
    error_of,
    events_of,
    known_method,
)
from reasoning_replay.web.tracing.tracer import Tracer

__all__ = ["otel_tracer"]

# Paths as the API documents them; the requested path is not exported.
_TEMPLATES: dict[str, str] = {one.route: one.path for one in HANDLED}
# A longer header is ignored.
_PARENT_MAX_BYTES = 512
_TRACEPARENT = TRACEPARENT.decode()
_W3C = TraceContextTextMapPropagator()


@dataclass(slots=True)
class _Trace:
    """
    The spans of the exchange that a task runs.

    Attributes:
        goes_on: Whether the client named its own span as parent.
        attempt: Span of the last request to the upstream.
        attempts: Number of requests to the upstream.
        sent_ns: When the last one was sent, or a `response.create` began, in ns since the epoch.
    """

    span: Span
    route: str
    goes_on: bool = False
    attempt: Span | None = None
    attempts: int = 0
    sent_ns: int = 0


_current: ContextVar[_Trace | None] = ContextVar("trace", default=None)


def otel_tracer(tracing: Tracing, upstream_url: str, profile: Upstream) -> Tracer:
    """Return the tracer of exchanges with one upstream."""
    return _OtelTracer(tracing, upstream_url, profile)


class _OtelTracer(Tracer):
    def __init__(self, tracing: Tracing, upstream_url: str, profile: Upstream) -> None:
        self._tracing = tracing
        self._guard, self._tracer = tracing.guard, tracing.tracer
        parts = urlsplit(upstream_url)
        self._server: Attributes = {
            "server.address": parts.hostname or "",
            "server.port": port_of(parts),
        }
        self._provider = profile.provider or profile.name

    def begin(self, request: web.BaseRequest, route: str) -> None:
        _current.set(None)
        with self._guard():
            parent = _parent([*request.raw_headers])
            method = known_method(request.method)
            template = _TEMPLATES.get(route)
            attributes: Attributes = {"http.request.method": method, OURS + "route": route}
            if template is not None:
                attributes["http.route"] = template
            name = f"{method} {template or route}"
            if route in OPERATIONS:
                name = OPERATIONS[route]
                attributes |= self._operation(route)
            span = self._tracer.start_span(name, parent or Context(), SpanKind.SERVER, attributes)
            _current.set(_Trace(span, route, goes_on=parent is not None))

    def _operation(self, route: str) -> Attributes:
        return {"gen_ai.operation.name": OPERATIONS[route], "gen_ai.provider.name": self._provider}

    def attempt(self, method: str, headers: Headers) -> Headers:
        trace = _current.get()
        if trace is None:
            return headers
        with self._guard():
            if trace.attempt is not None:
                trace.attempt.end()
            attributes = {"http.request.method": known_method(method), **self._server}
            if trace.attempts:
                attributes["http.request.resend_count"] = trace.attempts
            trace.attempts += 1
            trace.sent_ns = time.time_ns()
            context = set_span_in_context(trace.span, Context())
            trace.attempt = self._tracer.start_span(
                known_method(method), context, SpanKind.CLIENT, attributes
            )
            carrier: dict[str, str] = {}
            _W3C.inject(carrier, set_span_in_context(trace.attempt, Context()))
            if parent := carrier.get(_TRACEPARENT):  # absent if OTEL_SDK_DISABLED is set
                return with_parent(headers, parent.encode(), goes_on=trace.goes_on)
        return headers

    def answered(self, status: int, content_type: str) -> None:
        trace = _current.get()
        if trace is None or trace.attempt is None:
            return
        with self._guard():
            attempt = trace.attempt
            attempt.set_attribute("http.response.status_code", status)
            if status >= HTTPStatus.BAD_REQUEST:
                _fail(attempt, str(status))
            if content_type == "text/event-stream" and trace.route in CAPTURED_ROUTES:
                trace.span.set_attribute("gen_ai.request.stream", value=True)
            if status == HTTPStatus.SWITCHING_PROTOCOLS:
                trace.attempt = None  # the messages that follow have their own spans
                attempt.end()

    def failed(self, error: str) -> None:
        trace = _current.get()
        if trace is not None and trace.attempt is not None:
            with self._guard():
                _fail(trace.attempt, error)

    def end(self, exchange: Exchange) -> None:
        trace = _current.get()
        if trace is None:
            return
        with self._guard():
            if exchange.route == Route.CREATE:
                trace = self._created(trace.span, exchange.times.total_ms or 0.0)
            else:
                _current.set(None)  # the next request on this connection runs in the same task
            _end(trace, exchange)

    async def close(self, within_s: float) -> None:
        await self._tracing.close(within_s)

    def _created(self, whole: Span, took_ms: float) -> _Trace:
        """Return the span of a finished `response.create`, as a child of its WebSocket's span."""
        attributes = self._operation(Route.CREATE) | self._server | {OURS + "route": Route.CREATE}
        context = set_span_in_context(whole, Context())
        began_ns = time.time_ns() - int(took_ms * 1e6)
        span = self._tracer.start_span(
            OPERATIONS[Route.CREATE], context, SpanKind.CLIENT, attributes, start_time=began_ns
        )
        return _Trace(span, Route.CREATE, sent_ns=began_ns)


def _parent(headers: Headers) -> Context | None:
    """Return the parent span that a client names; None if the header is invalid or repeated."""
    named = [value for name, value in headers if name.lower() == TRACEPARENT]
    if len(named) != 1 or len(named[0]) > _PARENT_MAX_BYTES:
        return None
    # Without `tracestate`: it is forwarded, but a span would export it to the collector.
    context = _W3C.extract({_TRACEPARENT: named[0].decode("latin-1")}, Context())
    return context if get_current_span(context).get_span_context().is_valid else None


def _fail(span: Span, error: str) -> None:
    span.set_status(Status(StatusCode.ERROR))
    span.set_attribute("error.type", error)


def _end(trace: _Trace, exchange: Exchange) -> None:
    span, attempt = trace.span, trace.attempt
    try:
        context = span.get_span_context()
        exchange.trace_id = format_trace_id(context.trace_id) if context.is_valid else ""
        if attempt is not None:
            if exchange.outcome == "cut_off":
                _fail(attempt, exchange.outcome)
            attempt.end()
        if span.is_recording():
            attributes = attributes_of(exchange)
            span.set_attributes(attributes)
            if model := attributes.get("gen_ai.request.model"):
                span.update_name(f"{OPERATIONS[exchange.route]} {model}")
            for name, facts, at_ns in events_of(exchange, trace.sent_ns or time.time_ns()):
                span.add_event(name, facts, at_ns)
            if error := error_of(exchange, is_client=exchange.route == Route.CREATE):
                _fail(span, error)
    finally:
        span.end()
