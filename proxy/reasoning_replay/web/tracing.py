"""
Tracer: two spans of each exchange, by the conventions of OpenTelemetry for HTTP and generative AI.

    client's span -> an exchange (SERVER) -> its request to the upstream, healed or not (CLIENT)
                  -> a WebSocket (SERVER) -> its handshake, and each `response.create` (CLIENT)

Their attributes are fixed words and numbers, and no text by a client or a model.
"""

import re
import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPMethod, HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web
from msgspec.structs import astuple

from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES, HANDLED
from reasoning_replay.core.dialects.states import ExchangeOutcome, Route
from reasoning_replay.core.dialects.vendors import Upstream
from reasoning_replay.core.wire.headers import TRACEPARENT, Headers, with_parent
from reasoning_replay.core.wire.hosts import port_of
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_facts import Reader, flat_facts_of

if TYPE_CHECKING:  # OpenTelemetry is imported only if tracing is on
    from opentelemetry.trace import Span

    from reasoning_replay.adapters.telemetry.tracing import Tracing

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
# Clients and upstreams choose model names and response ids: values of another form are left out.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,255}")
# Paths as the API documents them; the requested path is not exported.
_TEMPLATES: dict[str, str] = {one.route: one.path for one in HANDLED}
# A longer header is ignored.
_PARENT_MAX_BYTES = 512

# Outcomes with a response of the upstream; every other one is an error of the proxy itself.
_OUTCOMES = frozenset(ExchangeOutcome)
_STATUS, _MODEL = "http.response.status_code", "gen_ai.request.model"

Attributes = dict[str, str | int | float | bool]


@dataclass(slots=True)
class _Trace:
    """
    The spans of the exchange that a task runs.

    Attributes:
        goes_on: Whether the client named its own span as parent.
        upstream: Name of the upstream.
        client: Span of the request to the upstream; None before that.
    """

    server: "Span"
    goes_on: bool
    upstream: str
    client: "Span | None" = None


_current: ContextVar[_Trace | None] = ContextVar("trace", default=None)


