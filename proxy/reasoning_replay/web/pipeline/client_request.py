"""Client request: one request as every later phase sees it, with its route and its body."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from aiohttp import HttpVersion11, hdrs, web
from multidict import CIMultiDict

from reasoning_replay.core.dialects.registry import key_parameters_of, route_of
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.exchange import Limits
from reasoning_replay.web.http.strict_request import require_well_formed
from reasoning_replay.web.http.upgrade import is_websocket
from reasoning_replay.web.memory_budget import MemoryLease
from reasoning_replay.web.pipeline.request_body import RequestBody

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """
    One request of a client.

    Attributes:
        http: Its head, as aiohttp parsed it.
        target: Path and query, without a name of an upstream in front.
        path: The same without the query.
        body: Its body, unread when this is created.
    """

    http: web.BaseRequest
    target: str
    route: str
    path: str
    body: RequestBody

    def check(self) -> None:
        """
        Check the head, and send `100 Continue` if the client waits for it.

        Raises:
            ProxyError: The request cannot be forwarded.
        """
        http = self.http
        require_well_formed(http)
        self.body.check()
        expects = http.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        if expects and http.version >= HttpVersion11 and http.transport is not None:
            http.transport.write(_CONTINUE)

    @property
    def identifying_headers(self) -> Mapping[str, str]:
        """Its headers, and the keys in its query as the headers that they are."""
        _, _, query = self.target.partition("?")
        names = key_parameters_of(self.route) if query else {}
        if not names:
            return self.http.headers
        headers = CIMultiDict(self.http.headers)
        for name, value in parse_qsl(query, errors="surrogateescape"):
            if name in names:
                headers.add(names[name], value)
        return headers

    @property
    def content_coding(self) -> str:
        """Content codings of the body, in the order they were applied; "" if it has none."""
        return ", ".join(self.http.headers.getall(hdrs.CONTENT_ENCODING, []))

    def cut_off(self) -> bool:
        """
        Close the connection, so that the client does not take the response for complete.

        After the head is sent, no error status can be sent. Return False if the client has left.
        """
        transport = self.http.transport
        if transport is None:
            return False
        transport.close()
        return True


def client_request(
    http: web.BaseRequest, target: str, limits: Limits, lease: MemoryLease
) -> ClientRequest:
    """Return the request for a parsed head; its body is still unread."""
    body = RequestBody(http, limits.body_max_bytes, limits.client_timeout_s, lease)
    path = target.partition("?")[0]
    route = Route.WEBSOCKET if is_websocket(http) else route_of(http.method, path)
    return ClientRequest(http, target, route, path, body)
