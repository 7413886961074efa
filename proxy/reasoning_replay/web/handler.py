"""
Handler: runs one exchange through its phases, in this order.

    client request -> admission -> request phase (read, ask, look up, decide, splice)
                   -> upstream phase (send, heal) -> response phase (relay, capture) -> exchange log

A WebSocket is relayed by its own handler after the request phase.
"""

import asyncio
from typing import NamedTuple

from aiohttp import web

from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.core.dialects.foreign_keys import ForeignKeys
from reasoning_replay.core.dialects.states import ErrorCause, ExchangeOutcome, Route
from reasoning_replay.web.errors import (
    BUG,
    DRAINING,
    TOTAL_TIMEOUT,
    ErrorResponse,
    ProxyError,
    as_response,
    readable,
    shaped,
)
from reasoning_replay.web.exchange import Exchange, Limits
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.http.client_connection import ClientConnection
from reasoning_replay.web.memory_budget import MemoryBudget, MemoryLease
from reasoning_replay.web.pipeline.admission import AdmissionControl
from reasoning_replay.web.pipeline.client_request import ClientRequest, client_request
from reasoning_replay.web.pipeline.path_advice import PathAdvice
from reasoning_replay.web.pipeline.replay import Replays
from reasoning_replay.web.pipeline.request_phase import RequestPhase
from reasoning_replay.web.pipeline.response_phase import ResponsePhase
from reasoning_replay.web.pipeline.upstream_phase import UpstreamPhase
from reasoning_replay.web.pipeline.upstream_request import UpstreamAddress
from reasoning_replay.web.websocket.handler import WebSocketHandler


class _Phases(NamedTuple):
    """The phases of an exchange; one that has begun keeps its own."""

    requests: RequestPhase
    sending: UpstreamPhase
    responses: ResponsePhase
    websockets: WebSocketHandler


class ProxyHandler:
    """
    Handler of all exchanges with one upstream.

    Attributes:
        admission: Counter of the exchanges in flight.
        budget: Memory that they hold.
        is_leaving: Whether the process is about to stop.
    """

    def __init__(
        self,
        upstream_url: str,
        upstream: UpstreamClient,
        replays: Replays,
        limits: Limits,
        exchange_log: ExchangeLog,
    ) -> None:
        """
        Admit no exchange yet; `use` takes another mode later.

        Args:
            upstream_url: URL that `/v1` maps to, without a trailing slash.
            upstream: Client for that URL.
            replays: Capture and inject, by route; empty if the mode is off.
            limits: Limits on exchanges.
            exchange_log: Records every exchange.
        """
        self._upstream_url = upstream_url
        self._address = UpstreamAddress(upstream_url)
        self._upstream = upstream
        self._exchange_log = exchange_log
        self.admission = AdmissionControl(limits, exchange_log)
        self.budget = budget = MemoryBudget(limits.inspect_total_max_bytes)
        exchange_log.metrics.memory_budget_max.set(budget.units)
        exchange_log.metrics.memory_budget_used.set_function(lambda: budget.used)
        self.is_leaving = False
        self._draining = asyncio.Event()
        self.use(replays, limits)

    def use(self, replays: Replays, limits: Limits) -> None:
        """Use this mode for the exchanges that begin from now on."""
        self._limits = limits
        log, address, most_bytes = self._exchange_log, self._address, limits.inspect_max_bytes
        guard = ForeignKeys(self._upstream_url) if limits.refuses_foreign_keys else None
        advice = PathAdvice(self._upstream_url, log, is_on=bool(replays))
        responses = ResponsePhase(replays, most_bytes, log, advice)
        sockets = replays.get(Route.CREATE), limits, log, responses
        self._phases = _Phases(
            RequestPhase(address, replays, most_bytes, log, guard),
            UpstreamPhase(self._upstream, address.origin, replays, log),
            responses,
            WebSocketHandler(self._upstream, address.origin, *sockets),
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
        """Run one exchange through all its phases."""
        exchange_log = self._exchange_log
        exchange = exchange_log.new(Route.OTHER, request.method)
        exchange.lease = lease = MemoryLease(self.budget)
        try:
            exchange.client = exchange_log.client_of(request)
            client = client_request(request, self._limits, lease)
            exchange.route = client.route
            exchange_log.tracer.begin(request, exchange.route)
            tenant = self.admission.acquire(request)
            try:
                most_s = self._limits.total_timeout_s
                if not most_s or exchange.route is Route.WEBSOCKET:
                    return await self._run(exchange, client)
                return await self._in_time(most_s, exchange, client)
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

    def refuse(self, fault: ErrorResponse, client: str) -> str:
        """Record a request that was refused before it became an exchange; return its id."""
        exchange = self._refused(fault)
        exchange.client = client
        self._exchange_log.settle(exchange)
        return exchange.id

    def count_refusal(self, fault: ErrorResponse) -> None:
        """Count a refused connection, without a log line."""
        self._exchange_log.count(self._refused(fault))

    def _refused(self, fault: ErrorResponse) -> Exchange:
        exchange = self._exchange_log.new(Route.OTHER)
        exchange.status, exchange.outcome = fault.status, fault.code
        return exchange

    def _error(self, exchange: Exchange, fault: ErrorResponse) -> web.Response:
        ends = fault.ends or self.is_leaving
        fault = fault._replace(ends=ends, request_id=exchange.id)
        return as_response(shaped(fault, exchange.dialect))

    async def _in_time(
        self, most_s: float, exchange: Exchange, client: ClientRequest
    ) -> web.StreamResponse:
        """Run the phases within `total_timeout_s`."""
        limit = asyncio.timeout(most_s)
        try:
            async with limit:
                return await self._run(exchange, client)
        except TimeoutError:
            if not limit.expired():
                raise
            if not exchange.status:
                raise ProxyError(
                    TOTAL_TIMEOUT.filled(upstream=self._address.origin, most_s=most_s)
                ) from None
            if client.cut_off():
                exchange.outcome = ExchangeOutcome.CUT_OFF
                exchange.error = ErrorCause.TOTAL_TIMEOUT
            raise ConnectionResetError from None

    async def _run(self, exchange: Exchange, client: ClientRequest) -> web.StreamResponse:
        """Run the phases of an admitted exchange."""
        phases = self._phases
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
                exchange, client, response, is_last=is_old or self.is_leaving
            )
        finally:
            if not is_websocket:
                # Its end may arrive after the response.
                exchange.received_bytes = client.body.size
