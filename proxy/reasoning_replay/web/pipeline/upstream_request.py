"""Upstream request: the request to send, built from a client's target, headers and body."""

from dataclasses import dataclass, replace

from aiohttp import hdrs

from reasoning_replay.adapters.upstream.client import Body
from reasoning_replay.core.dialects.base import Bodies, Cure
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
    bodies: Bodies | None = None

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
        """Map paths to those of `upstream_url`, which has no trailing slash."""
        scheme, _, rest = upstream_url.partition("://")
        self.origin = f"{scheme}://{rest.partition('/')[0]}"
        self._base_path = upstream_url.removeprefix(self.origin)

    def request(
        self, client: ClientRequest, body: Body, bodies: Bodies | None, *, is_captured: bool
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
        is_own = names_version(client.route, http.headers)
        # Appended to an authority, a path cannot change it: it starts with a slash.
        url = self.origin + mapped(self._base_path, client.target, names_version=is_own)
        request = UpstreamRequest(http.method, url, headers, body, bodies)
        if bodies is not None and bodies.is_edited:
            return request.with_body(bodies.to_send)
        return request


def mapped(base_path: str, target: str, *, names_version: bool) -> str:
    """
    Return the target at an upstream for a client's target: `/v1` is the upstream's path.

    Any other path is the same there. So is `/v1` if the upstream's path is only a version of an
    API, and the client asks for a version itself: as clients of its API do, or with the place in
    that version which the upstream's path has (`/openai`).

    Args:
        base_path: Path of the upstream's URL, without a slash at the end.
        target: Path and query of the client's request, without a name of an upstream.
        names_version: Whether the clients of its API name the version.
    """
    rest = target.removeprefix("/v1")
    if rest == target or (rest and rest[0] not in "/?"):
        return target
    if version := version_in(base_path):
        place = base_path.removeprefix(version)
        if names_version or (place and rest.startswith(f"{place}/")):
            return target
    return base_path + rest
