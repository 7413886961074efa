"""The upgrade to a WebSocket: which it is, how it goes on, and how upstream's answer goes back."""

from aiohttp import HttpVersion11, hdrs, web

from reasoning_replay.adapters.upstream.response import UpstreamResponse
from reasoning_replay.adapters.upstream.response_parser import SWITCHED
from reasoning_replay.core.wire.headers import Headers

__all__ = ["SWITCHED", "FinishedResponse", "for_handshake", "head_of", "is_websocket"]


def is_websocket(request: web.BaseRequest) -> bool:
    """Tell whether a request asks for a WebSocket; other upgrades are left out, as HTTP allows."""
    if request.method != hdrs.METH_GET or hdrs.UPGRADE not in request.headers:
        return False
    options = ",".join(request.headers.getall(hdrs.CONNECTION, ())).lower().split(",")
    return (
        request.version >= HttpVersion11
        and request.headers[hdrs.UPGRADE].lower() == "websocket"
        and "upgrade" in map(str.strip, options)
        and not request.body_exists
    )


def for_handshake(headers: Headers, upgrade: str, *, is_read: bool) -> Headers:
    """
    Return the headers of an upgrade as they go on.

    Args:
        headers: The end-to-end ones.
        upgrade: The protocol, as the client spelled it.
        is_read: Whether messages will be read. Then no extension is offered: the one in use
            compresses them, and what is compressed over many messages cannot be edited in one.
    """
    left_out = b"sec-websocket-extensions" if is_read else None
    return [
        *((name, value) for name, value in headers if name.lower() != left_out),
        (b"Connection", b"Upgrade"),
        (b"Upgrade", upgrade.encode("utf-8", "surrogateescape")),
    ]


def head_of(response: UpstreamResponse) -> bytes:
    """Return the head with which upstream agreed, as it came."""
    line = b"HTTP/1.1 %d %b" % (response.status, response.reason)
    return b"\r\n".join([line, *(b"%b: %b" % field for field in response.headers), b"", b""])


class FinishedResponse(web.StreamResponse):
    """What a handler returns when all is written already, and the connection is over."""

    def __init__(self) -> None:
        """Take the connection away from aiohttp."""
        super().__init__(status=SWITCHED)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write no head."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write no end."""
