"""Tracer: the calls by which an exchange is traced. This one does nothing: `tracing: off`."""

from aiohttp import web

from reasoning_replay.core.wire.headers import Headers
from reasoning_replay.web.exchange import Exchange

__all__ = ["Tracer"]


class Tracer:
    """
    Traces exchanges; no call raises or waits.

    An exchange is found by the context of its task, so it has no state for this.
    """

    def begin(self, request: web.BaseRequest, route: str) -> None:
        """Start the span of an exchange; `end` must follow in the same task."""

    def attempt(self, _method: str, headers: Headers) -> Headers:
        """Start the span of a request to the upstream; return headers that name it as parent."""
        return headers

    def answered(self, status: int, content_type: str) -> None:
        """Note the head of the answer to the last attempt."""

    def failed(self, error: str) -> None:
        """Note that the last attempt had no answer."""

    def end(self, exchange: Exchange, took_s: float) -> None:
        """
        End the span of an exchange and of its last attempt; set the exchange's `trace_id`.

        A `response.create` on a WebSocket has no `begin`: its whole span is made here.
        """

    async def close(self, within_s: float) -> None:
        """Send the spans that are left; those not sent in time are lost."""
