"""Request phase: reads a request as far as replay needs it, and builds the upstream request."""

from collections.abc import Callable

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.upstream.client import Body
from reasoning_replay.core.dialects.base import RefusedBodies
from reasoning_replay.core.dialects.registry import REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import RequestState, Route
from reasoning_replay.web.exchange import Exchange, Limits
from reasoning_replay.web.pipeline.body_decoder import BodyDecoder, NotDecoded
from reasoning_replay.web.pipeline.client_request import ClientRequest
from reasoning_replay.web.pipeline.replay import Replay, Replays
from reasoning_replay.web.pipeline.upstream_request import UpstreamAddress, UpstreamRequest

__all__ = ["RequestPhase"]


class RequestPhase:
    """Preparation of requests for one upstream: read -> decode -> replay -> address."""

    def __init__(
        self,
        address: UpstreamAddress,
        replays: Replays,
        limits: Limits,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        """
        Keep the parts that all exchanges share.

        Args:
            address: Address of the upstream.
            replays: Capture and inject, by route; empty if the mode is off.
            limits: Limits on a body, as received and decoded.
            log: Logs failures of replay.
            clock: Monotonic clock, in seconds.
        """
        self._address = address
        self._replays = replays
        self._inspect_max_bytes = limits.inspect_max_bytes
        self._decoder = BodyDecoder(limits.inspect_max_bytes)
        self._log = log
        self._clock = clock

    async def prepare(self, exchange: Exchange, client: ClientRequest) -> UpstreamRequest:
        """
        Return the request to send to the upstream.

        Raises:
            ProxyError: The request cannot be forwarded.
        """
        began_s = self._clock()
        client.check()
        replay = self._replays.get(client.route)
        body: Body = client.body.rest() if client.http.body_exists else None
        bodies: RefusedBodies | None = None
        try:
            if replay is None:
                if not self._replays:
                    exchange.request.state = RequestState.OFF
            elif client.route is Route.RETRIEVE:
                await self._prepare_retrieval(replay, exchange, client)
            elif client.route in REPLAYED_ROUTES:
                self._identify(replay, exchange, client)
                whole = await client.body.whole(self._inspect_max_bytes)
                began_s = self._clock()  # the time before is the client's upload
                if whole is None:
                    exchange.request.state = client.body.why
                    body = client.body.rest()
                else:
                    body, bodies = whole, await self._replayed(replay, exchange, client, whole)
            is_captured = exchange.answer.capture is not None
            return self._address.request(
                # Shadow mode changes no request: an encoded response is decoded for its capture.
                client,
                body,
                bodies,
                is_captured=is_captured and replay is not None and not replay.is_shadow,
            )
        finally:
            exchange.times.before_ms = (self._clock() - began_s) * 1000

    async def _replayed(
        self, replay: Replay, exchange: Exchange, client: ClientRequest, whole: bytes
    ) -> RefusedBodies:
        """Return a body as received, and as it is sent."""
        plain = whole
        try:
            if exchange.scope is not None:  # without a scope, the body is not read
                plain = await self._decoder.decode(
                    whole, client.content_coding, exchange.lease, replay.offloader
                )
            if exchange.request.state == RequestState.FAILED:
                return RefusedBodies(whole, whole)
            headers = client.http.headers
            bodies = await replay.prepare(exchange, plain, headers, client.path)
        except NotDecoded as reason:
            exchange.request.state = reason.state
        except Exception as error:  # noqa: BLE001 (fail open: the client must not notice a bug)
            self._failed(exchange, error)
        else:
            if bodies.is_edited and plain is not whole:
                exchange.lease.release(len(whole))
            return bodies
        return RefusedBodies(whole, whole)

    def _identify(self, replay: Replay, exchange: Exchange, client: ClientRequest) -> None:
        try:
            replay.identify(exchange, client.http.headers)
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed(exchange, error)
        exchange.lease.tenant = exchange.scope or b""

    async def _prepare_retrieval(
        self, replay: Replay, exchange: Exchange, client: ClientRequest
    ) -> None:
        try:
            replay.identify(exchange, client.http.headers)
            await replay.prepare_retrieval(exchange, client.path)
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed(exchange, error)

    def _failed(self, exchange: Exchange, error: Exception) -> None:
        reason = type(error).__name__
        self._log.warning("replay_failed", request_id=exchange.id, reason=reason)
        exchange.note_unread()
