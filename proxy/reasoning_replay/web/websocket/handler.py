"""WebSocket handler: runs one WebSocket, from the handshake to its end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from aiohttp import web

from reasoning_replay.adapters.upstream.client import (
    UpstreamClient,
    UpstreamError,
    UpstreamResponse,
    UpstreamSocket,
)
from reasoning_replay.core.dialects.states import ExchangeOutcome
from reasoning_replay.core.wire.headers import without
from reasoning_replay.web.errors import REQUEST_ID, ProxyError, upstream_error
from reasoning_replay.web.exchange import Exchange, Limits
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.http.upgrade import (
    accept_upgrade,
    offers_compression,
    require_handshake,
)
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.healing_retry import CheckedResponse
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.pipeline.response_phase import ResponsePhase
from reasoning_replay.web.pipeline.upstream_request import UpstreamRequest
from reasoning_replay.web.tracing import Tracer
from reasoning_replay.web.websocket.arriving import ArrivingMessages
from reasoning_replay.web.websocket.relay import Peer, Relay
from reasoning_replay.web.websocket.session import Session

# Largest message, unless a setting allows more: aiohttp holds each one whole. A longer one ends the
# connection with code 1009.
MESSAGE_MAX_BYTES = 64 << 20
# How long the relay may go on after the client has left, to forward the client's last messages.
LINGER_S = 10.0

_OWN_ID, _UPSTREAM_ID = REQUEST_ID.encode(), b"x-request-id"


@dataclass(frozen=True, slots=True)
class WebSocketHandler:
    """
    Handler of the WebSockets to one upstream.

    Attributes:
        origin: Scheme and authority of the upstream, for error messages.
        replay: Captures and injects; None if the mode is off.
        limits: Limits on messages, and the timeout for a client that reads nothing.
        exchange_log: Records the WebSocket, and each `response.create`.
        tracer: Begins the span of a handshake with the upstream.
        refusals: Relays an upstream's refusal of the handshake.
    """

    upstream: UpstreamClient
    origin: str
    replay: Replay | None
    limits: Limits
    exchange_log: ExchangeLog
    tracer: Tracer
    refusals: ResponsePhase

    async def relay(
        self,
        exchange: Exchange,
        client: ClientRequest,
        request: UpstreamRequest,
        draining: asyncio.Event,
    ) -> web.StreamResponse:
        """
        Relay a WebSocket until it ends, or relay the upstream's refusal of the handshake.

        Raises:
            ProxyError: The upstream sent no response, or the handshake is invalid.
        """
        require_handshake(client.http)
        self._identify(exchange, client)
        from_upstream: list[ArrivingMessages] = []

        def on_open(transport: asyncio.Transport) -> None:
            from_upstream.append(self._arriving(exchange, transport, is_upstream=True))

        answer = await self._upgrade(exchange, client, request, on_open)
        if isinstance(answer, UpstreamResponse):
            checked = CheckedResponse(answer)
            return await self.refusals.relay(exchange, client, checked, closes=False)
        try:
            return await self._relay(exchange, client, answer, from_upstream[-1], draining)
        finally:
            answer.disconnect()

    async def _upgrade(
        self,
        exchange: Exchange,
        client: ClientRequest,
        request: UpstreamRequest,
        on_open: Callable[[asyncio.Transport], None],
    ) -> UpstreamSocket | UpstreamResponse:
        sent_s = monotonic()
        headers = self.tracer.attempt(request.method, request.headers)
        try:
            answer = await self.upstream.upgrade(
                request.url,
                headers,
                self._message_max_bytes(),
                on_open,
                is_compressed=offers_compression(client.http),
            )
        except UpstreamError as error:
            fault = upstream_error(error, self.origin, self.upstream.via)
            raise ProxyError(fault) from error
        exchange.times.first_byte_ms = (monotonic() - sent_s) * 1000
        head = answer if isinstance(answer, UpstreamResponse) else answer.response
        exchange.upstream_request_id = head.value(_UPSTREAM_ID)
        return answer

    async def _relay(
        self,
        exchange: Exchange,
        client: ClientRequest,
        upstream: UpstreamSocket,
        from_upstream: ArrivingMessages,
        draining: asyncio.Event,
    ) -> web.StreamResponse:
        exchange.status = upstream.response.status
        transport, limits = client.http.transport, self.limits
        if transport is None:
            raise ConnectionResetError
        headers = without(upstream.response.headers, _OWN_ID)
        arriving = self._arriving(exchange, transport)
        socket = await accept_upgrade(
            client.http,
            [*headers, (_OWN_ID, exchange.id.encode())],
            self._message_max_bytes(),
            compresses=bool(upstream.socket.compress),
        )
        near = Peer(
            socket,
            transport,
            limits.client_timeout_s,
            ExchangeOutcome.CLIENT_GONE,
            ExchangeOutcome.CLIENT_STALLED,
            arriving,
        )
        cut = ExchangeOutcome.CUT_OFF
        far = Peer(upstream.socket, upstream.transport, upstream.stall_s, cut, cut, from_upstream)
        session = None
        if self.replay is not None and client.path.endswith("/responses"):
            session = Session(
                exchange,
                self.replay,
                self.exchange_log,
                client.http.headers,
                limits.inspect_max_bytes,
                far.send,
            )
        # The server cancels this task as soon as the client leaves. The relay detects that itself.
        relay = Relay(exchange, near, far, self.exchange_log, session)
        running = asyncio.ensure_future(relay.run(draining))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait({running}, timeout=LINGER_S)
            raise
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        return socket

    def _identify(self, exchange: Exchange, client: ClientRequest) -> None:
        """Find out in which tenant's turn messages get room."""
        if self.replay is not None:
            with self.exchange_log.fail_open("replay_failed", exchange):
                self.replay.identify(exchange, client.http.headers)

    def _arriving(
        self, exchange: Exchange, transport: asyncio.Transport, *, is_upstream: bool = False
    ) -> ArrivingMessages:
        """Count the messages of one peer from now on."""
        lease = MemoryLease(exchange.lease.budget)
        lease.tenant = exchange.lease.tenant
        most = self._message_max_bytes()
        return ArrivingMessages(transport, lease, most, is_upstream=is_upstream)

    def _message_max_bytes(self) -> int:
        """Return the size limit of a message in bytes, for both directions."""
        return max(MESSAGE_MAX_BYTES, self.limits.inspect_max_bytes) + 1
