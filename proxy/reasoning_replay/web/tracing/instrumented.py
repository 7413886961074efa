"""
The parts that an exchange passes through, as they are where it is traced.

    client's span -> exchange -> a try upstream, and the second one of a request that was healed
                  -> WebSocket -> each `response.create`

They stand in for the parts of the same names: where tracing is off, none of this exists. An
exchange is found by the task that it runs in, so that no other part needs to know of it.
"""

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

from aiohttp import web

from reasoning_replay.adapters.telemetry.tracing import Live, Tracing
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import Egress
from reasoning_replay.adapters.upstream.pool import UpstreamPool
from reasoning_replay.adapters.upstream.request_writer import Body
from reasoning_replay.adapters.upstream.response import UpstreamError, UpstreamResponse
from reasoning_replay.adapters.upstream.websocket import UpstreamSocket
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.wire.headers import Headers
from reasoning_replay.core.wire.trace_context import Parent, fit_method, naming, parent_of
from reasoning_replay.settings.urls import port_of
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.http.server import Handler
from reasoning_replay.web.routes import route_of_request
from reasoning_replay.web.tracing.span_attributes import (
    MS,
    OPERATIONS,
    OURS,
    REFUSED,
    Known,
    ago_ns,
    error_of,
    tell,
)

__all__ = ["Instrumentation"]

_Answer = TypeVar("_Answer")

# The path as the API documents it. What a client really asked for is not told: it may be anything.
_TEMPLATES: dict[str, str] = {
    Route.RESPONSES: "/responses",
    Route.COMPACT: "/responses/compact",
    Route.INPUT_TOKENS: "/responses/input_tokens",
    Route.RETRIEVE: "/responses/{response_id}",
}


@dataclass(slots=True)
class _Trace:
    """
    What is known of the exchange of one task.

    Attributes:
        parent: What the client named as the exchange's parent.
        tries: How many requests went upstream.
        last: The last of them.
        is_stream: Whether its answer is an event stream.
        sent_ns, answered_ns: When the first went out, and when the last answer began.
    """

    live: Live
    parent: Parent | None
    tries: int = 0
    last: Live | None = None
    is_stream: bool = False
    sent_ns: int = 0
    answered_ns: int = 0


_current: ContextVar[_Trace | None] = ContextVar("trace", default=None)


class Instrumentation:
    """Makes the parts, for one upstream."""

    def __init__(self, tracing: Tracing, upstream_url: str, profile: Profile) -> None:
        """
        Keep what is the same in all spans.

        Args:
            tracing: Makes spans.
            upstream_url: Its host and port are told.
            profile: Says whose API it is.
        """
        self.tracing = tracing
        parts = urlsplit(upstream_url)
        self.place: Known = {
            "server.address": parts.hostname or "",
            "server.port": port_of(parts),
        }
        self.provider = profile.provider or profile.name

    def upstream(self, patience: Timeouts, egress: Egress) -> UpstreamPool:
        """Return connections on which each request is a span."""
        return _Upstream(self, patience, egress)

    def account(self, account: ExchangeRecorder) -> ExchangeRecorder:
        """Return an account that notes in a span what it writes down."""
        given = {known.name: getattr(account, known.name) for known in fields(account)}
        return _Account(**given, traced=self)

    def handler(self, handle: Handler) -> Handler:
        """Return what handles each exchange in a span."""

        async def traced(request: web.BaseRequest) -> web.StreamResponse:
            token = _current.set(self.tracing.harmless(self.begun, request))
            try:
                return await handle(request)
            finally:
                _current.reset(token)

        return traced

    def begun(self, request: web.BaseRequest) -> _Trace:
        """Begin an exchange's span."""
        parent = parent_of([*request.raw_headers])
        route = route_of_request(request)
        method = fit_method(request.method)
        facts: Known = {"http.request.method": method, OURS + "route": route}
        template = _TEMPLATES.get(route)
        if template is not None:
            facts["http.route"] = template
        name = f"{method} {template or route}"
        if route in OPERATIONS:
            name = OPERATIONS[route]
            facts |= self.operation(route)
        return _Trace(self.tracing.root(name, parent, facts), parent)

    def operation(self, route: str) -> Known:
        """Return what the conventions on generative AI want to know from the start."""
        return {"gen_ai.operation.name": OPERATIONS[route], "gen_ai.provider.name": self.provider}

    def created(self, took_s: float) -> Live | None:
        """Return the span of a `response.create`, which is over already."""
        trace = _current.get()
        if trace is None:
            return None
        facts = self.operation(Route.CREATE) | self.place | {OURS + "route": Route.CREATE}
        return trace.live.child(OPERATIONS[Route.CREATE], facts, ago_ns(took_s))


