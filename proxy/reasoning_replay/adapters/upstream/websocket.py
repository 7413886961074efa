"""
WebSocket connector: the handshake with the upstream, and the resulting socket.

aiohttp's client does both. A middleware reads the handshake response, because `ws_connect` returns
neither the headers of a success nor the body of a rejection.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal

import aiohttp
from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse, hdrs
from multidict import CIMultiDict
from yarl import URL

from reasoning_replay.adapters.runtime.tcp import buffered_bytes
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.dialer import kept_alive, named_errors
from reasoning_replay.adapters.upstream.egress import Egress
from reasoning_replay.adapters.upstream.response import CLOSED, UpstreamError, UpstreamResponse
from reasoning_replay.core.wire.headers import Headers

# Largest body of a rejected handshake; a longer one is cut off.
REFUSAL_MAX_BYTES = 1024 * 1024
# The same limit as for other responses.
HEAD_MAX_BYTES = 64 * 1024
DEFLATE_WINDOW_BITS = 15

# Text messages arrive as bytes.
UpstreamWebSocket = aiohttp.ClientWebSocketResponse[Literal[False]]

# After a disconnect, data that the upstream does not read is dropped after this time.
LEFT_OVER_S = 30.0


@dataclass(frozen=True, slots=True)
class UpstreamSocket:
    """
    An open WebSocket to the upstream.

    Attributes:
        response: Head of the handshake response.
        stall_s: Longest time in seconds without progress while data is pending for the upstream.
    """

    response: UpstreamResponse
    socket: UpstreamWebSocket
    transport: asyncio.Transport
    stall_s: float
    _answer: ClientResponse

    def disconnect(self) -> None:
        """Close the connection without sending a close frame."""
        self._answer.close()
        if buffered_bytes(self.transport):
            asyncio.get_running_loop().call_later(LEFT_OVER_S, self.transport.abort)


class WebSocketConnector:
    """Opener of WebSockets to the upstream; requires a running event loop."""

    def __init__(self, timeouts: Timeouts, egress: Egress) -> None:
        self._timeouts = timeouts
        self._egress = egress
        self._connector = aiohttp.TCPConnector(
            limit=0, ssl=egress.tls, force_close=True, socket_factory=kept_alive
        )
        self._cookies = aiohttp.DummyCookieJar()

    async def connect(
        self,
        url: str,
        headers: Headers,
        max_bytes: int,
        on_open: Callable[[asyncio.Transport], None],
        *,
        is_compressed: bool,
    ) -> UpstreamSocket | UpstreamResponse:
        """Request a WebSocket, as `client.UpstreamClient.upgrade` does."""
        answers: list[ClientResponse] = []

        async def observe(request: ClientRequest, ask: ClientHandlerType) -> ClientResponse:
            answers.append(await self._ask(request, ask))
            connection = answers[-1].connection
            if connection is not None and connection.transport is not None:
                on_open(connection.transport)
            return answers[-1]

        fields = _fields_of(headers)
        authorization = {}
        if self._egress.proxy_authorization:
            authorization[hdrs.PROXY_AUTHORIZATION] = self._egress.proxy_authorization
            if url.startswith("http:"):
                fields.extend(authorization)
        async with self._session(observe) as session:
            try:
                with named_errors(self._connector, self._timeouts.connect_s):
                    socket = await session.ws_connect(
                        URL(url, encoded=True),
                        headers=fields,
                        autoclose=False,
                        autoping=False,
                        proxy=self._egress.proxy_url or None,
                        proxy_headers=authorization,
                        compress=DEFLATE_WINDOW_BITS if is_compressed else 0,
                        max_msg_size=max_bytes,
                        decode_text=False,
                    )
            except _RefusedError as refused:
                return refused.response
        answer = answers[-1]
        transport = answer.connection.transport if answer.connection is not None else None
        if transport is None:
            answer.close()
            raise UpstreamError("read", CLOSED)
        return UpstreamSocket(_head_of(answer), socket, transport, self._timeouts.read_s, answer)

    async def close(self) -> None:
        """Close every connection."""
        await self._connector.close()

    def _session(self, observe: ClientMiddlewareType) -> aiohttp.ClientSession:
        timeouts = self._timeouts
        return aiohttp.ClientSession(
            connector=self._connector,
            connector_owner=False,
            cookie_jar=self._cookies,
            skip_auto_headers=(hdrs.ACCEPT, hdrs.ACCEPT_ENCODING, hdrs.USER_AGENT),
            timeout=aiohttp.ClientTimeout(
                total=None,
                connect=timeouts.connect_s,
                sock_connect=timeouts.connect_s,
                sock_read=timeouts.first_byte_s,
            ),
            auto_decompress=False,
            max_line_size=HEAD_MAX_BYTES,
            max_field_size=HEAD_MAX_BYTES,
            middlewares=(observe,),
        )

    async def _ask(self, request: ClientRequest, ask: ClientHandlerType) -> ClientResponse:
        """Return the handshake response; raise _RefusedError if it is a rejection."""
        with named_errors(self._connector, self._timeouts.connect_s):
            try:
                answer = await ask(request)
            except aiohttp.SocketTimeoutError as error:
                most_s = self._timeouts.first_byte_s
                reason = f"no response within {most_s:g} s after the request"
                raise UpstreamError("timeout", reason, "first_byte_timeout_s") from error
        if answer.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return answer
        # Here, because aiohttp would follow a redirect, and drop the body of any other rejection.
        async with answer:
            raise _RefusedError(await self._refusal(answer))

    async def _refusal(self, answer: ClientResponse) -> UpstreamResponse:
        refusal, size, fault = _head_of(answer), 0, ""
        try:
            async with asyncio.timeout(self._timeouts.read_s):
                while size <= REFUSAL_MAX_BYTES and (chunk := await answer.content.readany()):
                    refusal.take(chunk)
                    size += len(chunk)
            if size > REFUSAL_MAX_BYTES:
                fault = "is too long"
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            fault = f"ended early: {type(error).__name__}"
        said = f"its response to the handshake {fault}"
        refusal.end(UpstreamError("read", said) if fault else None)
        return refusal


class _RefusedError(Exception):
    def __init__(self, response: UpstreamResponse) -> None:
        super().__init__()
        self.response = response


def _head_of(answer: ClientResponse) -> UpstreamResponse:
    response = UpstreamResponse(None, asyncio.get_running_loop().create_future())
    response.reason = (answer.reason or "").encode("utf-8", "surrogateescape")
    response.headers = list(answer.raw_headers)
    response.length = answer.content_length
    response.begin(answer.status)
    return response


def _fields_of(headers: Headers) -> CIMultiDict[str]:
    fields: CIMultiDict[str] = CIMultiDict()
    try:
        for name, value in headers:
            fields.add(name.decode(), value.decode())
    except UnicodeDecodeError as error:
        raise UpstreamError("read", "a header of the handshake is not UTF-8") from error
    return fields
