"""The connections to the upstream. What they send is what they are given, and nothing besides."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator

import aiohttp
from aiohttp import hdrs
from multidict import CIMultiDict
from yarl import URL

from reasoning_replay.adapters.upstream.connection import Timeouts, UpstreamConnection
from reasoning_replay.adapters.upstream.egress import Egress, named_errors
from reasoning_replay.adapters.upstream.request_writer import Body
from reasoning_replay.adapters.upstream.response import UpstreamError, UpstreamResponse
from reasoning_replay.adapters.upstream.websocket import UpstreamSocket, WebSocketConnector
from reasoning_replay.core.wire.headers import Headers

__all__ = ["Body", "UpstreamPool"]

_PARTS = re.compile(r"(https?)://([^/?#]*)(.*)", re.DOTALL)
# A request of these may be sent again, when the connection that was kept for it had closed.
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_LENGTH = b"content-length"


class _Origin:
    """
    One place that requests go to.

    Attributes:
        host: As the Host header says it.
        before_target: What a request's line says ahead of the path: only a proxy wants something.
        idle: Wires on which the next exchange may come; the one used last is used first.
    """

    def __init__(self, url: URL, proxy_headers: bytes, *, is_proxied: bool) -> None:
        self.url = url
        authority = url.host_port_subcomponent or ""
        self.host = f"Host: {authority}\r\n".encode() + proxy_headers
        self.before_target = str(url).rstrip("/").encode() if is_proxied else b""
        self.idle: dict[UpstreamConnection, None] = {}

    def kept_wire(self) -> UpstreamConnection | None:
        """Return one on which an exchange can go out, if there is any."""
        while self.idle:
            wire, _ = self.idle.popitem()
            if wire.is_free:
                return wire
        return None


class UpstreamPool:
    """
    A pool of connections to wherever requests go.

    Attributes:
        via: Names the proxy on the way, for people; "" when there is none.
    """

    def __init__(self, patience: Timeouts, egress: Egress) -> None:
        """Open nothing yet; needs a running loop."""
        self._patience = patience
        self._egress = egress
        self.via = egress.via
        authorization = egress.proxy_authorization
        self._proxy_headers = {hdrs.PROXY_AUTHORIZATION: authorization} if authorization else {}
        self._timeout = aiohttp.ClientTimeout(
            total=None,
            connect=patience.connect_s,  # all of it, where sock_connect is for one address
            sock_connect=patience.connect_s,
        )
        self._connector = aiohttp.TCPConnector(limit=0, ssl=egress.tls)
        self._origins: dict[tuple[str, str], _Origin] = {}
        self._wires: set[UpstreamConnection] = set()
        self._websockets = WebSocketConnector(patience, egress)

    async def send(self, method: str, url: str, headers: Headers, body: Body) -> UpstreamResponse:
        """
        Send a request and wait for the head of its answer; the caller closes it.

        Args:
            method: As the client wrote it.
            url: Sent as it stands: nothing in it is normalised.
            headers: End-to-end ones; `Content-Length` among them only with a streamed body.
            body: Bytes go out with their length; an iterator in chunks, unless a length is given.

        Raises:
            UpstreamError: There is no answer.
        """
        origin, target = self._place(url)
        head, body = _written(method, origin, target, headers, body)
        has_no_body = method == hdrs.METH_HEAD
        while True:
            wire = origin.kept_wire() or await self._dial(origin)
            try:
                response = await wire.send(head, body, has_no_body=has_no_body)
                break
            except UpstreamError as error:
                is_whole = body is None or isinstance(body, bytes)
                if not (error.is_untouched and method in _IDEMPOTENT and is_whole):
                    raise
        return response

    async def upgrade(
        self, url: str, headers: Headers, max_bytes: int, *, is_compressed: bool
    ) -> UpstreamSocket | UpstreamResponse:
        """Ask for a WebSocket; see `WebSocketConnector.connect`."""
        return await self._websockets.connect(url, headers, max_bytes, is_compressed=is_compressed)

    async def reach(self, url: str) -> None:
        """
        Connect as a request to that URL would, with TLS and through the proxy, and ask nothing.

        Raises:
            UpstreamError: That cannot be done.
        """
        origin, _ = self._place(url)
        (await self._dial(origin)).close()

    async def close(self) -> None:
        """Close every connection."""
        for wire in list(self._wires):
            wire.close()
        await self._connector.close()
        await self._websockets.close()

    def _place(self, url: str) -> tuple[_Origin, str]:
        parts = _PARTS.match(url)
        if parts is None:
            source = "connect"
            raise UpstreamError(source, "its URL is none of http or https")
        scheme, authority, target = parts.groups()
        origin = self._origins.get((scheme, authority))
        if origin is None:
            is_proxied = scheme == "http" and bool(self._egress.proxy_url)
            proxy_headers = "".join(f"{k}: {v}\r\n" for k, v in self._proxy_headers.items())
            origin = self._origins[scheme, authority] = _Origin(
                URL(f"{scheme}://{authority}/"),
                proxy_headers.encode() if is_proxied else b"",
                is_proxied=is_proxied,
            )
        return origin, target if target.startswith("/") else "/" + target

    async def _dial(self, origin: _Origin) -> UpstreamConnection:
        """Open a connection on which nobody talks without being asked."""
        egress = self._egress
        request = aiohttp.ClientRequest(
            hdrs.METH_GET,
            origin.url,
            loop=asyncio.get_running_loop(),
            proxy=URL(egress.proxy_url) if egress.proxy_url else None,
            proxy_headers=CIMultiDict(self._proxy_headers),
        )

        def on_idle(wire: UpstreamConnection) -> None:
            origin.idle[wire] = None

        def on_end(wire: UpstreamConnection) -> None:
            self._wires.discard(wire)
            origin.idle.pop(wire, None)

        with named_errors(self._patience.connect_s):
            dialled = await self._connector.connect(request, [], self._timeout)
            protocol = dialled.protocol
            if protocol is None or not (protocol.is_connected() and protocol.should_close):
                wire = UpstreamConnection(dialled, self._patience, on_idle, on_end)
                self._wires.add(wire)
                return wire
            dialled.close()
        source = "read"  # that is no HTTP
        raise UpstreamError(source, "it talks without being asked")


def _written(
    method: str, origin: _Origin, target: str, headers: Headers, body: Body
) -> tuple[bytes, Body]:
    """
    Spell a request's head, and frame its body.

    Raises:
        UpstreamError: What it consists of cannot stand in a head.
    """
    line = f"{method} ".encode() + origin.before_target
    fields = [b"%b: %b\r\n" % field for field in headers]
    if isinstance(body, bytes):
        fields.append(b"Content-Length: %d\r\n" % len(body))
    elif not any(name.lower() == _LENGTH for name, _ in headers):
        if body is not None:
            fields.append(b"Transfer-Encoding: chunked\r\n")
            body = _in_chunks(body)
        elif method not in _BODILESS:
            fields.append(b"Content-Length: 0\r\n")
    target_bytes = target.encode("utf-8", "surrogateescape")
    head = b"%b%b HTTP/1.1\r\n%b%b\r\n" % (line, target_bytes, origin.host, b"".join(fields))
    lines = len(fields) + origin.host.count(b"\n") + 2
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        source = "read"
        raise UpstreamError(source, "the request has line breaks where HTTP allows none")
    return head, body


async def _in_chunks(body: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with contextlib.aclosing(body) as pieces:
        async for piece in pieces:
            if piece:
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"
