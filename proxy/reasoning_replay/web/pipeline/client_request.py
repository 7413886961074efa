"""Client request: one request as every later phase sees it, with its route and its body."""

from dataclasses import dataclass

from aiohttp import HttpVersion11, hdrs, web

from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.exchange import Limits
from reasoning_replay.web.http.strict_request import require_well_formed
from reasoning_replay.web.memory_budget import MemoryBudget
from reasoning_replay.web.pipeline.request_body import RequestBody
from reasoning_replay.web.routes import route_of_request

__all__ = ["ClientRequest", "client_request"]

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """
    One request of a client.

    Attributes:
        http: As aiohttp parsed its head.
        path: Without the query.
        body: Of which nothing is read yet.
    """

    http: web.BaseRequest
    route: Route
    path: str
    body: RequestBody

    def check(self) -> None:
        """
        Check the head, and ask for the body where the client waits to be asked.

        Raises:
            ProxyError: It cannot be forwarded at all.
        """
        http = self.http
        require_well_formed(http)
        self.body.check()
        expects = http.headers.get(hdrs.EXPECT, "").lower() == "100-continue"
        if expects and http.version >= HttpVersion11 and http.transport is not None:
            http.transport.write(_CONTINUE)

    @property
    def content_coding(self) -> str:
        """The codings of the body, in the order they were applied; "" for none."""
        return ", ".join(self.http.headers.getall(hdrs.CONTENT_ENCODING, []))

    def cut_off(self) -> bool:
        """
        Break the answer off, so that the client does not take it for a whole one.

        After the first byte there is no status left to say it with. False: the client has left.
        """
        transport = self.http.transport
        if transport is None:
            return False
        transport.close()
        return True


def client_request(http: web.BaseRequest, limits: Limits, budget: MemoryBudget) -> ClientRequest:
    """Return a request of which only the head was read."""
    body = RequestBody(http, limits.body_max_bytes, limits.client_timeout_s, budget)
    return ClientRequest(http, route_of_request(http), http.raw_path.partition("?")[0], body)
