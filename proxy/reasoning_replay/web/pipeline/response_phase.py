"""Response phase: relays the upstream's response to the client, and captures it."""

from dataclasses import dataclass
from http import HTTPStatus
from time import monotonic

from aiohttp import hdrs, web

from reasoning_replay.adapters.upstream.client import UpstreamResponse
from reasoning_replay.core.dialects.registry import REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import ExchangeOutcome, Route
from reasoning_replay.core.wire.headers import Headers, for_downstream, without
from reasoning_replay.web.errors import EXPOSE, EXPOSED, MARK, OVERHEAD, REQUEST_ID, ProxyError
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeLog, summary_header
from reasoning_replay.web.pipeline.capture_tee import Tee, tee_for
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.client_response import ClientResponse, copy
from reasoning_replay.web.pipeline.healing_retry import CheckedResponse
from reasoning_replay.web.pipeline.path_advice import PathAdvice
from reasoning_replay.web.pipeline.replay import Replays

_MARK = MARK.encode()
_REQUEST_ID = REQUEST_ID.encode()
_OVERHEAD = OVERHEAD.encode()
# A second field of this name: browsers join their values.
_EXPOSE = (EXPOSE.encode(), EXPOSED.encode())
_ALLOW_ORIGIN = b"access-control-allow-origin"


@dataclass(frozen=True, slots=True)
class ResponsePhase:
    """
    Relay of the responses of one upstream.

    Attributes:
        replays: Capture responses, by route; empty if the mode is off.
        capture_max_bytes: Largest response that is captured.
        exchange_log: Records a step that fails.
        advice: Explains paths that were not found.
        tells_overhead: Whether clients are told how long the proxy took.
    """

    replays: Replays
    capture_max_bytes: int
    exchange_log: ExchangeLog
    advice: PathAdvice
    tells_overhead: bool = False

    async def relay(
        self, exchange: Exchange, client: ClientRequest, checked: CheckedResponse, *, closes: bool
    ) -> web.StreamResponse:
        """
        Write each chunk as it arrives; one that completes an item is written after its save.

        Args:
            exchange: Its status and outcome are set.
            client: Receives the response.
            checked: Response to relay; closed at the end.
            closes: Whether the connection is closed after it, because it is old, or this
                process is about to stop.

        Raises:
            ProxyError: The rest of the request is invalid, and no head was sent yet.
        """
        body, response = client.body, checked.response
        arrived_s = monotonic() if self.tells_overhead else 0.0
        # A fault in a body that is still being sent ends the response.
        body.on_fault = response.close
        tee = Tee()
        try:
            if body.fault is not None:
                raise ProxyError(body.fault)
            tee = self._tee(exchange, checked)
            self.advice.note(exchange, client.path, response.status)
            headers = self._headers(exchange, response)
            if hdrs.ORIGIN in client.http.headers and response.value(_ALLOW_ORIGIN):
                headers.append(_EXPOSE)
                if self.tells_overhead:
                    headers.append((_EXPOSE[0], _OVERHEAD))
            if self.tells_overhead:
                added_ms = exchange.times.before_ms + (monotonic() - arrived_s) * 1000
                headers = [*without(headers, _OVERHEAD), (_OVERHEAD, b"%.2f" % added_ms)]
            downstream = ClientResponse(client.http, response, headers, closes=closes)
            exchange.status = response.status
            if await copy(exchange, response, downstream, tee, checked.taken()):
                await checked.learn(exchange)
                downstream.write_end()
                exchange.times.after_ms = (monotonic() - exchange.times.answered_s) * 1000
                await downstream.drain()
                exchange.outcome = _outcome(response.status)
                await response.until_sent()
            elif client.cut_off():
                exchange.outcome = ExchangeOutcome.CUT_OFF
            return downstream
        finally:
            response.close()  # after its end, the connection is already back in the pool
            tee.release()
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

    def _tee(self, exchange: Exchange, checked: CheckedResponse) -> Tee:
        # A handshake is of the dialect that speaks over WebSockets.
        route = Route.CREATE if exchange.route is Route.WEBSOCKET else exchange.route
        replay = self.replays.get(route)
        if replay is None:
            return Tee()
        return tee_for(checked, replay, exchange, self.capture_max_bytes, self.exchange_log)


def _outcome(status: int) -> ExchangeOutcome:
    """Map the status of a complete response to an outcome; unknown classes: `upstream_error`."""
    if status < HTTPStatus.BAD_REQUEST:
        return ExchangeOutcome.OK
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return ExchangeOutcome.REFUSED
    return ExchangeOutcome.UPSTREAM_ERROR
