"""WebSocket handler: runs one WebSocket, from the handshake to its end."""

import asyncio
from dataclasses import dataclass

from aiohttp import web

from reasoning_replay.adapters.upstream.client import (
    UpstreamClient,
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.web.errors import ProxyError, upstream_error
from reasoning_replay.web.exchange import Exchange, Limits
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.http.upgrade import offers_compression, require_handshake
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.healing_retry import CheckedResponse
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.pipeline.response_phase import ResponsePhase
from reasoning_replay.web.pipeline.upstream_request import UpstreamRequest
from reasoning_replay.web.websocket.relay import message_max_bytes, relay_websocket

__all__ = ["WebSocketHandler"]

_REQUEST_ID = b"x-request-id"


@dataclass(frozen=True, slots=True)
class WebSocketHandler:
    """
    Handler of the WebSockets to one upstream.

    Attributes:
        upstream: Client for the upstream.
        origin: Scheme and authority of the upstream, for error messages.
        replay: Captures and injects; None if the mode is off.
        limits: Limits on messages, and the timeout for a client that reads nothing.
        exchange_log: Records the WebSocket, and each `response.create`.
        refusals: Relays an upstream's refusal of the handshake.
    """

    upstream: UpstreamClient
    origin: str
    replay: Replay | None
    limits: Limits
    exchange_log: ExchangeLog
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
        clock, tracer = self.exchange_log.clock, self.exchange_log.tracer
        sent_s = clock()
        headers = tracer.attempt(request.method, request.headers)
        try:
            answer = await self.upstream.upgrade(
                request.url,
                headers,
                message_max_bytes(self.limits),
                is_compressed=offers_compression(client.http),
            )
        except UpstreamError as error:
            tracer.failed(error.source)
            fault = upstream_error(error, self.origin, self.upstream.via)
            raise ProxyError(fault) from error
        exchange.times.first_byte_ms = (clock() - sent_s) * 1000
        head = answer if isinstance(answer, UpstreamResponse) else answer.response
        tracer.answered(head.status, head.content_type)
        exchange.upstream_request_id = head.value(_REQUEST_ID)
        if isinstance(answer, UpstreamResponse):
            return await self.refusals.relay(
                exchange, client, CheckedResponse(answer), is_last=False
            )
        return await relay_websocket(
            exchange,
            client.http,
            answer,
            self.replay if client.path.endswith("/responses") else None,
            self.limits,
            self.exchange_log,
            draining,
        )
