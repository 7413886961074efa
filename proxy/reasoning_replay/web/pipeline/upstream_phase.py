"""Upstream phase: sends a request, and again if its refusal can be cured."""

from dataclasses import dataclass
from time import monotonic

from reasoning_replay.adapters.upstream.client import (
    Body,
    OnInterim,
    UpstreamClient,
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.web.errors import ProxyError, upstream_error
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.client_response import InterimResponses
from reasoning_replay.web.pipeline.healing_retry import CheckedResponse, Healer
from reasoning_replay.web.pipeline.replay import Replays
from reasoning_replay.web.pipeline.upstream_request import UpstreamRequest
from reasoning_replay.web.tracing import Tracer

_REQUEST_ID = b"x-request-id"


@dataclass(frozen=True, slots=True)
class UpstreamPhase:
    """
    Sender of requests to one upstream.

    Attributes:
        upstream: Client for the upstream.
        origin: Scheme and authority of the upstream, for error messages.
        replays: Their refused requests may be healed, by route; empty if the mode is off.
        exchange_log: Records what is healed.
        tracer: Begins the span of a request to the upstream.
    """

    upstream: UpstreamClient
    origin: str
    replays: Replays
    exchange_log: ExchangeLog
    tracer: Tracer

    async def send(
        self, exchange: Exchange, client: ClientRequest, request: UpstreamRequest
    ) -> CheckedResponse:
        """
        Return the upstream's response; only its head, or the part that healing needs, is read.

        Raises:
            ProxyError: There is no response.
        """
        sent_s = monotonic()
        on_interim = InterimResponses(client.http).write
        response = await self._send(exchange, client, request, on_interim)
        exchange.times.first_byte_ms = (monotonic() - sent_s) * 1000
        replay = self.replays.get(exchange.route)
        if replay is None or not replay.heals or request.bodies is None:
            checked = CheckedResponse(response)
        else:
            try:
                checked = await Healer(replay, self.exchange_log).heal(
                    exchange,
                    response,
                    request.bodies,
                    lambda cure: self._send(exchange, client, request.with_cure(cure), on_interim),
                )
            except BaseException:  # the client has left
                response.close()
                raise
        if checked.refusal is not None and not checked.is_success:
            exchange.request.note_refusal(checked.refusal)
        exchange.upstream_request_id = checked.response.value(_REQUEST_ID)
        return checked

    async def _send(
        self,
        exchange: Exchange,
        client: ClientRequest,
        request: UpstreamRequest,
        on_interim: OnInterim,
    ) -> UpstreamResponse:
        exchange.upstream_bytes = _size(request.body)
        headers = self.tracer.attempt(request.method, request.headers)
        try:
            response = await self.upstream.send(
                request.method, request.url, headers, request.body, on_interim
            )
        except UpstreamError as error:
            fault = client.body.fault  # a bad body is the cause, not the upstream
            if fault is None:
                fault = upstream_error(error, self.origin, self.upstream.via)
            raise ProxyError(fault) from error
        exchange.response.is_stream = response.content_type == "text/event-stream"
        return response


def _size(body: Body) -> int:
    """Return the size of a body that is held whole; 0 for any other."""
    if isinstance(body, list):
        return sum(map(len, body))
    return len(body) if isinstance(body, bytes) else 0
