"""
OpenTelemetry tracer: a SERVER span for each exchange, a CLIENT span for each attempt upstream.

    client's span -> exchange -> an attempt, and a second one if the request is healed
                  -> WebSocket -> its handshake, and each `response.create`

Their attributes are fixed words and numbers, and no text by a client or a model.
"""

import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

from aiohttp import web
from msgspec.structs import astuple
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
from typing_extensions import override

from reasoning_replay.adapters.telemetry.tracing import Tracing
from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, HANDLED
from reasoning_replay.core.dialects.states import CaptureState, RequestState, Route
from reasoning_replay.core.dialects.vendors import Upstream
from reasoning_replay.core.wire.headers import TRACEPARENT, Headers, with_parent
from reasoning_replay.core.wire.hosts import port_of
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_facts import Reader, flat_facts_of
from reasoning_replay.web.tracing.tracer import Tracer

# Prefix of the names that no convention defines.
OURS = "reasoning_replay."
# Operations that the conventions for generative AI define.
OPERATIONS: dict[str, str] = {
    **dict.fromkeys(CAPTURED_ROUTES, "chat"),
    Route.RETRIEVE: "fetch_response",
}
# Names of the fields of `Usage` in the same conventions.
_TOKENS = (
    "input_tokens",
    "cache_read.input_tokens",
    "output_tokens",
    "reasoning.output_tokens",
    "cache_creation.input_tokens",
)
_METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}
)
# Clients and upstreams choose model names and response ids: values of another form are left out.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,255}")

Attributes = dict[str, str | int | float | bool]

# Paths as the API documents them; the requested path is not exported.
_TEMPLATES: dict[str, str] = {one.route: one.path for one in HANDLED}
# A longer header is ignored.
_PARENT_MAX_BYTES = 512
_TRACEPARENT = TRACEPARENT.decode()
_W3C = TraceContextTextMapPropagator()


class _Facts(NamedTuple):
    """Attributes of all spans of one upstream, and its name in the conventions."""

    server: Attributes
    provider: str


@dataclass(slots=True)
class _Trace:
    """
    The spans of the exchange that a task runs.

    Attributes:
        goes_on: Whether the client named its own span as parent.
        upstream: Facts of its upstream.
        attempt: Span of the last request to the upstream.
        attempts: Number of requests to the upstream.
        sent_ns: When the last one was sent, or a `response.create` began, in ns since the epoch.
    """

    span: Span
    route: str
    upstream: _Facts
    goes_on: bool = False
    attempt: Span | None = None
    attempts: int = 0
    sent_ns: int = 0


_NO_FACTS = _Facts({}, "")  # of a request that names no upstream
_current: ContextVar[_Trace | None] = ContextVar("trace", default=None)


class OtelTracer(Tracer):
    """Tracer of the exchanges with all upstreams."""

    def __init__(self, tracing: Tracing, upstreams: Mapping[str, tuple[str, Upstream]]) -> None:
        """Start without spans; `upstreams` has the URL and the profile of each, by name."""
        self._tracing = tracing
        self._guard, self._tracer = tracing.guard, tracing.tracer
        self._upstreams = {name: _facts_of(url, of) for name, (url, of) in upstreams.items()}

    @override
    def begin(self, request: web.BaseRequest, route: str, upstream: str) -> None:
        _current.set(None)
        with self._guard():
            parent = _parent([*request.raw_headers])
            method = known_method(request.method)
            template = _TEMPLATES.get(route)
            attributes: Attributes = {"http.request.method": method, OURS + "route": route}
            if template is not None:
                attributes["http.route"] = template
            name = f"{method} {template or route}"
            facts = self._upstreams.get(upstream, _NO_FACTS)
            if route in OPERATIONS:
                name = OPERATIONS[route]
                attributes |= _operation(route, facts)
            span = self._tracer.start_span(name, parent or Context(), SpanKind.SERVER, attributes)
            _current.set(_Trace(span, route, facts, goes_on=parent is not None))

    @override
    def attempt(self, method: str, headers: Headers) -> Headers:
        trace = _current.get()
        if trace is None:
            return headers
        with self._guard():
            if trace.attempt is not None:
                trace.attempt.end()
            attributes = {"http.request.method": known_method(method), **trace.upstream.server}
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

    @override
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

    @override
    def failed(self, error: str) -> None:
        trace = _current.get()
        if trace is not None and trace.attempt is not None:
            with self._guard():
                _fail(trace.attempt, error)

    @override
    def end(self, exchange: Exchange) -> None:
        trace = _current.get()
        if trace is None:
            return
        with self._guard():
            if exchange.route == Route.CREATE:
                trace = self._created(trace, exchange.times.total_ms or 0.0)
            else:
                _current.set(None)  # the next request on this connection runs in the same task
            _end(trace, exchange)

    @override
    async def close(self, within_s: float) -> None:
        await self._tracing.close(within_s)

    def _created(self, whole: _Trace, took_ms: float) -> _Trace:
        """Return the span of a finished `response.create`, as a child of its WebSocket's span."""
        facts = whole.upstream
        attributes = _operation(Route.CREATE, facts) | facts.server
        attributes[OURS + "route"] = Route.CREATE
        context = set_span_in_context(whole.span, Context())
        began_ns = time.time_ns() - int(took_ms * 1e6)
        span = self._tracer.start_span(
            OPERATIONS[Route.CREATE], context, SpanKind.CLIENT, attributes, start_time=began_ns
        )
        return _Trace(span, Route.CREATE, facts, sent_ns=began_ns)


