"""Upstream request: what is sent, and how a client's target and headers become its own."""

from dataclasses import dataclass, replace

from aiohttp import hdrs

from reasoning_replay.adapters.upstream.client import Body
from reasoning_replay.core.dialects.base import RefusedBodies
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.wire.headers import Headers, asking_for_identity, for_upstream, without
from reasoning_replay.web.http.upgrade import for_handshake
from reasoning_replay.web.pipeline.client_request import ClientRequest

__all__ = ["UpstreamAddress", "UpstreamRequest"]


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """
    A request as it goes to the upstream.

    Attributes:
        bodies: What it was made from, where it may have to be cured; None where it was not read.
    """

    method: str
    url: str
    headers: Headers
    body: Body
    bodies: RefusedBodies | None = None

    def with_body(self, body: bytes) -> "UpstreamRequest":
        """Return the same request with another body, which has no content coding."""
        return replace(self, headers=without(self.headers, b"content-encoding"), body=body)


class UpstreamAddress:
    """
    Where requests go.

    Attributes:
        origin: Scheme and authority of the upstream's URL.
    """

    def __init__(self, upstream_url: str) -> None:
        """`upstream_url` is what `/v1` stands for, without a slash at the end."""
        self._url = upstream_url
        scheme, _, rest = upstream_url.partition("://")
        self.origin = f"{scheme}://{rest.partition('/')[0]}"

    def request(
        self, client: ClientRequest, body: Body, bodies: RefusedBodies | None, *, is_captured: bool
    ) -> UpstreamRequest:
        """
        Return a client's request as it goes to the upstream.

        Args:
            client: Its target, method and headers are used.
            body: What is sent.
            bodies: Where the request was read; an edited one is sent without content coding.
            is_captured: Whether the answer is read, and so must come without content coding.
        """
        http = client.http
        headers = for_upstream(http.raw_headers)
        if client.route is Route.WEBSOCKET:
            headers = for_handshake(headers)
        if not isinstance(body, bytes) and hdrs.CONTENT_LENGTH in http.headers:
            headers.append((b"Content-Length", http.headers[hdrs.CONTENT_LENGTH].encode()))
        if is_captured:
            headers = asking_for_identity(headers)
        request = UpstreamRequest(http.method, self._map(http.raw_path), headers, body, bodies)
        if bodies is not None and bodies.sent is not bodies.given:
            return request.with_body(bodies.sent)
        return request

    def _map(self, target: str) -> str:
        """
        Map a request target, a path: `/v1` is the upstream's URL, any other is its origin's.

        Whatever a path says, it stands behind an authority and a slash, and cannot change it.
        """
        if target == "/v1" or target.startswith(("/v1/", "/v1?")):
            return self._url + target[3:]
        return self.origin + target
