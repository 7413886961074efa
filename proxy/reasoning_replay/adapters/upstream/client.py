"""
Upstream HTTP client: the interface that the request pipeline knows.

`pool.UpstreamPool` implements it. docs/design.md says what that buys over aiohttp's own client.
"""

from typing import Protocol

from reasoning_replay.adapters.upstream.request_writer import Body
from reasoning_replay.adapters.upstream.response import (
    READ_BUFFER_BYTES,
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.adapters.upstream.websocket import UpstreamSocket, UpstreamWebSocket
from reasoning_replay.core.wire.headers import Headers

__all__ = [
    "READ_BUFFER_BYTES",
    "Body",
    "UpstreamClient",
    "UpstreamError",
    "UpstreamResponse",
    "UpstreamSocket",
    "UpstreamWebSocket",
]


class UpstreamClient(Protocol):
    """Sender of requests to upstreams."""

    @property
    def via(self) -> str:
        """The HTTP proxy on the way, for people; "" when there is none."""
        ...

    async def send(self, method: str, url: str, headers: Headers, body: Body) -> UpstreamResponse:
        """
        Send a request and wait for the head of its response; the caller closes it.

        Args:
            method: As the client wrote it.
            url: Sent as it is: nothing in it is normalised.
            headers: End-to-end ones; `Content-Length` among them only with a streamed body.
            body: Bytes go out with their length; an iterator in chunks, unless a length is given.

        Raises:
            UpstreamError: There is no response, or one that switches protocols.
        """
        ...

    async def upgrade(
        self, url: str, headers: Headers, max_bytes: int, *, is_compressed: bool
    ) -> UpstreamSocket | UpstreamResponse:
        """
        Ask for a WebSocket; return the response if it is refused.

        Args:
            url: Sent as it is: nothing in it is normalised.
            headers: End-to-end ones.
            max_bytes: Of a message; a longer one ends the connection with code 1009.
            is_compressed: Whether to offer permessage-deflate.

        Raises:
            UpstreamError: There is no answer, or it switches to something else.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...
