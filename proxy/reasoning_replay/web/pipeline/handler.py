"""
Handler: runs one exchange through its phases, in this order.

    client request -> admission -> request phase (read, ask, look up, decide, splice)
                   -> upstream phase (send, heal) -> answer phase (relay, capture) -> exchange log

A WebSocket is relayed by its own handler after the request phase.
"""

import asyncio
from typing import TYPE_CHECKING

from aiohttp import web

from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.core.dialects.states import ErrorCause, ExchangeOutcome, Route
from reasoning_replay.web.errors import (
    BUG,
    DRAINING,
    ErrorResponse,
    ProxyError,
    as_response,
    too_long,
)
from reasoning_replay.web.exchange import Exchange, Limits, Times
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.http.client_connection import ClientConnection
from reasoning_replay.web.memory_budget import MemoryBudget, MemoryLease
from reasoning_replay.web.pipeline.admission import AdmissionControl
from reasoning_replay.web.pipeline.answer_phase import AnswerPhase
from reasoning_replay.web.pipeline.client_request import ClientRequest, client_request
from reasoning_replay.web.pipeline.healing_retry import Answer, healers_of
from reasoning_replay.web.pipeline.path_advice import PathAdvice
from reasoning_replay.web.pipeline.replay import Replays
from reasoning_replay.web.pipeline.request_phase import RequestPhase
from reasoning_replay.web.pipeline.upstream_phase import UpstreamPhase
from reasoning_replay.web.pipeline.upstream_request import UpstreamAddress, UpstreamRequest

if TYPE_CHECKING:
    from reasoning_replay.web.websocket.handler import WebSocketHandler

__all__ = ["ProxyHandler"]


