"""Answer phase: relays the upstream's response to the client, and captures it."""

from http import HTTPStatus

from aiohttp import web

from reasoning_replay.adapters.upstream.client import UpstreamResponse
from reasoning_replay.core.dialects.registry import REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import CaptureState, ExchangeOutcome, Route
from reasoning_replay.core.wire.headers import Headers, for_downstream, without
from reasoning_replay.web.errors import MARK, REQUEST_ID
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_log import ExchangeRecorder, summary_header
from reasoning_replay.web.pipeline.capture_tee import CaptureTee, capture_tee_for
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.client_response import RawResponse, relay
from reasoning_replay.web.pipeline.error_tee import ErrorTee, error_tee_for
from reasoning_replay.web.pipeline.healing_retry import Answer, Healers
from reasoning_replay.web.pipeline.path_advice import PathAdvice
from reasoning_replay.web.pipeline.replay import Replays

__all__ = ["AnswerPhase"]

_MARK = MARK.encode()
_REQUEST_ID = REQUEST_ID.encode()


class AnswerPhase:
    """Relay of the responses of one upstream."""

    def __init__(
        self,
        replays: Replays,
        healers: Healers,
        capture_max_bytes: int,
        recorder: ExchangeRecorder,
        advice: PathAdvice,
    ) -> None:
        """
        Keep the parts that all exchanges share.

        Args:
            replays: Capture responses, by route; empty if the mode is off.
            healers: Learn from accepted cures, by route.
            capture_max_bytes: Largest response that is captured.
            recorder: Provides the clock and the log.
            advice: Explains paths that were not found.
        """
        self._replays = replays
        self._healers = healers
        self._capture_max_bytes = capture_max_bytes
        self._recorder = recorder
        self._advice = advice

    async def relay(
        self, exchange: Exchange, client: ClientRequest, answer: Answer, *, is_last: bool
    ) -> web.StreamResponse:
        """
        Write each chunk as it arrives; one that completes an item is written after its save.

        Args:
            exchange: Its status and outcome are set.
            client: Receives the response.
            answer: Response to relay; closed at the end.
            is_last: Whether the connection is closed after it, because this process is about to
                stop.
        """
        response = answer.response
        tee = None
        try:
            tee = self._tee(exchange, response)
            self._advice.note(exchange, client.path, response.status)
            headers = self._headers(exchange, response)
            downstream = RawResponse(client.http, response, headers, is_last=is_last)
            exchange.status = response.status
            clock = self._recorder.clock
            if await relay(exchange, response, downstream, tee, answer.taken(), clock):
                if (healer := self._healers.get(exchange.route)) is not None:
                    await healer.learn(exchange, answer)
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

    def _headers(self, exchange: Exchange, response: UpstreamResponse) -> Headers:
        headers = for_downstream(response.headers)
        if response.value(_REQUEST_ID):  # of another proxy
            headers = without(headers, _REQUEST_ID)
        headers.append((_REQUEST_ID, exchange.id.encode()))
        replay = self._replays.get(exchange.route)
        if replay is None or exchange.route not in REPLAYED_ROUTES:
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
        replay, recorder = self._replays.get(route), self._recorder
        if replay is None:
            return None
        if response.status >= HTTPStatus.BAD_REQUEST:
            if exchange.answer.capture is not None:
                exchange.answer.state = CaptureState.REFUSED
            return error_tee_for(response, exchange)
        try:
            return capture_tee_for(
                response, replay, exchange, self._capture_max_bytes, recorder.log
            )
        except Exception as error:  # noqa: BLE001 (fail open: the client gets the response)
            recorder.warn("capture_failed", exchange, error)
            exchange.answer.state = CaptureState.FAILED
            return None


def _outcome(status: int) -> ExchangeOutcome:
    """Map the status of a complete response to an outcome; unknown classes: `upstream_error`."""
    if status < HTTPStatus.BAD_REQUEST:
        return ExchangeOutcome.OK
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return ExchangeOutcome.REFUSED
    return ExchangeOutcome.UPSTREAM_ERROR