def _facts_of(upstream_url: str, profile: Upstream) -> _Facts:
    parts = urlsplit(upstream_url)
    server: Attributes = {"server.address": parts.hostname or "", "server.port": port_of(parts)}
    return _Facts(server, profile.provider or profile.name)


def _operation(route: str, upstream: _Facts) -> Attributes:
    named: Attributes = {"gen_ai.operation.name": OPERATIONS[route]}
    return named | ({"gen_ai.provider.name": upstream.provider} if upstream.provider else {})


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
            _add_events(span, exchange, trace.sent_ns or time.time_ns())
            if error := error_of(exchange, is_client=exchange.route == Route.CREATE):
                _fail(span, error)
    finally:
        span.end()


def known_method(method: str) -> str:
    """Return a request's method; `_OTHER` for a method that HTTP does not define."""
    return method if method in _METHODS else "_OTHER"


def error_of(exchange: Exchange, *, is_client: bool) -> str:
    """
    Return the error type of a finished exchange; "" if it has not failed.

    By the conventions for HTTP, a 4xx is an error in a CLIENT span alone, as of `response.create`.
    """
    status, outcome = exchange.status, exchange.outcome
    if outcome in {"refused", "upstream_error"}:
        is_error = is_client or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return str(status or outcome) if is_error else ""
    if outcome in {"ok", "client_gone", "client_stalled"}:
        has_failed = exchange.response.capture is not None and exchange.response.capture.has_failed
        return "response_failed" if has_failed and exchange.route in CAPTURED_ROUTES else ""
    is_clients_fault = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return "" if is_clients_fault else outcome


def attributes_of(exchange: Exchange) -> Attributes:
    """Return the attributes of a finished exchange."""
    attributes: Attributes = {
        OURS + name: value
        for name, value in flat_facts_of(exchange, Reader.SPAN).items()
        if value is not None
    }
    if exchange.status:
        attributes["http.response.status_code"] = exchange.status
    if exchange.route in OPERATIONS:
        attributes |= _of_model(exchange)
    return attributes


def _of_model(exchange: Exchange) -> Attributes:
    """Return the attributes of the conventions for generative AI."""
    attributes: Attributes = {}
    if _MODEL.fullmatch(exchange.request.model):
        attributes["gen_ai.request.model"] = exchange.request.model
    capture = exchange.response.capture
    if capture is None:
        return attributes
    if _ID.fullmatch(capture.response_id):
        attributes["gen_ai.response.id"] = capture.response_id
    if _MODEL.fullmatch(capture.model):
        attributes["gen_ai.response.model"] = capture.model
    if capture.usage is not None and exchange.route in CAPTURED_ROUTES:  # a GET would repeat it
        used = zip(_TOKENS, astuple(capture.usage), strict=False)
        attributes |= {"gen_ai.usage." + name: count for name, count in used if count is not None}
    return attributes


def _add_events(span: Span, exchange: Exchange, sent_ns: int) -> None:
    """Add what happened in a finished exchange; `sent_ns` is when its last attempt was sent."""
    if exchange.request.healed:
        span.add_event(OURS + "heal", {OURS + "diagnosis": exchange.request.healed}, sent_ns)
    if exchange.request.state == RequestState.STORE_FAILED:
        span.add_event(OURS + "store_failure", {OURS + "operation": "recall"}, sent_ns)
    if exchange.response.state == CaptureState.STORE_FAILED:
        span.add_event(OURS + "store_failure", {OURS + "operation": "save"})