class ProxyHandler:
    """
    Handler of all exchanges with one upstream.

    Attributes:
        admission: Counter of the exchanges in flight.
        is_leaving: Whether the process is about to stop.
    """

    def __init__(
        self,
        upstream_url: str,
        upstream: UpstreamClient,
        replays: Replays,
        limits: Limits,
        recorder: ExchangeRecorder,
    ) -> None:
        """
        Keep the parts that all exchanges share.

        Args:
            upstream_url: URL that `/v1` maps to, without a trailing slash.
            upstream: Client for that URL.
            replays: Capture and inject, by route; empty if the mode is off.
            limits: See Limits.
            recorder: Records every exchange.
        """
        address = UpstreamAddress(upstream_url)
        healers = healers_of(replays, recorder)
        self.admission = AdmissionControl(limits, recorder)
        self._budget = budget = MemoryBudget(limits.inspect_total_max_bytes)
        recorder.metrics.memory_budget_max.set(budget.units)
        recorder.metrics.memory_budget_used.set_function(lambda: budget.used)
        self._requests = RequestPhase(address, replays, limits, recorder.log, recorder.clock)
        self._sending = UpstreamPhase(upstream, address.origin, healers, recorder)
        advice = PathAdvice(upstream_url, recorder.log, recorder.clock, is_on=bool(replays))
        self._answers = AnswerPhase(replays, healers, limits.inspect_max_bytes, recorder, advice)
        self._upstream = upstream
        self._replays = replays
        self._origin = address.origin
        self._limits = limits
        self._recorder = recorder
        self._websockets: WebSocketHandler | None = None
        self.is_leaving = False
        self._draining = asyncio.Event()

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
        recorder = self._recorder
        lease = MemoryLease(self._budget)
        exchange = Exchange(Route.OTHER, Times(recorder.clock()), request.method, lease=lease)
        try:
            exchange.client = request.remote or ""
            client = client_request(request, self._limits, lease)
            exchange.route = client.route
            recorder.tracer.begin(request, exchange.route)
            tenant = self.admission.acquire(request)
            try:
                return await self._carry_in_time(exchange, client)
            finally:
                self.admission.release(tenant)
        except ProxyError as error:
            fault = error.fault
            exchange.status, exchange.outcome = fault.status, fault.code
            exchange.error, exchange.error_detail = fault.cause, fault.detail
            return self._error(exchange, fault)
        except ConnectionResetError:
            raise  # the client has left, or was cut off
        except Exception as error:
            recorder.failed(exchange, error)
            exchange.outcome, exchange.error = BUG.code, ErrorCause.BUG
            exchange.error_detail = type(error).__name__
            if exchange.status:
                raise  # the response has begun: it can only be cut off
            exchange.status = BUG.status
            return self._error(exchange, BUG)
        finally:
            connection = request.protocol
            if isinstance(connection, ClientConnection) and connection.has_stalled:
                exchange.outcome = ExchangeOutcome.CLIENT_STALLED
            recorder.settle(exchange)

    def refuse(self, fault: ErrorResponse, client: str) -> str:
        """Record a request that was refused before it became an exchange; return its id."""
        exchange = self._refused(fault)
        exchange.client = client
        self._recorder.settle(exchange)
        return exchange.id

    def count_refusal(self, fault: ErrorResponse) -> None:
        """Count a refused connection, without a log line."""
        self._recorder.count(self._refused(fault))

    def _refused(self, fault: ErrorResponse) -> Exchange:
        exchange = Exchange(Route.OTHER, Times(self._recorder.clock()))
        exchange.status, exchange.outcome = fault.status, fault.code
        return exchange

    def _error(self, exchange: Exchange, fault: ErrorResponse) -> web.Response:
        ends = fault.ends or self.is_leaving
        return as_response(fault._replace(ends=ends, request_id=exchange.id))

    async def _carry_in_time(self, exchange: Exchange, client: ClientRequest) -> web.StreamResponse:
        """Run an exchange within `total_timeout_s`."""
        most_s = self._limits.total_timeout_s
        if not most_s or exchange.route is Route.WEBSOCKET:
            return await self._carry(exchange, client)
        limit = asyncio.timeout(most_s)
        try:
            async with limit:
                return await self._carry(exchange, client)
        except TimeoutError:
            if not limit.expired():
                raise
            if not exchange.status:
                raise ProxyError(too_long(self._origin, most_s)) from None
            if client.cut_off():
                exchange.outcome = ExchangeOutcome.CUT_OFF
                exchange.error = ErrorCause.TOTAL_TIMEOUT
            raise ConnectionResetError from None

    async def _carry(self, exchange: Exchange, client: ClientRequest) -> web.StreamResponse:
        if self._draining.is_set() and exchange.route is Route.WEBSOCKET:
            raise ProxyError(DRAINING)
        body = client.body
        try:
            try:
                request = await self._requests.prepare(exchange, client)
                self._recorder.begin(exchange)
                if exchange.route is Route.WEBSOCKET:
                    return await self._websocket(exchange, client, request)
                answer = await self._sending.send(exchange, client, request)
                del request  # a response may take long
            finally:
                exchange.lease.resize(0)
            return await self._relay(exchange, client, answer)
        finally:
            if exchange.route is not Route.WEBSOCKET:
                exchange.received_bytes = body.size  # its end may arrive after the response

    async def _relay(
        self, exchange: Exchange, client: ClientRequest, answer: Answer
    ) -> web.StreamResponse:
        """Relay a response; a fault in a request body that is still being sent ends it."""
        body = client.body
        body.on_fault = answer.response.close
        try:
            if body.fault is not None:
                answer.response.close()
                raise ProxyError(body.fault)
            return await self._answers.relay(exchange, client, answer, is_last=self.is_leaving)
        finally:
            body.on_fault = None

    async def _websocket(
        self, exchange: Exchange, client: ClientRequest, request: UpstreamRequest
    ) -> web.StreamResponse:
        if self._websockets is None:
            # Imported on first use: many processes serve no WebSocket.
            from reasoning_replay.web.websocket.handler import (  # noqa: PLC0415 (on first use)
                WebSocketHandler,
            )

            self._websockets = WebSocketHandler(
                self._upstream,
                self._origin,
                self._replays.get(Route.CREATE),
                self._limits,
                self._budget,
                self._recorder,
                self._answers,
            )
        return await self._websockets.carry(exchange, client, request, self._draining)
