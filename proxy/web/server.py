"""Clients' side of the sockets: aiohttp's server, less its own words and logs."""

import logging

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from proxy.adapters.upstream import HEAD_MAX_BYTES
from proxy.web.errors import BUG, Fault, refusal_of
from proxy.web.forward import Forward

__all__ = ["Server", "silent"]

# aiohttp quotes what it cannot read in its log, and that may be somebody's key.
silent = logging.getLogger("reasoning_replay.silent")
silent.addHandler(logging.NullHandler())
silent.propagate = False
silent.disabled = True


class _Connection(RequestHandler):
    """One client's connection; what is no HTTP is refused in the shape of all our errors."""

    __slots__ = ()

    @property
    def is_between_requests(self) -> bool:
        """Whether it has had an answer, and nothing since; a new one may have been let in late."""
        is_used = self._request_count > 0
        return is_used and self._current_request is None and not self._messages

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = BUG.status,
        exc: BaseException | None = None,  # noqa: ARG002 (it quotes what the client sent)
        message: str | None = None,  # noqa: ARG002 (as above)
    ) -> web.StreamResponse:
        """Return the answer to a request that cannot be read, or whose handler failed."""
        if request.writer.output_size > 0:
            raise ConnectionError  # the answer has begun: aiohttp closes the connection
        fault = BUG
        if status != BUG.status:
            fault = Fault(
                status,
                "bad_request",
                "This is not an HTTP request that can be read: its request line or one of its "
                f"headers is malformed or longer than {HEAD_MAX_BYTES} bytes.",
            )
            if isinstance(self._manager, Server):
                self._manager.forward.refuse(fault)
        refused = refusal_of(fault)
        refused.force_close()
        return refused


class Server(web.Server):
    """Accepts clients' connections for one `Forward`."""

    def __init__(self, forward: Forward) -> None:
        """Needs a running loop."""
        self.forward = forward
        super().__init__(
            forward.handle,
            handler_cancellation=True,  # a client that leaves cancels its exchange at once
            auto_decompress=False,
            access_log=None,
            logger=silent,
            max_line_size=HEAD_MAX_BYTES,
            max_field_size=HEAD_MAX_BYTES,
        )

    def __call__(self) -> RequestHandler:
        """Return what talks to one new connection."""
        return _Connection(self, loop=self._loop, **self._kwargs)

    def close_idle(self) -> None:
        """Close the connections that clients keep for a next request."""
        for connection in self.connections:
            if isinstance(connection, _Connection) and connection.is_between_requests:
                connection.force_close()
