"""
Handler: runs one exchange through its phases, in this order.

    client request -> admission -> request phase (read, ask, look up, decide, splice)
                   -> upstream phase (send, heal) -> response phase (relay, capture) -> exchange log

A WebSocket is relayed by its own handler after the request phase.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.core.dialects.foreign_keys import ForeignKeys
from reasoning_replay.core.dialects.registry import base_url_at, dialect_of
from reasoning_replay.core.dialects.states import ErrorCause, ExchangeOutcome, Route
from reasoning_replay.web.errors import (
    BUG,
    DRAINING,
    TOTAL_TIMEOUT,
    UNKNOWN_UPSTREAM,
    ErrorResponse,
    ProxyError,
    as_response,
    readable,
    shaped,
)
from reasoning_replay.web.exchange import Exchange, Limits, TenantOf
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.http.client_connection import ClientConnection
from reasoning_replay.web.http.strict_request import require_well_formed
from reasoning_replay.web.memory_budget import MemoryBudget, MemoryLease
from reasoning_replay.web.own_paths import OwnPaths
from reasoning_replay.web.pipeline.admission import AdmissionControl
from reasoning_replay.web.pipeline.client_request import ClientRequest, client_request
from reasoning_replay.web.pipeline.path_advice import PathAdvice
from reasoning_replay.web.pipeline.request_phase import RequestPhase
from reasoning_replay.web.pipeline.response_phase import ResponsePhase
from reasoning_replay.web.pipeline.upstream_phase import UpstreamPhase
from reasoning_replay.web.pipeline.upstream_request import UpstreamAddress
from reasoning_replay.web.tracing import Tracer
from reasoning_replay.web.upstreams import UpstreamChoice, UpstreamParts, Upstreams
from reasoning_replay.web.websocket.handler import WebSocketHandler


class _Phases(NamedTuple):
    """
    The phases of an exchange with one upstream; one that has begun keeps its own.

    Attributes:
        origin: Scheme and authority of the upstream.
        tenant_of: Returns the tenant of a request to it.
    """

    origin: str
    tenant_of: TenantOf
    requests: RequestPhase
    sending: UpstreamPhase
    responses: ResponsePhase
    websockets: WebSocketHandler


class ProxyHandler:
    """
    Handler of all exchanges.

    Attributes:
        admission: Counter of the exchanges in flight.
        budget: Memory that they hold.
        is_leaving: Whether the process is about to stop.
        own_paths: Answers for the proxy itself.
    """

    def __init__(  # noqa: PLR0913 (all that an exchange needs)
        self,
        upstreams: Upstreams,
        hosts: Mapping[str, str],
        limits: Limits,
        exchange_log: ExchangeLog,
        *,
        tracer: Tracer,
        log: Log,
        tells_overhead: bool = False,
    ) -> None:
        """
        Admit no exchange yet; `use` takes another mode later.

        Args:
            upstreams: The parts of each upstream.
            hosts: Host names that choose an upstream -> its name.
            limits: Limits on exchanges.
            exchange_log: Records every exchange.
            tracer: Begins the span of each, and of its request to the upstream.
            log: Gets advice on paths.
            tells_overhead: Whether clients are told how long the proxy took.
        """
        self._choice = UpstreamChoice(upstreams, hosts)
        self.own_paths = OwnPaths({name: parts.url for name, parts in upstreams.items()})
        self._exchange_log, self._tracer, self._log = exchange_log, tracer, log
        self._limits, self._tells_overhead = limits, tells_overhead
        self.admission = AdmissionControl(limits, exchange_log)
        self.budget = MemoryBudget(limits.inspect_total_max_bytes)
        self.is_leaving = False
        self._draining = asyncio.Event()
        self.use(upstreams)

    def use(self, upstreams: Upstreams) -> None:
        """Use these parts, of the same upstreams, for exchanges that begin from now on."""
        self._phases = {name: self._phases_of(name, parts) for name, parts in upstreams.items()}

    def _phases_of(self, name: str, upstream: UpstreamParts) -> _Phases:
        log, tracer = self._exchange_log, self._tracer
        limits, replays = self._limits, upstream.replays
        address, most_bytes = UpstreamAddress(upstream.url), limits.inspect_max_bytes
        guard = ForeignKeys(upstream.url) if upstream.refuses_foreign_keys else None
        advice = PathAdvice(upstream.url, self._log, name, is_on=bool(replays))
        responses = ResponsePhase(replays, most_bytes, log, advice, self._tells_overhead)
        sockets = replays.get(Route.CREATE), limits, log, tracer, responses
        return _Phases(
            address.origin,
            upstream.tenant_of,
            RequestPhase(address, replays, most_bytes, log, guard),
            UpstreamPhase(upstream.client, address.origin, replays, log, tracer),
            responses,
            WebSocketHandler(upstream.client, address.origin, *sockets),
        )

    def leave(self) -> None:
        """Close each connection after its next response."""
        self.is_leaving = True

    def drain(self) -> None:
        """
        Reject new WebSockets, and close each open one once no response runs on it.

        A request is still served: only connections that were promised another request can send one.
        """
        self.is_leaving = True
        self._draining.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Run one exchange through all its phases, or answer for the proxy itself."""
        name, target = self._choice.of(request)
        own = self.own_paths.answer(request, name, target, is_leaving=self.is_leaving)
        return own or await self._exchange(request, name, target)

    async def _exchange(
        self, request: web.BaseRequest, name: str | None, target: str
    ) -> web.StreamResponse:
        exchange_log = self._exchange_log
        exchange = exchange_log.new(Route.OTHER, request.method)
        exchange.lease = lease = MemoryLease(self.budget)
        try:
            exchange.client = exchange_log.client_of(request)
            client = client_request(request, target, self._limits, lease)
            exchange.route, exchange.upstream = client.route, name or ""
            self._tracer.begin(request, exchange.route, exchange.upstream)
            phases = self._phases_for(name, client)
            tenant = self.admission.acquire(exchange, client, phases.tenant_of)
            try:
                most_s = self._limits.total_timeout_s
                if not most_s or exchange.route is Route.WEBSOCKET:
                    return await self._run(exchange, client, phases)
                return await self._in_time(most_s, exchange, client, phases)
            finally:
                self.admission.release(tenant)
        except ProxyError as error:
            fault = error.fault
            exchange.status, exchange.outcome = fault.status, fault.code
            exchange.error, exchange.error_detail = fault.cause, fault.detail
            return self._error(exchange, readable(fault, request))
        except ConnectionResetError:
            raise  # the client has left, or was cut off
        except Exception as error:
            exchange_log.failed(exchange, error)
            exchange.outcome, exchange.error = BUG.code, ErrorCause.BUG
            exchange.error_detail = type(error).__name__
            if exchange.status:
                raise  # the response has begun: it can only be cut off
            exchange.status = BUG.status
            return self._error(exchange, readable(BUG, request))
        finally:
            connection = request.protocol
            if isinstance(connection, ClientConnection) and connection.has_stalled:
                exchange.outcome = ExchangeOutcome.CLIENT_STALLED
            exchange_log.settle(exchange)

    def _error(self, exchange: Exchange, fault: ErrorResponse) -> web.Response:
        ends = fault.ends or self.is_leaving
        fault = fault._replace(ends=ends, request_id=exchange.id)
        return as_response(shaped(fault, exchange.dialect))

    def _phases_for(self, name: str | None, client: ClientRequest) -> _Phases:
        """
        Return the phases of an upstream.

        Raises:
            ProxyError: The request names none.
        """
        if name is not None:
            return self._phases[name]
        require_well_formed(client.http)
        base_url = base_url_at("http://<this proxy>/<name>", dialect_of(client.route))
        names = ", ".join(self._choice.names)
        raise ProxyError(UNKNOWN_UPSTREAM.filled(names=names, base_url=base_url))

    async def _in_time(
        self, most_s: float, exchange: Exchange, client: ClientRequest, phases: _Phases
    ) -> web.StreamResponse:
        """Run the phases within `total_timeout_s`."""
        limit = asyncio.timeout(most_s)
        try:
            async with limit:
                return await self._run(exchange, client, phases)
        except TimeoutError:
            if not limit.expired():
                raise
            if not exchange.status:
                raise ProxyError(
                    TOTAL_TIMEOUT.filled(upstream=phases.origin, most_s=most_s)
                ) from None
            if client.cut_off():
                exchange.outcome = ExchangeOutcome.CUT_OFF
                exchange.error = ErrorCause.TOTAL_TIMEOUT
            raise ConnectionResetError from None

    async def _run(
        self, exchange: Exchange, client: ClientRequest, phases: _Phases
    ) -> web.StreamResponse:
        """Run the phases of an admitted exchange."""
        is_websocket = exchange.route is Route.WEBSOCKET
        if is_websocket and self._draining.is_set():
            raise ProxyError(DRAINING)
        try:
            try:
                request = await phases.requests.prepare(exchange, client)
                self._exchange_log.begin(exchange)
                if is_websocket:
                    return await phases.websockets.relay(exchange, client, request, self._draining)
                response = await phases.sending.send(exchange, client, request)
                del request  # a response may take long
            finally:
                exchange.lease.resize(0)
            connection = client.http.protocol
            is_old = isinstance(connection, ClientConnection) and connection.is_old
            return await phases.responses.relay(
                exchange, client, response, closes=is_old or self.is_leaving
            )
        finally:
            if not is_websocket:
                # Its end may arrive after the response.
                exchange.received_bytes = client.body.size
