"""Upstream phase: sends a request, and sends it once more if its refusal can be cured."""

from reasoning_replay.adapters.upstream.client import (
    UpstreamClient,
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.web.errors import ProxyError, upstream_error
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeRecorder
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.healing_retry import Answer, Healers
from reasoning_replay.web.pipeline.upstream_request import UpstreamRequest

__all__ = ["UpstreamPhase"]

_REQUEST_ID = b"x-request-id"


class UpstreamPhase:
    """Sender of requests to one upstream."""

    def __init__(
        self,
        upstream: UpstreamClient,
        origin: str,
        healers: Healers,
        recorder: ExchangeRecorder,
    ) -> None:
        """
        Keep the parts that all exchanges share.

        Args:
            upstream: Client for the upstream.
            origin: Scheme and authority of the upstream, for error messages.
            healers: Heal refused requests, by route.
            recorder: Provides the clock and the tracer.
        """
        self._upstream = upstream
        self._origin = origin
        self._healers = healers
        self._clock = recorder.clock
        self._tracer = recorder.tracer

    async def send(
        self, exchange: Exchange, client: ClientRequest, request: UpstreamRequest
    ) -> Answer:
        """
        Return the upstream's response; only its head, or the part that healing needs, is read.

        Raises:
            ProxyError: There is no response.
        """
        sent_s = self._clock()
        response = await self._send(client, request)
        exchange.times.first_byte_ms = (self._clock() - sent_s) * 1000
        healer = self._healers.get(exchange.route)
        if healer is None or request.bodies is None:
            answer = Answer(response)
        else:
            try:
                answer = await healer.heal(
                    exchange,
                    response,
                    request.bodies,
                    lambda cure: self._send(client, request.with_cure(cure)),
                )
            except BaseException:  # the client has left
                response.close()
                raise
        exchange.upstream_request_id = answer.response.value(_REQUEST_ID)
        return answer

    async def _send(self, client: ClientRequest, request: UpstreamRequest) -> UpstreamResponse:
        headers = self._tracer.attempt(request.method, request.headers)
        try:
            response = await self._upstream.send(request.method, request.url, headers, request.body)
        except UpstreamError as error:
            self._tracer.failed(error.source)
            fault = client.body.fault  # a bad body is the cause, not the upstream
            if fault is None:
                fault = upstream_error(error, self._origin, self._upstream.via)
            raise ProxyError(fault) from error
        self._tracer.answered(response.status, response.content_type)
        return response
