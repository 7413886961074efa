"""
Upstream connection: HTTP/1.1 on one connection, one exchange at a time.

aiohttp's client creates many objects and wakes a task for each read. For a small exchange or one
event of a stream, that costs more than all other work of the proxy. Here, input reaches its reader
within the event loop's own callback.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from typing_extensions import override

from reasoning_replay.adapters.runtime.tcp import (
    LOOK_S,
    WriteProgress,
    buffered_bytes,
    is_gone,
    take_unread,
    unread_poll,
)
from reasoning_replay.adapters.upstream.dialer import DialledConnection
from reasoning_replay.adapters.upstream.request_writer import Body, RequestWriter
from reasoning_replay.adapters.upstream.response import (
    CLOSED,
    LOST,
    OnInterim,
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.adapters.upstream.response_parser import ResponseParser

# A longer body is written in pieces: other exchanges run in between, and a response that arrives
# before the end of the body is read.
ONE_PIECE_BYTES = 1024 * 1024
# Number of times that the progress of a request is checked within `read_s`.
CHECKS = 4
# Bytes of a response that are read after a write to its connection has failed.
REST_MAX_BYTES = 1024 * 1024
# An idle connection is closed after this time.
IDLE_S = 15.0


class ConnectionState(StrEnum):
    """State of an HTTP/1.1 connection, on either side of the proxy; the words are httpcore's."""

    NEW = "new"
    ACTIVE = "active"
    IDLE = "idle"
    CLOSED = "closed"


_FREE = frozenset({ConnectionState.NEW, ConnectionState.IDLE})


@dataclass(frozen=True, slots=True)
class Timeouts:
    """
    Timeouts for an upstream, in seconds.

    Attributes:
        connect_s: To open a connection, including DNS, proxy and TLS.
        first_byte_s: From the last byte of a request to the head of its response.
        read_s: Between two reads of a response, and for a request that makes no progress because
            the upstream does not read it.
    """

    connect_s: float
    first_byte_s: float
    read_s: float


