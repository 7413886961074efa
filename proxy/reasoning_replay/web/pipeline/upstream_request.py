"""Upstream request: the request to send, built from a client's target, headers and body."""

from dataclasses import dataclass, replace

from aiohttp import hdrs

from reasoning_replay.adapters.upstream.client import Body
from reasoning_replay.core.dialects.base import Cure, RefusedBodies
from reasoning_replay.core.dialects.registry import names_version
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.dialects.vendors import version_in
from reasoning_replay.core.wire.headers import (
    Headers,
    asking_for_identity,
    for_upstream,
    with_value,
    without,
)
from reasoning_replay.web.http.upgrade import for_handshake
from reasoning_replay.web.pipeline.client_request import ClientRequest


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """
    A request to the upstream.

    Attributes:
        bodies: The body as received and as sent, for a cure; None if the body was not read.
    """

    method: str
    url: str
    headers: Headers
    body: Body
    bodies: RefusedBodies | None = None

    def with_body(self, body: bytes | list[bytes | memoryview]) -> "UpstreamRequest":
        """Return a copy with another body and without Content-Encoding."""
        headers = without(self.headers, b"content-encoding")
        return UpstreamRequest(self.method, self.url, headers, body, self.bodies)

    def with_cure(self, cure: Cure) -> "UpstreamRequest":
        """Return a copy with the body of a cure, and its header."""
        cured = self.with_body(cure.body)
        if cure.header is None:
            return cured
        return replace(cured, headers=with_value(cured.headers, *cure.header))


class UpstreamAddress:
    """
    Address of one upstream.

    Attributes:
        origin: Scheme and authority of the upstream's URL.
    """

    def __init__(self, upstream_url: str) -> None:
        """Map `/v1` to `upstream_url`, which has no trailing slash."""
        self._url = upstream_url
        scheme, _, rest = upstream_url.partition("://")
        self.origin = f"{scheme}://{rest.partition('/')[0]}"
        self._is_version = version_in(upstream_url) != ""

    def request(
        self, client: ClientRequest, body: Body, bodies: RefusedBodies | None, *, is_captured: bool
    ) -> UpstreamRequest:
        """
        Return the upstream request for a client's request.

        Args:
            client: Source of the target, the method and the headers.
            body: Body to send, unless `bodies` has an edited one.
            bodies: The body as received and as sent, if it was read; an edited body is sent without
                content coding.
            is_captured: Whether the response is captured, and must have no content coding.
        """
        http = client.http
        headers = for_upstream(http.raw_headers)
        if client.route is Route.WEBSOCKET:
            headers = for_handshake(headers)
        if not isinstance(body, (bytes, list)) and hdrs.CONTENT_LENGTH in http.headers:
            headers.append((b"Content-Length", http.headers[hdrs.CONTENT_LENGTH].encode()))
        if is_captured:
            headers = asking_for_identity(headers)
        request = UpstreamRequest(http.method, self._map(client), headers, body, bodies)
        if bodies is not None and bodies.is_edited:
            return request.with_body(bodies.to_send)
        return request

    def _map(self, client: ClientRequest) -> str:
        """
        Map a request path: `/v1` to the upstream's URL, any other path to the same origin.

        If that URL is a version of an API, and the client names the version itself, `/v1` is the
        version that it names.

        A path is always appended to an authority and starts with a slash, so it cannot change the
        authority.
        """
        target = client.http.raw_path
        is_mapped = target == "/v1" or target.startswith(("/v1/", "/v1?"))
        if is_mapped and not (
            self._is_version and names_version(client.route, client.http.headers)
        ):
            return self._url + target[3:]
        return self.origin + target
