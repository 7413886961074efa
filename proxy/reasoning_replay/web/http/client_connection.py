"""
One client's connection: aiohttp's, within limits.

aiohttp bounds each line of a head, but not all of them together; it waits without end for a
client that sends half of a request, or takes nothing of an answer. What it keeps to itself is
looked at here, and nowhere else.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from reasoning_replay.adapters.runtime.tcp import Stall
from reasoning_replay.web.errors import BUG, ErrorResponse, as_response
from reasoning_replay.web.limit_errors import head_stalled, head_too_large

__all__ = ["ClientConnection", "ConnectionLimits", "Gate", "Stalled", "Unreadable"]

# How long a client may take to read that its request cannot be read.
LINGER_S = 1.0
_TOO_LARGE = 431
_TOO_LATE = 408
_TOO_MANY = "Too many headers"  # aiohttp has no class for it


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """
    What clients' connections may take up.

    Attributes:
        max_connections: At once.
        head_max_bytes: Of a request's line and headers together.
        idle_timeout_s: Without a request, or over the head of one.
        client_timeout_s: Of silence amid a body, or without taking any of an answer.
    """

    max_connections: int
    head_max_bytes: int
    idle_timeout_s: float
    client_timeout_s: float


@dataclass(frozen=True, slots=True)
class Gate:
    """
    Whom a connection asks and tells.

    Attributes:
        admits: Whether a new connection may stay; it has been taken care of if not.
        refuse: Told of what is refused before it is an exchange.
    """

    admits: Callable[[asyncio.Transport], bool]
    refuse: Callable[[ErrorResponse], None]


class Stalled(Exception):
    """A client is silent amid a request's body."""


class Unreadable(Exception):
    """
    A request turned out amid its body to be no HTTP.

    Attributes:
        fault: What its client is told.
    """

    def __init__(self, fault: ErrorResponse) -> None:
        """Carry what the client is told."""
        super().__init__(fault.message)
        self.fault = fault


class _LastWord(web.Response):
    """A response that its client can read: one that still sends would be reset by a close."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write it, say that it is all, and wait for the client to leave, which cancels this."""
        request = self._req
        await super().write_eof(data)
        transport = request.transport if request is not None else None
        if transport is None:
            return
        if transport.can_write_eof():
            transport.write_eof()
        await asyncio.sleep(LINGER_S)


