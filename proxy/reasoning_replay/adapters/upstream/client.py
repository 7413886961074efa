"""
Upstream HTTP client: sends requests exactly as they are given, on connections that it keeps.

docs/internals/design.md compares it with aiohttp's own client.
"""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable

from aiohttp import hdrs
from yarl import URL

from reasoning_replay.adapters.upstream.causes import cause_of, reason_of
from reasoning_replay.adapters.upstream.connection import Timeouts, UpstreamConnection
from reasoning_replay.adapters.upstream.dialer import Dialer
from reasoning_replay.adapters.upstream.egress import Egress
from reasoning_replay.adapters.upstream.request_writer import Body
from reasoning_replay.adapters.upstream.response import (
    READ_BUFFER_BYTES,
    OnInterim,
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.adapters.upstream.websocket import (
    UpstreamSocket,
    UpstreamWebSocket,
    WebSocketConnector,
)
from reasoning_replay.core.wire.headers import Headers, as_line

# What the pipeline knows of the upstream side.
__all__ = [
    "READ_BUFFER_BYTES",
    "Body",
    "OnInterim",
    "UpstreamClient",
    "UpstreamError",
    "UpstreamResponse",
    "UpstreamSocket",
    "UpstreamWebSocket",
    "cause_of",
    "reason_of",
]

_PARTS = re.compile(r"(https?)://([^/?#]*)(.*)", re.DOTALL)
# Methods that are sent again if a reused connection closed before the first byte of a response.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
# Methods that anticipate a body: without one, its length of 0 is sent (RFC 9110, 8.6). Of others,
# some servers parse the empty body if it has a length, and refuse it.
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_LENGTH = b"content-length"


class _Origin:
    """
    One origin, with its idle connections.

    Attributes:
        host: Host header and headers for a proxy, encoded for the request head.
        before_target: Scheme and authority before the path in a request line; only for a proxy.
        idle: Connections that may carry the next exchange; the most recently used is taken first.
    """

    def __init__(self, url: URL, proxy_headers: bytes, *, is_proxied: bool) -> None:
        self.url = url
        authority = url.host_port_subcomponent or ""
        self.host = f"Host: {authority}\r\n".encode() + proxy_headers
        self.before_target = str(url).rstrip("/").encode() if is_proxied else b""
        self.idle: dict[UpstreamConnection, None] = {}

    def take_idle(self) -> UpstreamConnection | None:
        """Return an idle connection that can carry an exchange, or None."""
        while self.idle:
            connection, _ = self.idle.popitem()
            if connection.is_free:
                return connection
        return None


class UpstreamClient:
    """
    HTTP client with a pool of connections to any origin; requires a running event loop.

    Attributes:
        tls: As `Egress.tls`.
        via: As `Egress.via`.
    """

    def __init__(self, timeouts: Timeouts, egress: Egress) -> None:
        self._timeouts = timeouts
        self._is_proxied = bool(egress.proxy_url)
        self.via = egress.via
        self.tls = egress.tls
        self._dialer = Dialer(timeouts.connect_s, egress)
        self._origins: dict[tuple[str, str], _Origin] = {}
        self._connections: set[UpstreamConnection] = set()
        self._websockets = WebSocketConnector(timeouts, egress)

    async def send(
        self,
        method: str,
        url: str,
        headers: Headers,
        body: Body,
        on_interim: OnInterim | None = None,
    ) -> UpstreamResponse:
        """
        Send a request and wait for the head of its response; the caller closes the response.

        Args:
            method: As the client wrote it.
            url: Sent without any normalisation.
            headers: End-to-end headers; with `Content-Length` only if the body is an iterator.
            body: Bytes, also in pieces, are sent with their length. An iterator is sent in chunks,
                unless `headers` contains its length.
            on_interim: Called with each interim response.

        Raises:
            UpstreamError: No response arrived, or it switches protocols.
        """
        origin, target = self._place(url)
        head, body = _framed(method, origin, target, headers, body)
        has_no_body = method == hdrs.METH_HEAD
        while True:
            connection = origin.take_idle() or await self._dial(origin)
            try:
                response = await connection.send(
                    head, body, has_no_body=has_no_body, on_interim=on_interim
                )
                break
            except UpstreamError as error:
                is_whole = body is None or isinstance(body, (bytes, list))
                if not (error.is_untouched and method in _IDEMPOTENT and is_whole):
                    raise
        return response

    async def upgrade(
        self,
        url: str,
        headers: Headers,
        max_bytes: int,
        on_open: Callable[[asyncio.Transport], None],
        *,
        is_compressed: bool,
    ) -> UpstreamSocket | UpstreamResponse:
        """
        Request a WebSocket; return the response if the upstream rejects the handshake.

        Args:
            url: Sent without any normalisation.
            headers: End-to-end headers.
            max_bytes: Limit on a message; a longer one ends the connection with code 1009.
            on_open: Called with the connection once the upstream accepts, before a message of it
                is read.
            is_compressed: Whether to offer permessage-deflate.

        Raises:
            UpstreamError: No response arrived, or it switches to another protocol.
        """
        return await self._websockets.connect(
            url, headers, max_bytes, on_open, is_compressed=is_compressed
        )

    async def reach(self, url: str) -> None:
        """
        Open a connection as for a request to that URL, with TLS and the proxy, and close it.

        Raises:
            UpstreamError: The connection cannot be opened.
        """
        origin, _ = self._place(url)
        (await self._dial(origin)).close()

    async def close(self) -> None:
        """Close every connection."""
        for connection in list(self._connections):
            connection.close()
        await self._dialer.close()
        await self._websockets.close()

    def _place(self, url: str) -> tuple[_Origin, str]:
        """Return the origin of a URL, and the target of its request line."""
        parts = _PARTS.match(url)
        if parts is None:
            raise UpstreamError("connect", "its URL does not begin with http:// or https://")
        scheme, authority, target = parts.groups()
        origin = self._origins.get((scheme, authority))
        if origin is None:
            is_proxied = scheme == "http" and self._is_proxied
            proxy_headers = "".join(f"{k}: {v}\r\n" for k, v in self._dialer.proxy_headers.items())
            origin = self._origins[scheme, authority] = _Origin(
                URL(f"{scheme}://{authority}/"),
                proxy_headers.encode() if is_proxied else b"",
                is_proxied=is_proxied,
            )
        return origin, target if target.startswith("/") else "/" + target

    async def _dial(self, origin: _Origin) -> UpstreamConnection:
        def on_idle(connection: UpstreamConnection) -> None:
            origin.idle[connection] = None

        def on_end(connection: UpstreamConnection) -> None:
            self._connections.discard(connection)
            origin.idle.pop(connection, None)

        dialled = await self._dialer.dial(origin.url)
        connection = UpstreamConnection(dialled, self._timeouts, on_idle, on_end)
        self._connections.add(connection)
        return connection


def _framed(
    method: str, origin: _Origin, target: str, headers: Headers, body: Body
) -> tuple[bytes, Body]:
    """
    Return the encoded head of a request, and its framed body.

    Raises:
        UpstreamError: A part of the head contains a line break or a NUL.
    """
    line = f"{method} ".encode() + origin.before_target
    fields = [*map(as_line, headers)]
    if isinstance(body, bytes):
        fields.append(b"Content-Length: %d\r\n" % len(body))
    elif isinstance(body, list):
        fields.append(b"Content-Length: %d\r\n" % sum([len(piece) for piece in body]))
    elif not any(name.lower() == _LENGTH for name, _ in headers):
        if body is not None:
            fields.append(b"Transfer-Encoding: chunked\r\n")
            body = _in_chunks(body)
        elif method in _WITH_BODY:
            fields.append(b"Content-Length: 0\r\n")
    target_bytes = target.encode("utf-8", "surrogateescape")
    head = b"%b%b HTTP/1.1\r\n%b%b\r\n" % (line, target_bytes, origin.host, b"".join(fields))
    lines = len(fields) + origin.host.count(b"\n") + 2
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        raise UpstreamError(
            "read", "the head of the request contains an invalid line break or a NUL"
        )
    return head, body


async def _in_chunks(body: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with contextlib.aclosing(body) as pieces:
        async for piece in pieces:
            if piece:
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"
