"""Response phase: relays the upstream's response to the client, and captures it."""

from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from aiohttp import web

from reasoning_replay.adapters.upstream.client import UpstreamResponse
from reasoning_replay.core.dialects.registry import REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import CaptureState, ExchangeOutcome, Route
from reasoning_replay.core.wire.headers import Headers, for_downstream, without
from reasoning_replay.web.errors import MARK, REQUEST_ID, ProxyError
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog, summary_header
from reasoning_replay.web.pipeline.capture_tee import CaptureTee, capture_tee_for
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.client_response import ClientResponse, relay
from reasoning_replay.web.pipeline.error_tee import ErrorTee, error_tee_for
from reasoning_replay.web.pipeline.healing_retry import CheckedResponse, Healers
from reasoning_replay.web.pipeline.path_advice import PathAdvice
from reasoning_replay.web.pipeline.replay import Replays

__all__ = ["ResponsePhase"]

_MARK = MARK.encode()
_REQUEST_ID = REQUEST_ID.encode()


@dataclass(frozen=True, slots=True)
class ResponsePhase:
    """
    Relay of the responses of one upstream.

    Attributes:
        replays: Capture responses, by route; empty if the mode is off.
        healers: Learn from accepted cures, by route.
        capture_max_bytes: Largest response that is captured.
        exchange_log: Provides the clock and the log.
        advice: Explains paths that were not found.
    """

    replays: Replays
    healers: Healers
    capture_max_bytes: int
    exchange_log: ExchangeLog
    advice: PathAdvice

    async def relay(
        self, exchange: Exchange, client: ClientRequest, checked: CheckedResponse, *, is_last: bool
    ) -> web.StreamResponse:
        """
        Write each chunk as it arrives; one that completes an item is written after its save.

        Args:
            exchange: Its status and outcome are set.
            client: Receives the response.
            checked: Response to relay; closed at the end.
            is_last: Whether the connection is closed after it, because it is old, or this
                process is about to stop.

        Raises:
            ProxyError: The rest of the request is invalid, and no head was sent yet.
        """
        body, response = client.body, checked.response
        # A fault in a body that is still being sent ends the response.
        body.on_fault = response.close
        tee = None
        try:
            if body.fault is not None:
                raise ProxyError(body.fault)
            tee = self._tee(exchange, response)
            healer = self.healers.get(exchange.route)
            if healer is not None and checked.cured and isinstance(tee, CaptureTee):
                tee.on_complete = partial(healer.learn, exchange, checked)
            self.advice.note(exchange, client.path, response.status)
            headers = self._headers(exchange, response)
            downstream = ClientResponse(client.http, response, headers, is_last=is_last)
            exchange.status = response.status
            clock = self.exchange_log.clock
            if await relay(exchange, response, downstream, tee, checked.taken(), clock):
                if healer is not None:
                    await healer.learn(exchange, checked)
                downstream.write_end()
                exchange.times.after_ms = (clock() - exchange.times.answered_s) * 1000
                await downstream.drain()
                exchange.outcome = _outcome(response.status)
            elif client.cut_off():
                exchange.outcome = ExchangeOutcome.CUT_OFF
            return downstream
        finally:
            response.close()  # after its end, the connection is already back in the pool
            if isinstance(tee, CaptureTee):
                tee.lease.resize(0)
            body.on_fault = None

    def _headers(self, exchange: Exchange, response: UpstreamResponse) -> Headers:
        headers = for_downstream(response.headers)
        if response.value(_REQUEST_ID):  # of another proxy
            headers = without(headers, _REQUEST_ID)
        headers.append((_REQUEST_ID, exchange.id.encode()))
        replay = self.replays.get(exchange.route)
        if replay is None or exchange.route not in REPLAYED_ROUTES:
            if exchange.wrong_path and self.replays and not response.value(_MARK):
                headers.append((_MARK, f"wrong_path={exchange.wrong_path}".encode()))
            return headers
        if not replay.may_tell(response.status):
            return headers
        if response.value(_MARK):
            headers = without(headers, _MARK)
        said = summary_header(exchange, is_shadow=replay.is_shadow)
        return [*headers, (_MARK, said.encode())]

    def _tee(self, exchange: Exchange, response: UpstreamResponse) -> CaptureTee | ErrorTee | None:
        # A handshake is of the dialect that speaks over WebSockets.
        route = Route.CREATE if exchange.route is Route.WEBSOCKET else exchange.route
        replay, exchange_log = self.replays.get(route), self.exchange_log
        if replay is None:
            return None
        if response.status >= HTTPStatus.BAD_REQUEST:
            if exchange.response.capture is not None:
                exchange.response.state = CaptureState.REFUSED
            return error_tee_for(response, exchange)
        try:
            return capture_tee_for(response, replay, exchange, self.capture_max_bytes, exchange_log)
        except Exception as error:  # noqa: BLE001 (fail open: the client gets the response)
            exchange_log.warn("capture_failed", exchange, error)
            exchange.response.state = CaptureState.FAILED
            return None


def _outcome(status: int) -> ExchangeOutcome:
    """Map the status of a complete response to an outcome; unknown classes: `upstream_error`."""
    if status < HTTPStatus.BAD_REQUEST:
        return ExchangeOutcome.OK
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return ExchangeOutcome.REFUSED
    return ExchangeOutcome.UPSTREAM_ERROR