class ClientConnection(RequestHandler):
    """
    One client's connection; what is no HTTP is refused in the shape of all our errors.

    Attributes:
        has_stalled: Whether it was cut off, as its client took nothing of an answer.
    """

    __slots__ = (
        "_body",
        "_came_bytes",
        "_gate",
        "_head_bytes",
        "_head_since_s",
        "_is_over",
        "_limits",
        "_seen_bytes",
        "_seen_requests",
        "_silent_since_s",
        "_stall",
        "has_stalled",
    )

    def __init__(
        self,
        server: web.Server,
        limits: ConnectionLimits,
        gate: Gate,
        **kwargs: Any,  # noqa: ANN401 (aiohttp's own)
    ) -> None:
        """Begin with nothing read; `kwargs` are aiohttp's."""
        super().__init__(
            server,
            max_line_size=limits.head_max_bytes,
            max_field_size=limits.head_max_bytes,
            keepalive_timeout=limits.idle_timeout_s,
            **kwargs,
        )
        self._limits = limits
        self._gate = gate
        self._body: StreamReader = EMPTY_PAYLOAD  # of the newest request
        self._seen_requests = 0
        self._head_bytes = 0  # of a head that is not whole yet
        self._head_since_s = 0.0
        self._came_bytes = 0
        self._seen_bytes = 0
        self._silent_since_s = 0.0
        self._stall: Stall | None = None
        self._is_over = False  # what comes is not read any more
        self.has_stalled = False

    @property
    def is_between_requests(self) -> bool:
        """Whether it has had an answer, and nothing since; a new one may have been let in late."""
        is_idle = self._current_request is None and not self._messages
        return is_idle and self._request_count > 0 and not self._head_bytes

    # What asyncio calls...

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection in, unless it is turned away."""
        both_ways = cast("asyncio.Transport", transport)  # uvloop's are no subclass of it
        if not self._gate.admits(both_ways):
            return
        self._stall = Stall(both_ways)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Read what comes, and count what belongs to a head."""
        if self._is_over:
            return
        is_between = self._body.is_eof()
        super().data_received(data)
        self._came_bytes += len(data)
        if self._request_count != self._seen_requests:
            self._measure_heads(len(data))
        elif is_between and data and not self._upgraded and not self._buffer_paused:
            if not self._head_bytes:
                self._head_since_s = self._loop.time()
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.head_max_bytes:
                self._put_error(_TOO_LARGE)

    def resume_reading(self, resume_parser: bool = True) -> None:  # noqa: FBT001, FBT002 (aiohttp's)
        """Read on, if that was held up: aiohttp parses nothing once more behind each read."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    # What the server calls, a few times in each client_timeout_s...

    def look(self, transport: asyncio.Transport, now_s: float) -> None:
        """End what the client has left hanging: the body that it sends, or the answer."""
        if self._stall is None or transport.get_protocol() is not self:
            return  # a WebSocket, which has its own rules
        most_s = self._limits.client_timeout_s
        if self._stall.lasts_s(now_s) >= most_s:
            self.has_stalled = True
            transport.abort()
            return
        is_waiting = not (self._body.is_eof() or self._reading_paused or self._buffer_paused)
        if not is_waiting or self._came_bytes != self._seen_bytes:
            self._seen_bytes, self._silent_since_s = self._came_bytes, now_s
        elif now_s - self._silent_since_s >= most_s and self._body.exception() is None:
            self._body.set_exception(Stalled())

    # What aiohttp calls...

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = BUG.status,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (it quotes what the client sent)
    ) -> web.StreamResponse:
        """Return the answer to a request that cannot be read, or whose handler failed."""
        if request.writer.output_size > 0:
            raise ConnectionError  # the answer has begun: aiohttp closes the connection
        fault = BUG
        if status != BUG.status:
            fault = self._fault_of(status, exc)
            self._gate.refuse(fault)
        refused = as_response(fault, web.Response if fault is BUG else _LastWord)
        refused.force_close()
        return refused

    def _process_keepalive(self) -> None:
        """Give a head that has begun its own time; without one, close as aiohttp does."""
        if not self._head_bytes or self._waiter is None or self._waiter.done():
            super()._process_keepalive()
            return
        until_s = self._head_since_s + self._limits.idle_timeout_s
        if self._loop.time() < until_s:
            self._keepalive_handle = self._loop.call_at(until_s, self._process_keepalive)
        else:
            self._keepalive_handle = None
            self._put_error(_TOO_LATE)

    def _measure_heads(self, size: int) -> None:
        """Look at the heads that have just become whole; `size` bytes came last."""
        new = min(self._request_count - self._seen_requests, len(self._messages))
        self._seen_requests = self._request_count
        most = self._limits.head_max_bytes
        begun, self._head_bytes = self._head_bytes, 0
        if not new:
            return  # aiohttp has them already, as they came behind an upgrade that was refused
        newest, body = self._messages[-1]
        before, self._body = self._body, body
        if isinstance(newest, _ErrInfo):
            self._is_over = True  # there is no next request
            if not before.is_eof():  # aiohttp would let its exchange wait for the rest of it
                fault = self._fault_of(newest.status, newest.exc)
                before.set_exception(Unreadable(fault._replace(ends=True)))
        if begun + size <= most:
            return  # as a rule; it takes more only with a body behind
        for at in range(len(self._messages) - new, len(self._messages)):
            message = self._messages[at][0]
            if isinstance(message, RawRequestMessage) and _size_of(message) > most:
                while len(self._messages) > at:
                    self._messages.pop()
                self._put_error(_TOO_LARGE)
                return

    def _put_error(self, status: int) -> None:
        """Answer with an error when all that came before is answered, and read nothing more."""
        self._is_over = True
        self._body = EMPTY_PAYLOAD
        error = _ErrInfo(status, HttpProcessingError(code=status), "")
        self._messages.append((error, EMPTY_PAYLOAD))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fault_of(self, status: int, error: BaseException | None) -> ErrorResponse:
        if status == _TOO_LATE:
            return head_stalled(self._limits.idle_timeout_s)
        is_long = isinstance(error, LineTooLong) or _TOO_MANY in str(error)
        if status == _TOO_LARGE or is_long:
            return head_too_large(self._limits.head_max_bytes)
        return ErrorResponse(
            status,
            "bad_request",
            "This is not an HTTP request that can be read: its request line, one of its headers or "
            "a chunk of its body is malformed.",
        )


def _size_of(message: RawRequestMessage) -> int:
    """Return the size of a head, as it is spelled as a rule."""
    line = len(message.method) + len(message.path) + len("  HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + 4 for name, value in message.raw_headers) + 2