class _Upstream(UpstreamPool):
    """Makes each request a span, and names that as the parent of what upstream does."""

    def __init__(self, traced: Instrumentation, patience: Timeouts, egress: Egress) -> None:
        super().__init__(patience, egress)
        self._traced = traced

    async def send(self, method: str, url: str, headers: Headers, body: Body) -> UpstreamResponse:
        send = super().send
        return await self._in_span(
            method, headers, lambda named: send(method, url, named, body), _answered
        )

    async def upgrade(
        self, url: str, headers: Headers, max_bytes: int, *, is_compressed: bool
    ) -> UpstreamSocket | UpstreamResponse:
        upgrade = super().upgrade
        return await self._in_span(
            "GET",
            headers,
            lambda named: upgrade(url, named, max_bytes, is_compressed=is_compressed),
            _upgraded,
        )

    async def _in_span(
        self,
        method: str,
        headers: Headers,
        send: Callable[[Headers], Awaitable[_Answer]],
        note: Callable[[_Trace, Live, _Answer], None],
    ) -> _Answer:
        """Send a request whose headers name its span, and note the answer in that."""
        trace = _current.get()
        if trace is None:
            return await send(headers)
        harmless = self._traced.tracing.harmless
        live = harmless(self._begun, trace, method)
        if live is None:
            return await send(headers)
        named = harmless(_named, headers, trace, live) or headers
        try:
            answer = await send(named)
        except UpstreamError as error:
            live.fail(error.source)
            raise
        harmless(note, trace, live, answer)
        return answer

    def _begun(self, trace: _Trace, method: str) -> Live:
        if trace.last is not None:
            trace.last.end()
        named = fit_method(method)
        facts: Known = {"http.request.method": named, **self._traced.place}
        if not trace.tries:
            trace.sent_ns = time.time_ns()
        else:
            facts["http.request.resend_count"] = trace.tries
        trace.tries += 1
        trace.last = trace.live.child(named, facts)
        return trace.last


def _named(headers: Headers, trace: _Trace, live: Live) -> Headers:
    parent = live.parent(trace.parent)
    return naming(headers, parent, goes_on=trace.parent is not None) if parent else headers


def _answered(trace: _Trace, live: Live, response: UpstreamResponse) -> None:
    trace.answered_ns = time.time_ns()
    live.note({"http.response.status_code": response.status})
    if response.status >= REFUSED:
        live.fail(str(response.status))
    trace.is_stream = response.content_type == "text/event-stream"


def _upgraded(trace: _Trace, live: Live, answer: UpstreamSocket | UpstreamResponse) -> None:
    if isinstance(answer, UpstreamResponse):
        _answered(trace, live, answer)
    else:
        _answered(trace, live, answer.response)
        live.end()  # each response on it is a span of its own


@dataclass(frozen=True, slots=True)
class _Account(ExchangeRecorder):
    """Ends a span with each exchange."""

    traced: Instrumentation = field(kw_only=True)

    def settle(self, exchange: Exchange) -> None:
        tracing, took_s = self.traced.tracing, self.clock() - exchange.started_s
        if exchange.route == Route.CREATE:
            live = tracing.harmless(self.traced.created, took_s)
            trace = None
        else:
            trace = _current.get()  # none for what was refused before it was a request
            live = trace.live if trace is not None else None
        if live is not None:
            exchange.trace_id = live.trace_id
        ExchangeRecorder.settle(self, exchange)
        if live is not None:
            tracing.harmless(partial(_end, live, exchange, trace, took_s))


def _end(live: Live, exchange: Exchange, trace: _Trace | None, took_s: float) -> None:
    """Note what an exchange was, and end its span, with the last try that is part of it."""
    if trace is not None and trace.last is not None:
        if exchange.outcome == "cut_off":
            trace.last.fail(exchange.outcome)
        trace.last.end()
    if live.is_recording:
        now_ns = time.time_ns()
        if trace is not None:
            tell(live, exchange, trace.sent_ns or now_ns, trace.answered_ns or now_ns)
        else:
            sent_ns = ago_ns(took_s - exchange.before_ms / 1000)
            tell(live, exchange, sent_ns, sent_ns + int(exchange.first_byte_ms * MS))
        if trace is not None and trace.is_stream and exchange.route == Route.RESPONSES:
            live.note({"gen_ai.request.stream": True})
        error = error_of(exchange, is_client=trace is None)
        if error:
            live.fail(error)
    live.end()
