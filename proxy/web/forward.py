"""
The one handler: every exchange passes through its phases in the order they stand here.

    accept -> read -> prepare -> send (and heal, once) -> tee -> settle
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import aiohttp
from aiohttp import HttpVersion11, hdrs, web

from proxy.adapters.upstream import Body, Upstream, UpstreamError, ending_with_connection
from proxy.core.headers import Headers, for_downstream, for_upstream
from proxy.core.heal import is_refusal
from proxy.web.account import Account, mark
from proxy.web.downstream import Passed, pump
from proxy.web.errors import (
    BAD_TARGET,
    BUG,
    MARK,
    NO_WEBSOCKET,
    Fault,
    ProxyError,
    answer,
    of_upstream,
)
from proxy.web.exchange import Exchange, Route
from proxy.web.heal import heal
from proxy.web.reader import Reader, reader_for
from proxy.web.replay import Prepared, Replay, route_of

__all__ = ["Forward", "Limits"]

_OUTCOMES = {4: "refused", 5: "upstream_error"}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what is held in memory for one exchange, in bytes."""

    inspect_max_bytes: int
    capture_max_bytes: int


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """A request as it goes to upstream."""

    method: str
    url: str
    headers: Headers
    body: Body


class Forward:
    """
    Forwards exchanges to one upstream.

    Attributes:
        in_flight: Exchanges under way.
        idle: Set while there are none.
        is_draining: Whether the process is about to stop.
    """

    def __init__(
        self,
        upstream_url: str,
        upstream: Upstream,
        replay: Replay | None,
        limits: Limits,
        account: Account,
    ) -> None:
        """
        Keep what is shared by all exchanges.

        Args:
            upstream_url: What `/v1` stands for, without a slash at the end.
            upstream: Connections to it.
            replay: None when the mode is off.
            limits: See Limits.
            account: Where each exchange is written down.
        """
        self._upstream_url = upstream_url
        scheme, _, rest = upstream_url.partition("://")
        self._origin = f"{scheme}://{rest.partition('/')[0]}"
        self._upstream = upstream
        self._replay = replay
        self._limits = limits
        self._account = account
        self.is_draining = False
        self.in_flight = 0
        self.idle = asyncio.Event()
        self.idle.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Carry one exchange through all its phases."""
        path = request.raw_path.partition("?")[0]
        exchange = Exchange(route_of(request.method, path), self._account.clock())
        self.in_flight += 1
        self.idle.clear()
        self._account.metrics.in_flight.inc()
        try:
            return await self._run(exchange, request, path)
        except ProxyError as error:
            exchange.status, exchange.outcome = error.fault.status, error.fault.code
            return answer(error.fault)
        except ConnectionResetError:
            raise  # the client has left
        except Exception as error:
            reason = type(error).__name__
            self._account.log.error("bug", route=exchange.route, reason=reason)  # noqa: TRY400
            exchange.outcome = BUG.code
            if exchange.status:
                raise  # the answer has begun: all that is left is to cut it off
            exchange.status = BUG.status
            return answer(BUG)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self.idle.set()
            self._account.metrics.in_flight.dec()
            self._account.settle(exchange)

    def refuse(self, fault: Fault) -> None:
        """Write down a request that was refused before it was one."""
        exchange = Exchange(Route.OTHER, self._account.clock())
        exchange.status, exchange.outcome = fault.status, fault.code
        self._account.settle(exchange)

    async def _run(
        self, exchange: Exchange, request: web.BaseRequest, path: str
    ) -> web.StreamResponse:
        outgoing, prepared = await self._accept(exchange, request, path)
        sent = self._account.clock()
        response = await self._send(outgoing)
        exchange.first_byte_ms = (self._account.clock() - sent) * 1000
        read = b""
        try:
            if exchange.edited and is_refusal(response.status) and prepared and self._replay:
                response, read = await heal(
                    exchange,
                    response,
                    prepared,
                    lambda body: self._send(replace(outgoing, body=body)),
                    self._replay,
                    self._account,
                )
            return await self._tee(exchange, request, response, read)
        finally:
            response.close()  # an answer that was read to its end is back in the pool already

    # --- accept, read, prepare ---

    async def _accept(
        self, exchange: Exchange, request: web.BaseRequest, path: str
    ) -> tuple[_Outgoing, Prepared | None]:
        url = self._url(request.raw_path)
        if "websocket" in request.headers.get(hdrs.UPGRADE, "").lower():
            raise ProxyError(NO_WEBSOCKET)
        expects = request.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        if expects and request.version >= HttpVersion11 and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        prepared: Prepared | None = None
        body: Body = _rest(request, b"") if request.body_exists else None
        if self._replay is None:
            exchange.asked = "off"
        elif exchange.route == Route.RETRIEVE:
            await self._prepare_retrieval(self._replay, exchange, path, request)
        elif exchange.route == Route.RESPONSES:
            body = await self._read(exchange, request)
            if isinstance(body, bytes):
                prepared = await self._prepare(self._replay, exchange, body, request)
                body = prepared.body
        headers = for_upstream(_headers(request.raw_headers))
        if not isinstance(body, bytes) and hdrs.CONTENT_LENGTH in request.headers:
            headers.append((hdrs.CONTENT_LENGTH, request.headers[hdrs.CONTENT_LENGTH]))
        return _Outgoing(request.method, url, headers, body), prepared

    def _url(self, target: str) -> str:
        """Map a request target: `/v1` is the upstream's URL, any other path is its origin's."""
        if not target.startswith("/"):
            raise ProxyError(BAD_TARGET)
        if target == "/v1" or target.startswith(("/v1/", "/v1?")):
            return self._upstream_url + target[3:]
        return self._origin + target

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
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            exchange.asked = "encoded"
            return Prepared(body, body)
        started = self._account.clock()
        try:
            replay.identify(exchange, request.headers)
            return await replay.prepare(exchange, body, request.headers)
        except Exception as error:  # noqa: BLE001 (fail open: a bug of ours is not the client's)
            self._account.log.warning("replay_failed", reason=type(error).__name__)
            exchange.forget()
            return Prepared(body, body)
        finally:
            exchange.before_ms = (self._account.clock() - started) * 1000

    async def _prepare_retrieval(
        self, replay: Replay, exchange: Exchange, path: str, request: web.BaseRequest
    ) -> None:
        try:
            replay.identify(exchange, request.headers)
            await replay.prepare_retrieval(exchange, path)
        except Exception as error:  # noqa: BLE001 (as above)
            self._account.log.warning("replay_failed", reason=type(error).__name__)
            exchange.forget()

    # --- send ---

    async def _send(self, outgoing: _Outgoing) -> aiohttp.ClientResponse:
        try:
            return await self._upstream.send(
                outgoing.method, outgoing.url, outgoing.headers, outgoing.body
            )
        except UpstreamError as error:
            raise ProxyError(of_upstream(error, self._origin)) from error

    # --- tee ---

    async def _tee(
        self,
        exchange: Exchange,
        request: web.BaseRequest,
        response: aiohttp.ClientResponse,
        read: bytes,
    ) -> web.StreamResponse:
        """Write every chunk as it comes; what completes an item, once it has been saved."""
        downstream = Passed(status=response.status, reason=response.reason)
        for name, value in for_downstream(_headers(response.raw_headers)):
            downstream.headers.add(name, value)
        reader: Reader | None = None
        if self._replay is not None and exchange.route != Route.OTHER:
            reader = self._reader(self._replay, exchange, response)
            if exchange.route == Route.RESPONSES:
                downstream.headers[MARK] = mark(exchange, is_shadow=self._replay.is_shadow)
        if self.is_draining:
            downstream.force_close()  # the next request of this client is for another replica
        exchange.status = response.status
        await downstream.prepare(request)
        if read:
            await downstream.write(read)
        with ending_with_connection(response):
            is_whole = await pump(exchange, response, downstream, reader)
        if is_whole:
            await downstream.write_eof()
            exchange.outcome = _OUTCOMES.get(response.status // 100, "ok")
        elif request.transport is not None:
            # After the first byte no status is left to say it with: cut the answer off as
            # upstream did, so that the client does not take it for a whole one.
            exchange.outcome = "cut_off"
            request.transport.close()
        return downstream

    def _reader(
        self, replay: Replay, exchange: Exchange, response: aiohttp.ClientResponse
    ) -> Reader | None:
        log = self._account.log
        try:
            return reader_for(response, replay, exchange, self._limits.capture_max_bytes, log)
        except Exception as error:  # noqa: BLE001 (fail open: the answer goes to the client)
            log.warning("capture_failed", reason=type(error).__name__)
            exchange.captured = "failed"
            return None


def _headers(raw: tuple[tuple[bytes, bytes], ...]) -> Headers:
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