class UpstreamConnection(asyncio.Protocol):
    """
    One HTTP/1.1 connection to an upstream. While it is idle, any input closes it.

    It calls `on_idle` when it can carry the next exchange, and `on_end` when it is lost.

    Attributes:
        is_used: Whether it has completed an exchange before the current one.
    """

    def __init__(
        self,
        dialled: DialledConnection,
        timeouts: Timeouts,
        on_idle: "Callable[[UpstreamConnection], None]",
        on_end: "Callable[[UpstreamConnection], None]",
    ) -> None:
        transport = dialled.transport
        self._dialled = dialled
        self._transport = transport
        self._timeouts = timeouts
        self._on_idle = on_idle
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._parser = ResponseParser()
        self._response: UpstreamResponse | None = None  # the one being read
        self._is_lost = False
        self._writer = RequestWriter(transport, self._sent, self._send_failed, self._has_input)
        self._is_read_paused = False
        self._progress = WriteProgress(transport)
        self._unread = unread_poll(transport)
        self._since_s = self._loop.time()
        self._check_s = min(timeouts.first_byte_s, timeouts.read_s / CHECKS, IDLE_S, LOOK_S)
        self._timer = self._loop.call_later(self._check_s, self._check_timeouts)
        self.is_used = False
        transport.set_protocol(self)

    @override
    def __repr__(self) -> str:
        """Return what it says of itself, in one line."""
        far = self._transport.get_extra_info("peername")
        quiet_s = self._loop.time() - self._since_s
        return f"<UpstreamConnection {self.state}, to {far}, quiet for {quiet_s:.1f} s>"

    @property
    def state(self) -> ConnectionState:
        """What it is used for now; CLOSED also while the transport still closes."""
        if self._is_lost or self._transport.is_closing():
            return ConnectionState.CLOSED
        if self._response is not None:
            return ConnectionState.ACTIVE
        return ConnectionState.IDLE if self.is_used else ConnectionState.NEW

    @property
    def is_free(self) -> bool:
        """
        Whether this connection can carry an exchange now.

        Unread input closes it: the input would be read as the response to the next request.
        """
        if self.state not in _FREE:
            return False
        if self._unread is not None and self._unread.poll(0):
            self.close()
            return False
        return True

    async def send(
        self,
        head: bytes,
        body: Body,
        *,
        has_no_body: bool,
        on_interim: OnInterim | None = None,
    ) -> UpstreamResponse:
        """
        Send a request and wait for the head of its response.

        Args:
            head: Request line and headers, including those for framing.
            body: Request body; the pieces of a streamed body are already framed.
            has_no_body: Whether the response has no body regardless of its headers, as for HEAD.
            on_interim: Called with each interim response.

        Raises:
            UpstreamError: No response arrived; the connection is closed.
        """
        if self.state is ConnectionState.CLOSED:
            raise UpstreamError("read", CLOSED)
        response = self._response = UpstreamResponse(self, self._loop.create_future(), on_interim)
        self._parser.expect(response, has_no_body=has_no_body)
        self._since_s = self._loop.time()
        try:
            pieces = [body or b""] if body is None or isinstance(body, bytes) else body
            if isinstance(pieces, list) and sum(map(len, pieces)) <= ONE_PIECE_BYTES:
                self._transport.write(b"".join([head, *pieces]))
                if self._writer.is_paused:
                    self._writer.begin(None)
            else:
                self._transport.write(head)
                self._writer.begin(body)
            await response.head
            response.check_head()
        except BaseException:  # also a cancellation, when the client has disconnected
            response.close()
            raise
        return response

    def close(self) -> None:
        """Close the connection in any state."""
        response, self._response = self._response, None
        transport = self._transport
        is_gentle = response is None and not (transport.is_closing() or buffered_bytes(transport))
        if response is not None and not response.is_over:
            response.end(UpstreamError("read", CLOSED))
        self._timer.cancel()
        self._writer.cancel()
        if self._is_lost:
            return
        if is_gentle:
            transport.close()
        else:
            # Drop the rest of a request, and skip the close handshake of TLS: the upstream may
            # still be sending a response that is not read any more.
            transport.abort()

    # --- called by a response ---

    def resume_reading(self) -> None:
        """Resume reading if it was paused because the read buffer was full."""
        if self._is_read_paused:
            self._is_read_paused = False
            self._since_s = self._loop.time()
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def abandon(self, response: UpstreamResponse) -> None:
        """Close the connection if it still carries that response."""
        if self._response is response:
            self.close()

    async def until_sent(self, response: UpstreamResponse) -> None:
        """Wait until the request is sent or the connection has ended; a stalled one is closed."""
        if self._response is response:
            await self._writer.wait()

    # --- called by asyncio ---

    def data_received(self, data: bytes) -> None:
        """Parse input and offer it to the reader of the response."""
        response = self._response
        if response is None or self._parser.is_done:
            self._unexpected()
            return
        is_done = self._parser.feed(data)
        if response.status:
            self._since_s = self._loop.time()
        is_full = not response.offer()
        if is_full and not (self._is_read_paused or self._is_lost):
            self._is_read_paused = True
            self._transport.pause_reading()
        if is_done:
            self._finish(response)
        elif self._parser.error:
            self._fail("read", self._parser.error)

    def eof_received(self) -> None:
        """End the response; asyncio closes the transport after it has written pending data."""
        self._end(CLOSED, is_clean=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the response and the request, and leave the pool."""
        self._is_lost = True
        self._timer.cancel()
        if exc is not None:
            self._read_rest()
        self._writer.resume()
        self._dialled.release(exc)
        self._on_end(self)
        # The system gives up a connection whose peer does not answer with ETIMEDOUT.
        self._end(LOST if isinstance(exc, TimeoutError) else CLOSED, is_clean=exc is None)
        if self._response is not None and self._response.is_over:
            self._writer.cancel()  # nothing takes the rest of the request

    def pause_writing(self) -> None:
        """Pause the request."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """Resume the request."""
        self._writer.resume()

    # --- the end of a request, and of an exchange ---

    def _has_input(self) -> bool:
        """Return whether input has arrived that the event loop is about to read."""
        if self._unread is None or self._is_read_paused or self._transport.is_closing():
            return False
        return bool(self._unread.poll(0))

    def _sent(self) -> None:
        self._since_s = self._loop.time()
        if self._response is not None and self._response.is_over:
            self._release()

    def _send_failed(self, error: BaseException) -> None:
        self._fail("read", f"sending the request failed: {type(error).__name__}")

    def _finish(self, response: UpstreamResponse) -> None:
        response.end()
        if not self._writer.is_busy:  # else the rest of the request is sent, unless it is closed
            self._release()

    def _release(self) -> None:
        """End the exchange, whose request is written and whose response is complete."""
        self._response = None
        if buffered_bytes(self._transport):
            self._transport.close()  # after the last bytes; the check of idle connections ends it
            return
        if not self._parser.may_stay or self._transport.is_closing():
            self.close()
            return
        self.resume_reading()
        self.is_used = True
        self._on_idle(self)

    def _read_rest(self) -> None:
        """Read the response that had arrived when a write failed, as after a reset."""
        size = 0
        while (
            size < REST_MAX_BYTES
            and self._response is not None
            and not (self._response.is_over or self._parser.is_done)
            and (data := take_unread(self._transport))
        ):
            size += len(data)
            self.data_received(data)

    def _end(self, reason: str, *, is_clean: bool) -> None:
        """End the response because the connection has ended."""
        response = self._response
        if response is None or response.is_over:
            return
        if self._parser.until_eof and is_clean:
            response.end()
        else:
            is_untouched = self.is_used and not response.status and not self._parser.overhead_bytes
            self._fail("read", reason, is_untouched=is_untouched)

    def _fail(
        self, source: str, reason: str, setting: str = "", *, is_untouched: bool = False
    ) -> None:
        if self._response is not None and not self._response.is_over:
            self._response.end(UpstreamError(source, reason, setting, is_untouched=is_untouched))
        self.close()

    def _unexpected(self) -> None:
        """Stop using the connection: this would be read as the response to the next request."""
        self._parser.may_stay = False
        if self._response is None:
            self.close()

    # --- timeouts ---

    def _check_timeouts(self) -> None:
        """Fail the exchange after a timeout, or if the peer is gone; close one idle for IDLE_S."""
        if is_gone(self._transport):
            self._end(LOST, is_clean=False)
            self.close()
            return
        now_s, timeouts, response = self._loop.time(), self._timeouts, self._response
        quiet_s, most_s, setting, why = now_s - self._since_s, IDLE_S, "", ""
        if response is None:
            pass
        elif response.is_over and self._writer.is_busy:
            quiet_s, most_s = self._progress.stalled_s(now_s), min(timeouts.read_s, IDLE_S)
        elif response.is_over or self._is_read_paused:
            quiet_s = 0.0
        elif response.status:
            most_s, setting = timeouts.read_s, "read_timeout_s"
            why = f"it sent nothing for {most_s:g} s"
        elif self._writer.is_busy:
            quiet_s = self._progress.stalled_s(now_s)
            most_s, setting = timeouts.read_s, "read_timeout_s"
            why = f"it read nothing of the request for {most_s:g} s"
        else:
            most_s, setting = timeouts.first_byte_s, "first_byte_timeout_s"
            why = f"no response within {most_s:g} s after the request"
        if quiet_s < most_s:
            later_s = min(self._check_s, most_s - quiet_s)
            self._timer = self._loop.call_later(later_s, self._check_timeouts)
        elif response is None:
            self.close()
        else:
            self._fail("timeout", why, setting)
