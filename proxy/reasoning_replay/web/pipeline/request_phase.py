"""
What comes from the client: where it goes, its body, and what is done to it before it is sent.

    accept -> read -> decode -> prepare
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from aiohttp import HttpVersion11, hdrs, web

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.upstream.client import Body
from reasoning_replay.core.dialects.base import RefusedBodies
from reasoning_replay.core.dialects.states import REPLAYED_ROUTES, RequestState, Route
from reasoning_replay.core.wire.content_coding import TooLarge, Undecodable, decode, is_encoded
from reasoning_replay.core.wire.headers import Headers, asking_for_identity, for_upstream, without
from reasoning_replay.web.exchange import Exchange, Limits
from reasoning_replay.web.http.strict_request import require_well_formed
from reasoning_replay.web.http.upgrade import for_handshake
from reasoning_replay.web.memory_budget import MemoryBudget
from reasoning_replay.web.pipeline.replay import Replay
from reasoning_replay.web.pipeline.request_body import RequestBody

__all__ = ["RequestPhase", "UpstreamRequest"]

# What is decoded on the loop, encoded and decoded: a millisecond or two. The rest, in a thread.
ON_LOOP_ENCODED_BYTES = 64 * 1024
ON_LOOP_DECODED_BYTES = 1024 * 1024
# Text that repeats itself may be packed a hundred times over; a bomb is, a thousand times. So many
# bytes are let be made of any body, and so many bodies are unpacked at once.
DECODED_RATIO = 100
DECODED_FREE_BYTES = 8 * 1024 * 1024
DECODED_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """
    A request as it goes to upstream.

    Attributes:
        incoming: The client's body, which may still be on its way while this goes out.
    """

    method: str
    url: str
    headers: Headers
    body: Body
    incoming: RequestBody

    def with_body(self, body: bytes) -> "UpstreamRequest":
        """Return the same request with a body of ours: it is not encoded, whatever came was."""
        return replace(self, headers=without(self.headers, b"content-encoding"), body=body)


class RequestPhase:
    """
    Takes requests in, for one upstream.

    Attributes:
        origin: Scheme and authority of the upstream's URL.
        room: For what is held of requests.
    """

    def __init__(
        self,
        upstream_url: str,
        replay: Replay | None,
        limits: Limits,
        log: Log,
        clock: Callable[[], float],
    ) -> None:
        """
        Keep what is shared by all exchanges.

        Args:
            upstream_url: What `/v1` stands for, without a slash at the end.
            replay: None when the mode is off.
            limits: On a body, as it comes and decoded.
            log: Told when preparing fails.
            clock: Seconds, never going backwards.
        """
        self._upstream_url = upstream_url
        scheme, _, rest = upstream_url.partition("://")
        self.origin = f"{scheme}://{rest.partition('/')[0]}"
        self._replay = replay
        self._limits = limits
        self._log = log
        self._clock = clock
        self._decoding = asyncio.Semaphore(DECODED_AT_ONCE)
        self.room = MemoryBudget(limits.inspect_total_max_bytes)

    def incoming(self, request: web.BaseRequest) -> RequestBody:
        """Return a request's body, of which nothing is read yet; the caller lets go of it."""
        limits = self._limits
        return RequestBody(request, limits.body_max_bytes, limits.client_timeout_s, self.room)

    async def accept(
        self, exchange: Exchange, request: web.BaseRequest, path: str, incoming: RequestBody
    ) -> tuple[UpstreamRequest, RefusedBodies | None]:
        """
        Return the request as it shall go out, and what was prepared of it.

        Raises:
            ProxyError: It cannot be forwarded at all.
        """
        began = self._clock()
        require_well_formed(request)
        url = self._url(request.raw_path)
        incoming.check()
        expects = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        if expects and request.version >= HttpVersion11 and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        bodies: RefusedBodies | None = None
        body: Body = incoming.rest() if request.body_exists else None
        if self._replay is None:
            exchange.request.state = RequestState.OFF
        elif exchange.route == Route.RETRIEVE:
            await self._prepare_retrieval(self._replay, exchange, path, request)
        elif exchange.route in REPLAYED_ROUTES:
            whole = await incoming.whole(self._limits.inspect_max_bytes)
            began = self._clock()  # the time before is the client's
            if whole is None:
                exchange.request.state, body = incoming.why, incoming.rest()
            else:
                body = whole
                try:
                    bodies = await self._prepare(self._replay, exchange, whole, request, incoming)
                except BaseException:  # the client did not wait for that
                    exchange.times.before_ms = (self._clock() - began) * 1000
                    raise
        headers = self._headers(exchange, request, body)
        outgoing = UpstreamRequest(request.method, url, headers, body, incoming)
        if bodies is not None and bodies.sent is not bodies.given:
            outgoing = outgoing.with_body(bodies.sent)
        exchange.times.before_ms = (self._clock() - began) * 1000
        return outgoing, bodies

    def reads(self, path: str) -> bool:
        """Tell whether the messages of a WebSocket on this path are read."""
        return self._replay is not None and path.endswith("/responses")

    def _url(self, target: str) -> str:
        """
        Map a request target, a path: `/v1` is the upstream's URL, any other is its origin's.

        Whatever a path says, it stands behind an authority and a slash, and cannot change it.
        """
        if target == "/v1" or target.startswith(("/v1/", "/v1?")):
            return self._upstream_url + target[3:]
        return self.origin + target

    def _headers(self, exchange: Exchange, request: web.BaseRequest, body: Body) -> Headers:
        headers = for_upstream(request.raw_headers)
        if exchange.route == Route.WEBSOCKET:
            headers = for_handshake(headers)
        if not isinstance(body, bytes) and hdrs.CONTENT_LENGTH in request.headers:
            headers.append((b"Content-Length", request.headers[hdrs.CONTENT_LENGTH].encode()))
        # Where nothing will be read of the answer it is not our business, and a trial run changes
        # no request: should its answers come encoded, the copy is decoded.
        if exchange.answer.capture is not None and self._replay and not self._replay.is_shadow:
            return asking_for_identity(headers)
        return headers

    async def _prepare(
        self,
        replay: Replay,
        exchange: Exchange,
        body: bytes,
        request: web.BaseRequest,
        incoming: RequestBody,
    ) -> RefusedBodies:
        try:
            replay.identify(exchange, request.headers)
            plain = await self._decode(exchange, body, request, incoming)
            if plain is None:
                return RefusedBodies(body, body)
            sent = await replay.prepare(exchange, plain, request.headers)
            return RefusedBodies(given=plain, sent=sent)
        except Exception as error:  # noqa: BLE001 (fail open: a bug of ours is not the client's)
            self._failed(exchange, error)
            return RefusedBodies(body, body)

    async def _decode(
        self, exchange: Exchange, body: bytes, request: web.BaseRequest, incoming: RequestBody
    ) -> bytes | None:
        """Return a body as it is read; None when it cannot be, which is noted."""
        coding = ", ".join(request.headers.getall(hdrs.CONTENT_ENCODING, []))
        if exchange.scope is None or not is_encoded(coding):
            return body  # without a scope, nobody reads it
        # Few bytes may make many: what they may make depends on how many they are.
        limit = min(
            self._limits.decoded_max_bytes, max(DECODED_FREE_BYTES, DECODED_RATIO * len(body))
        )
        try:
            if len(body) <= ON_LOOP_ENCODED_BYTES:
                with contextlib.suppress(TooLarge):
                    plain = decode(body, coding, min(limit, ON_LOOP_DECODED_BYTES))
                    if incoming.lease.reserve(len(plain)):
                        return plain
                    exchange.request.state = RequestState.BUSY
                    return None
            async with self._decoding:
                return await self._decode_in_thread(exchange, body, coding, limit, incoming)
        except TooLarge:
            exchange.request.state = RequestState.TOO_LARGE
        except Undecodable:
            exchange.request.state = RequestState.ENCODED
        return None

    @staticmethod
    async def _decode_in_thread(
        exchange: Exchange, body: bytes, coding: str, limit: int, incoming: RequestBody
    ) -> bytes | None:
        """Decode where nobody waits for it; what it may make counts as held until it is known."""
        allowed = incoming.lease.reserve_up_to(limit)
        size = 0
        try:
            plain = await asyncio.to_thread(decode, body, coding, allowed)
        except TooLarge:
            if allowed == limit:
                raise
            exchange.request.state = RequestState.BUSY
            return None
        else:
            size = len(plain)
            return plain
        finally:
            incoming.lease.release(allowed - size)

    async def _prepare_retrieval(
        self, replay: Replay, exchange: Exchange, path: str, request: web.BaseRequest
    ) -> None:
        try:
            replay.identify(exchange, request.headers)
            await replay.prepare_retrieval(exchange, path)
        except Exception as error:  # noqa: BLE001 (as above)
            self._failed(exchange, error)

    def _failed(self, exchange: Exchange, error: Exception) -> None:
        reason = type(error).__name__
        self._log.warning("replay_failed", request_id=exchange.id, reason=reason)
        exchange.note_failure()
