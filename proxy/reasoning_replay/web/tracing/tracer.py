"""Tracer: the interface that traces an exchange; this base class does nothing (`tracing: off`)."""

from aiohttp import web

from reasoning_replay.core.wire.headers import Headers
from reasoning_replay.web.exchange import Exchange


class Tracer:
    """
    Tracer of exchanges; no call raises, and only `close` waits.

    Spans are found by the context of the running task, so Exchange has no field for them.
    """

    def begin(self, request: web.BaseRequest, route: str, upstream: str) -> None:
        """Start the span of an exchange with an upstream; `end` must follow in the same task."""

    def attempt(self, _method: str, headers: Headers) -> Headers:
        """Start the span of a request to the upstream; return headers that name it as parent."""
        return headers

    def answered(self, status: int, content_type: str) -> None:
        """Record the head of the response to the last attempt."""

    def failed(self, error: str) -> None:
        """Record that the last attempt got no response."""

    def end(self, exchange: Exchange) -> None:
        """
        End the span of an exchange and of its last attempt; set the exchange's `trace_id`.

        A `response.create` on a WebSocket has no `begin`: its whole span is created here.
        """

    async def close(self, within_s: float) -> None:
        """Send the remaining spans; those not sent in time are lost."""
