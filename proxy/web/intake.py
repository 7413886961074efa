"""
What comes from the client: where it goes, its body, and what is done to it before it is sent.

    accept -> read -> decode -> prepare
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

from aiohttp import HttpVersion11, hdrs, web

from proxy.adapters.logs import Log
from proxy.adapters.upstream import Body
from proxy.core.coding import TooLarge, Undecodable, decode, is_encoded
from proxy.core.headers import Headers, asking_for_identity, for_upstream, without
from proxy.web.exchange import Exchange, Limits
from proxy.web.handshake import for_handshake
from proxy.web.replay import Prepared, Replay
from proxy.web.routes import Route
from proxy.web.wellformed import require_well_formed

__all__ = ["Intake", "Outgoing", "headers_of"]

# What is decoded on the loop, encoded and decoded: a millisecond or two. The rest, in a thread.
ON_LOOP_ENCODED_BYTES = 64 * 1024
ON_LOOP_DECODED_BYTES = 1024 * 1024
# Text that repeats itself may be packed a hundred times over; a bomb is, a thousand times. So many
# bytes are let be made of any body, and so many bodies are unpacked at once.
DECODED_RATIO = 100
DECODED_FREE_BYTES = 8 * 1024 * 1024
DECODED_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it goes to upstream."""

    method: str
    url: str
    headers: Headers
    body: Body

    def with_body(self, body: bytes) -> "Outgoing":
        """Return the same request with a body of ours: it is not encoded, whatever came was."""
        return replace(self, headers=without(self.headers, "content-encoding"), body=body)


class Intake:
    """
    Takes requests in, for one upstream.

    Attributes:
        origin: Scheme and authority of the upstream's URL.
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

    async def accept(
        self, exchange: Exchange, request: web.BaseRequest, path: str
    ) -> tuple[Outgoing, Prepared | None]:
        """
        Return the request as it shall go out, and what was prepared of it.

        Raises:
            ProxyError: It cannot be forwarded at all.
        """
        require_well_formed(request)
        url = self._url(request.raw_path)
        expects = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        if expects and request.version >= HttpVersion11 and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        prepared: Prepared | None = None
        body: Body = _rest(request, b"") if request.body_exists else None
        if self._replay is None:
            exchange.asked = "off"
        elif exchange.route == Route.RETRIEVE:
            await self._prepare_retrieval(self._replay, exchange, path, request)
        elif exchange.route in Route.REPLAYED:
            body = await self._read(exchange, request)
            if isinstance(body, bytes):
                prepared = await self._prepare(self._replay, exchange, body, request)
        outgoing = Outgoing(request.method, url, self._headers(exchange, request, body), body)
        if prepared is not None and exchange.edited:
            outgoing = outgoing.with_body(prepared.body)
        return outgoing, prepared

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
        headers = for_upstream(headers_of(request.raw_headers))
        if exchange.route == Route.WEBSOCKET:
            is_read = self.reads(request.raw_path.partition("?")[0])
            headers = for_handshake(headers, request.headers[hdrs.UPGRADE], is_read=is_read)
        if not isinstance(body, bytes) and hdrs.CONTENT_LENGTH in request.headers:
            headers.append((hdrs.CONTENT_LENGTH, request.headers[hdrs.CONTENT_LENGTH]))
        # Where nothing will be read of the answer it is not our business, and a trial run changes
        # no request: should its answers come encoded, the copy is decoded.
        if exchange.capture is not None and self._replay and not self._replay.is_shadow:
            return asking_for_identity(headers)
        return headers

    async def _read(self, exchange: Exchange, request: web.BaseRequest) -> Body:
        """Read a body whole; one over the limit is streamed on instead, from its first byte."""
        limit = self._limits.inspect_max_bytes
        pieces: list[bytes] = []
        size = request.content_length or 0
        if size <= limit:
            size = 0
            async for chunk in request.content.iter_any():
                pieces.append(chunk)
                size += len(chunk)
                if size > limit:
                    break
            else:
                return b"".join(pieces)
        exchange.asked = "too_large"
        return _rest(request, b"".join(pieces))

    async def _prepare(
        self, replay: Replay, exchange: Exchange, body: bytes, request: web.BaseRequest
    ) -> Prepared:
        started = self._clock()
        try:
            replay.identify(exchange, request.headers)
            plain = await self._decode(exchange, body, request)
            if plain is None:
                return Prepared(body, body)
            return await replay.prepare(exchange, plain, request.headers)
        except Exception as error:  # noqa: BLE001 (fail open: a bug of ours is not the client's)
            self._log.warning("replay_failed", reason=type(error).__name__)
            exchange.forget()
            return Prepared(body, body)
        finally:
            exchange.before_ms = (self._clock() - started) * 1000

    async def _decode(
        self, exchange: Exchange, body: bytes, request: web.BaseRequest
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
                    return decode(body, coding, min(limit, ON_LOOP_DECODED_BYTES))
            async with self._decoding:
                return await asyncio.to_thread(decode, body, coding, limit)
        except TooLarge:
            exchange.asked = "too_large"
        except Undecodable:
            exchange.asked = "encoded"
        return None

    async def _prepare_retrieval(
        self, replay: Replay, exchange: Exchange, path: str, request: web.BaseRequest
    ) -> None:
        try:
            replay.identify(exchange, request.headers)
            await replay.prepare_retrieval(exchange, path)
        except Exception as error:  # noqa: BLE001 (as above)
            self._log.warning("replay_failed", reason=type(error).__name__)
            exchange.forget()


def headers_of(raw: tuple[tuple[bytes, bytes], ...]) -> Headers:
    """Return headers as text; bytes that are not UTF-8 survive as lone surrogates."""
    return [
        (name.decode("ascii", "replace"), value.decode("utf-8", "surrogateescape"))
        for name, value in raw
    ]


async def _rest(request: web.BaseRequest, read: bytes) -> AsyncIterator[bytes]:
    """Stream a body on, beginning with what was read of it already."""
    if read:
        yield read
    async for chunk in request.content.iter_any():
        yield chunk
