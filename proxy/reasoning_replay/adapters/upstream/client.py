"""
Upstream HTTP client: the interface that the request pipeline uses.

`pool.UpstreamPool` implements it. docs/design.md compares that with aiohttp's own client.
"""

from typing import Protocol

from reasoning_replay.adapters.upstream.causes import cause_of, reason_of
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
    "cause_of",
    "reason_of",
]


class UpstreamClient(Protocol):
    """Sender of requests to upstreams."""

    @property
    def via(self) -> str:
        """Text for messages that names the HTTP proxy, with a leading space; "" without a proxy."""
        ...

    async def send(self, method: str, url: str, headers: Headers, body: Body) -> UpstreamResponse:
        """
        Send a request and wait for the head of its response; the caller closes the response.

        Args:
            method: As the client wrote it.
            url: Sent without any normalisation.
            headers: End-to-end headers; with `Content-Length` only if the body is an iterator.
            body: Bytes, also in pieces, are sent with their length. An iterator is sent in chunks,
                unless `headers` contains its length.

        Raises:
            UpstreamError: No response arrived, or it switches protocols.
        """
        ...

    async def upgrade(
        self, url: str, headers: Headers, max_bytes: int, *, is_compressed: bool
    ) -> UpstreamSocket | UpstreamResponse:
        """
        Request a WebSocket; return the response if the upstream rejects the handshake.

        Args:
            url: Sent without any normalisation.
            headers: End-to-end headers.
            max_bytes: Limit on a message; a longer one ends the connection with code 1009.
            is_compressed: Whether to offer permessage-deflate.

        Raises:
            UpstreamError: No response arrived, or it switches to another protocol.
        """
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...