class Tracer:
    """
    Tracer of exchanges; no call raises, and only `close` waits.

    Spans are found by the context of the running task, so Exchange has no field for them.
    """

    def __init__(
        self, tracing: "Tracing | None", upstreams: Mapping[str, tuple[str, Upstream]]
    ) -> None:
        """Trace nothing without `tracing`; `upstreams` has the URL and the profile of each."""
        self._tracing = tracing
        self._addresses: dict[str, Attributes] = {}
        self._providers: dict[str, str] = {}
        for name, (url, profile) in upstreams.items():
            at = urlsplit(url)
            self._addresses[name] = {
                "server.address": at.hostname or "",
                "server.port": port_of(at),
            }
            self._providers[name] = profile.provider or profile.name

    def begin(self, request: web.BaseRequest, route: str, upstream: str) -> None:
        """Start the span of an exchange with an upstream; `end` must follow in the same task."""
        _current.set(None)
        if self._tracing is None:
            return
        with self._tracing.fail_open():
            method, template = known_method(request.method), _TEMPLATES.get(route)
            attributes = self._of_operation(route, upstream) | {"http.request.method": method}
            if template is not None:
                attributes["http.route"] = template
            name = OPERATIONS.get(route) or f"{method} {template or route}"
            parents = [value for key, value in request.raw_headers if key.lower() == TRACEPARENT]
            is_valid = len(parents) == 1 and len(parents[0]) <= _PARENT_MAX_BYTES
            parent = parents[0].decode("latin-1") if is_valid else ""
            span, goes_on = self._tracing.server_span(name, parent, attributes)
            _current.set(_Trace(span, goes_on, upstream))

    def attempt(self, method: str, headers: Headers) -> Headers:
        """Note that a request is sent upstream; return headers that name its span as parent."""
        trace = _current.get()
        if self._tracing is None or trace is None:
            return headers
        with self._tracing.fail_open():
            if trace.client is None:
                name = known_method(method)
                attributes = self._addresses.get(trace.upstream, {}) | {"http.request.method": name}
                trace.client = self._tracing.client_span(name, trace.server, attributes)
            else:
                trace.client.set_attribute("http.request.resend_count", 1)
            of = trace.client.get_span_context()
            if of.is_valid:  # it is not if OTEL_SDK_DISABLED is set
                parent = f"00-{of.trace_id:032x}-{of.span_id:016x}-{of.trace_flags:02x}"
                return with_parent(headers, parent.encode(), goes_on=trace.goes_on)
        return headers

    def end(self, exchange: Exchange) -> None:
        """
        End the spans of an exchange; set the exchange's `trace_id`.

        A `response.create` on a WebSocket has no `begin`: its whole span is created here.
        """
        trace = _current.get()
        if self._tracing is None or trace is None:
            return
        with self._tracing.fail_open():
            context = trace.server.get_span_context()
            exchange.trace_id = f"{context.trace_id:032x}" if context.is_valid else ""
            if is_create := exchange.route == Route.CREATE:
                span = self._created(self._tracing, trace, exchange.times.total_ms or 0.0)
            else:
                _current.set(None)  # the next request on this connection runs in the same task
                span = trace.server
                if trace.client is not None:
                    if exchange.status and exchange.outcome in _OUTCOMES:
                        trace.client.set_attribute(_STATUS, exchange.status)
                    self._tracing.end(trace.client, error_of(exchange, is_client=True))
            if span.is_recording():
                attributes = attributes_of(exchange)
                span.set_attributes(attributes)
                if model := attributes.get(_MODEL):
                    span.update_name(f"{OPERATIONS[exchange.route]} {model}")
            self._tracing.end(span, error_of(exchange, is_client=is_create))

    async def close(self, within_s: float) -> None:
        """Send the remaining spans; those not sent in time are lost."""
        if self._tracing is not None:
            await self._tracing.close(within_s)

    def _created(self, tracing: "Tracing", trace: _Trace, took_ms: float) -> "Span":
        """Return the span of a finished `response.create`, a child of its WebSocket's span."""
        began_ns = time.time_ns() - int(took_ms * 1e6)
        attributes = self._of_operation(Route.CREATE, trace.upstream)
        attributes |= self._addresses.get(trace.upstream, {})
        return tracing.client_span(OPERATIONS[Route.CREATE], trace.server, attributes, began_ns)

    def _of_operation(self, route: str, upstream: str) -> Attributes:
        attributes: Attributes = {OURS + "route": route}
        if route in OPERATIONS:
            attributes["gen_ai.operation.name"] = OPERATIONS[route]
            if provider := self._providers.get(upstream):
                attributes["gen_ai.provider.name"] = provider
        return attributes


def known_method(method: str) -> str:
    """Return a request's method; `_OTHER` for a method that HTTP does not define."""
    return method if method in HTTPMethod.__members__ else "_OTHER"


def error_of(exchange: Exchange, *, is_client: bool) -> str:
    """
    Return the error type of a finished exchange; "" if it has not failed.

    By the conventions for HTTP, a 4xx is an error in a CLIENT span alone.
    """
    status, outcome, capture = exchange.status, exchange.outcome, exchange.response.capture
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR and not is_client:
        return ""
    if outcome in {ExchangeOutcome.REFUSED, ExchangeOutcome.UPSTREAM_ERROR}:
        return str(status or outcome)
    if outcome not in _OUTCOMES or outcome == ExchangeOutcome.CUT_OFF:
        return outcome
    has_failed = capture is not None and capture.has_failed
    return "response_failed" if has_failed and exchange.route in CAPTURED_ROUTES else ""


def attributes_of(exchange: Exchange) -> Attributes:
    """Return the attributes of a finished exchange."""
    facts = flat_facts_of(exchange, Reader.SPAN).items()
    attributes: Attributes = {OURS + name: value for name, value in facts if value is not None}
    if exchange.status:
        attributes[_STATUS] = exchange.status
    if exchange.route not in OPERATIONS:
        return attributes
    names, capture = {_MODEL: exchange.request.model}, exchange.response.capture
    if capture is not None:
        names |= {"gen_ai.response.id": capture.response_id, "gen_ai.response.model": capture.model}
    attributes |= {key: name for key, name in names.items() if _NAME.fullmatch(name)}
    if exchange.route in CAPTURED_ROUTES:  # to fetch a response again takes no tokens
        if exchange.response.is_stream:
            attributes["gen_ai.request.stream"] = True
        if capture is not None and capture.usage is not None:
            used = zip(_TOKENS, astuple(capture.usage), strict=False)
            attributes |= {
                f"gen_ai.usage.{name}": count for name, count in used if count is not None
            }
    return attributes
