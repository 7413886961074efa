"""
The one handler: every exchange passes through its phases in the order they stand here.

    accept -> read -> prepare -> send (and heal, once) -> tee -> settle

A WebSocket is relayed where others are teed, and settled when it ends.
"""

import asyncio

from aiohttp import web

from reasoning_replay.adapters.upstream.client import (
    UpstreamClient,
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.core.dialects.states import REPLAYED_ROUTES, CaptureState, Route
from reasoning_replay.core.wire.headers import for_downstream, without
from reasoning_replay.web.errors import (
    BUG,
    DRAINING,
    MARK,
    ErrorResponse,
    ProxyError,
    as_response,
    too_long,
    upstream_error,
)
from reasoning_replay.web.exchange import Exchange, Limits, Times
from reasoning_replay.web.exchange_log import ExchangeRecorder, summary_header
from reasoning_replay.web.http.client_connection import ClientConnection
from reasoning_replay.web.http.upgrade import offers_compression, require_handshake
from reasoning_replay.web.pipeline.admission import AdmissionControl
from reasoning_replay.web.pipeline.capture_tee import CaptureTee, capture_tee_for
from reasoning_replay.web.pipeline.client_response import RawResponse, relay
from reasoning_replay.web.pipeline.healing_retry import Answer, Healer
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.pipeline.request_body import RequestBody
from reasoning_replay.web.pipeline.request_phase import RequestPhase, UpstreamRequest
from reasoning_replay.web.routes import route_of_request

__all__ = ["ProxyHandler"]

_MARK = MARK.encode()
_REQUEST_ID = b"x-request-id"
_REFUSED, _FAILED = 400, 500


class ProxyHandler:
    """
    Forwards exchanges to one upstream.

    Attributes:
        is_leaving: Whether the process is about to stop.
        under_way: Exchanges that are.
    """

    def __init__(
        self,
        upstream_url: str,
        upstream: UpstreamClient,
        replay: Replay | None,
        limits: Limits,
        account: ExchangeRecorder,
    ) -> None:
        """
        Keep what is shared by all exchanges.

        Args:
            upstream_url: What `/v1` stands for, without a slash at the end.
            upstream: Connections to it.
            replay: None when the mode is off.
            limits: See Limits.
            account: Where each exchange is written down.
        """
        self._intake = RequestPhase(upstream_url, replay, limits, account.log, account.clock)
        self._upstream = upstream
        self._replay = replay
        heals = replay is not None and replay.heals
        self._healer = Healer(replay, account) if replay is not None and heals else None
        self._limits = limits
        self._account = account
        self._tracer = account.tracer
        self.is_leaving = False
        self._draining = asyncio.Event()
        self.under_way = AdmissionControl(limits, account)

    def leave(self) -> None:
        """Keep no connection longer than the answer that comes next on it."""
        self.is_leaving = True

    def drain(self) -> None:
        """Take no further request, and no further message on a WebSocket."""
        self.is_leaving = True
        self._draining.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Carry one exchange through all its phases."""
        path = request.raw_path.partition("?")[0]
        exchange = Exchange(
            route_of_request(request), Times(self._account.clock()), method=request.method
        )
        self._tracer.begin(request, exchange.route)
        try:
            tenant = self.under_way.acquire(request)
            try:
                return await self._run_in_time(exchange, request, path)
            finally:
                self.under_way.release(tenant)
        except ProxyError as error:
            exchange.status, exchange.outcome = error.fault.status, error.fault.code
            return self._refusal(error.fault)
        except ConnectionResetError:
            raise  # the client has left, or is cut off
        except Exception as error:
            reason = type(error).__name__
            self._account.log.error(  # noqa: TRY400 (our own Log)
                "bug", request_id=exchange.id, route=exchange.route, reason=reason
            )
            exchange.outcome = BUG.code
            if exchange.status:
                raise  # the answer has begun: all that is left is to cut it off
            exchange.status = BUG.status
            return self._refusal(BUG)
        finally:
            connection = request.protocol
            if isinstance(connection, ClientConnection) and connection.has_stalled:
                exchange.outcome = "client_stalled"
            self._account.settle(exchange)

    def refuse(self, fault: ErrorResponse) -> None:
        """Write down a request that was refused before it was one."""
        self._account.settle(self._refused(fault))

    def count_refusal(self, fault: ErrorResponse) -> None:
        """Count a connection that was turned away, and write no line for it."""
        self._account.count(self._refused(fault))

    def _refused(self, fault: ErrorResponse) -> Exchange:
        exchange = Exchange(Route.OTHER, Times(self._account.clock()))
        exchange.status, exchange.outcome = fault.status, fault.code
        return exchange

    async def _run_in_time(
        self, exchange: Exchange, request: web.BaseRequest, path: str
    ) -> web.StreamResponse:
        most_s = self._limits.total_timeout_s
        if not most_s or exchange.route == Route.WEBSOCKET:
            return await self._run(exchange, request, path)
        limit = asyncio.timeout(most_s)
        try:
            async with limit:
                return await self._run(exchange, request, path)
        except TimeoutError:
            if not limit.expired():
                raise
            if not exchange.status:
                raise ProxyError(too_long(self._intake.origin, most_s)) from None
            self._cut_off(exchange, request)
            raise ConnectionResetError from None

    def _refusal(self, fault: ErrorResponse) -> web.Response:
        return as_response(fault._replace(ends=fault.ends or self.is_leaving))

    async def _run(
        self, exchange: Exchange, request: web.BaseRequest, path: str
    ) -> web.StreamResponse:
        if self._draining.is_set():
            raise ProxyError(DRAINING)
        if exchange.route == Route.WEBSOCKET:
            return await self._upgrade(exchange, request, path)
        incoming = self._intake.incoming(request)
        try:
            answer = await self._ask(exchange, request, path, incoming)
            exchange.upstream_request_id = answer.response.value(_REQUEST_ID)
        finally:
            incoming.lease.resize(0)  # an answer may take long
            exchange.received_bytes = incoming.size
        try:
            incoming.on_fault = answer.response.close
            if incoming.fault is not None:
                raise ProxyError(incoming.fault)
            return await self._tee(exchange, request, answer)
        finally:
            incoming.on_fault = None
            exchange.received_bytes = incoming.size  # its end may come behind the answer
            answer.response.close()  # one that was read to its end is back in the pool already

    async def _ask(
        self, exchange: Exchange, request: web.BaseRequest, path: str, incoming: RequestBody
    ) -> Answer:
        """Return upstream's answer; the request is let go then, as an answer may take long."""
        outgoing, bodies = await self._intake.accept(exchange, request, path, incoming)
        self._account.begin(exchange)
        sent = self._account.clock()
        response = await self._send(outgoing)
        exchange.times.first_byte_ms = (self._account.clock() - sent) * 1000
        if self._healer is None or bodies is None:
            return Answer(response)
        try:
            return await self._healer.heal(
                exchange, response, bodies, lambda body: self._send(outgoing.with_body(body))
            )
        except BaseException:  # the client has left
            response.close()
            raise

    async def _upgrade(
        self, exchange: Exchange, request: web.BaseRequest, path: str
    ) -> web.StreamResponse:
        """Relay a WebSocket, or the upstream's refusal of it."""
        # Many processes serve no WebSocket at all.
        from reasoning_replay.web.websocket import relay  # noqa: PLC0415 (as said)

        outgoing, _ = await self._intake.accept(
            exchange, request, path, self._intake.incoming(request)
        )
        require_handshake(request)
        self._account.begin(exchange)
        sent = self._account.clock()
        headers = self._tracer.attempt(outgoing.method, outgoing.headers)
        try:
            answer = await self._upstream.upgrade(
                outgoing.url,
                headers,
                relay.message_max_bytes(self._limits),
                is_compressed=offers_compression(request),
            )
        except UpstreamError as error:
            self._tracer.failed(error.source)
            fault = upstream_error(error, self._intake.origin, self._upstream.via)
            raise ProxyError(fault) from error
        exchange.times.first_byte_ms = (self._account.clock() - sent) * 1000
        head = answer if isinstance(answer, UpstreamResponse) else answer.response
        self._tracer.answered(head.status, head.content_type)
        exchange.upstream_request_id = head.value(_REQUEST_ID)
        if isinstance(answer, UpstreamResponse):
            return await self._tee(exchange, request, Answer(answer))
        return await relay.relay_websocket(
            exchange,
            request,
            answer,
            self._replay if self._intake.reads(path) else None,
            self._limits,
            self._intake.room,
            self._account,
            self._draining,
        )

    # --- send ---

    async def _send(self, outgoing: UpstreamRequest) -> UpstreamResponse:
        headers = self._tracer.attempt(outgoing.method, outgoing.headers)
        try:
            response = await self._upstream.send(
                outgoing.method, outgoing.url, headers, outgoing.body
            )
        except UpstreamError as error:
            self._tracer.failed(error.source)
            fault = outgoing.incoming.fault  # then that is why
            if fault is None:
                fault = upstream_error(error, self._intake.origin, self._upstream.via)
            raise ProxyError(fault) from error
        self._tracer.answered(response.status, response.content_type)
        return response

    # --- tee ---

    async def _tee(
        self,
        exchange: Exchange,
        request: web.BaseRequest,
        answer: Answer,
    ) -> web.StreamResponse:
        """Write every chunk as it comes; what completes an item, once it has been saved."""
        response = answer.response
        headers = for_downstream(response.headers)
        reader: CaptureTee | None = None
        if self._replay is not None and exchange.route != Route.OTHER:
            reader = self._reader(self._replay, exchange, response)
            if exchange.route in REPLAYED_ROUTES and self._replay.may_tell(response.status):
                said = summary_header(exchange, is_shadow=self._replay.is_shadow)
                if response.value(_MARK):
                    headers = without(headers, _MARK)
                headers.append((_MARK, said.encode()))
        # The next request of this client is for another replica, if this one is about to go.
        downstream = RawResponse(request, response, headers, is_last=self.is_leaving)
        exchange.status = response.status
        clock = self._account.clock
        is_whole = await relay(exchange, response, downstream, reader, answer.taken(), clock)
        if is_whole:
            if self._healer is not None:
                await self._healer.learn(exchange, answer)
            downstream.write_end()
            exchange.times.after_ms = (clock() - exchange.times.answered_s) * 1000
            await downstream.drain()
            exchange.outcome = _outcome(response.status)
        else:
            self._cut_off(exchange, request)
        return downstream

    @staticmethod
    def _cut_off(exchange: Exchange, request: web.BaseRequest) -> None:
        """
        Break an answer off as upstream did, so that the client does not take it for a whole one.

        After the first byte there is no status left to say it with.
        """
        if request.transport is not None:
            exchange.outcome = "cut_off"
            request.transport.close()

    def _reader(
        self, replay: Replay, exchange: Exchange, response: UpstreamResponse
    ) -> CaptureTee | None:
        log = self._account.log
        try:
            return capture_tee_for(response, replay, exchange, self._limits.capture_max_bytes, log)
        except Exception as error:  # noqa: BLE001 (fail open: the answer goes to the client)
            self._account.warn("capture_failed", exchange, error)
            exchange.answer.state = CaptureState.FAILED
            return None


def _outcome(status: int) -> str:
    """Return how an exchange ended whose answer came whole; what no class has is no success."""
    if status < _REFUSED:
        return "ok"
    return "refused" if status < _FAILED else "upstream_error"
