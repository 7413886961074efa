"""
One connection to the upstream, in HTTP/1.1: one exchange after the other.

aiohttp's client makes an object of everything and wakes a task for each read, which costs more than
all that is done here to a small exchange or to an event. Its connector still makes the connections:
names, TLS and proxies are its own. What is read here goes where it belongs within the loop's call.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp.connector import Connection

from reasoning_replay.adapters.runtime.tcp import Stall, buffered_bytes, unread_poll
from reasoning_replay.adapters.upstream.request_writer import Body, RequestWriter
from reasoning_replay.adapters.upstream.response import (
    UpstreamError,
    UpstreamResponse,
)
from reasoning_replay.adapters.upstream.response_parser import ResponseParser

__all__ = ["Timeouts", "UpstreamConnection"]

# A body of more than this is not written in one piece: others have their turn in between, and an
# answer that comes ahead of its end is seen.
ONE_PIECE_BYTES = 1024 * 1024
# How often it is looked, within the time that it may last, whether an upstream takes a request.
LOOKS = 4
# How long a connection is kept for a next request.
IDLE_S = 15.0
_CLOSED = "it closed the connection"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """
    How long an upstream is waited for, in seconds.

    Attributes:
        connect_s: To reach it: names, proxy and TLS included.
        first_byte_s: From a request's last byte to the head of its answer.
        read_s: The longest silence between two reads of an answer, and the longest time in which
            it takes nothing of a request.
    """

    connect_s: float
    first_byte_s: float
    read_s: float


class UpstreamConnection(asyncio.Protocol):
    """
    One connection. While it is idle, anything that comes ends it.

    Attributes:
        is_used: Whether it has carried an exchange before this one.
    """

    def __init__(
        self,
        dialled: Connection,
        patience: Timeouts,
        on_idle: "Callable[[UpstreamConnection], None]",
        on_end: "Callable[[UpstreamConnection], None]",
    ) -> None:
        """
        Take a connection over.

        Args:
            dialled: Open, with nothing sent or read yet.
            patience: See there.
            on_idle: Called when the next exchange may come; the wire is in nobody's hands then.
            on_end: Called when it is closed.

        Raises:
            ConnectionResetError: It is gone already.
        """
        transport = dialled.transport
        if transport is None or transport.is_closing():
            dialled.close()
            raise ConnectionResetError
        self._dialled = dialled
        self._former = dialled.protocol
        self._transport = transport
        self._patience = patience
        self._on_idle = on_idle
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._answers = ResponseParser()
        self._response: UpstreamResponse | None = None  # what is read now
        self._is_lost = False
        self._sending = RequestWriter(transport, self._sent, self._unsent)
        self._is_read_paused = False
        self._stall = Stall(transport)
        self._unread = unread_poll(transport)
        self._since_s = self._loop.time()
        self._look_s = min(patience.first_byte_s, patience.read_s / LOOKS, IDLE_S)
        self._timer = self._loop.call_later(self._look_s, self._look)
        self.is_used = False
        transport.set_protocol(self)

    @property
    def is_free(self) -> bool:
        """
        Whether it can carry an exchange now.

        Not if something has come that the loop has not read yet: it would be taken for the answer
        to this exchange, and is what is left of another's.
        """
        if self._response is not None or self._is_lost or self._transport.is_closing():
            return False
        if self._unread is not None and self._unread.poll(0):
            self.close()
            return False
        return True

    async def send(self, head: bytes, body: Body, *, has_no_body: bool) -> UpstreamResponse:
        """
        Send a request and wait for the head of its answer.

        Args:
            head: Its line and headers, framing included.
            body: The pieces of one that is streamed are framed already.
            has_no_body: Whether its answer has none, whatever its head says, as that to a HEAD.

        Raises:
            UpstreamError: There is no answer; the wire is closed then.
        """
        if self._is_lost or self._transport.is_closing():
            raise UpstreamError("read", _CLOSED)
        response = self._response = UpstreamResponse(self, self._loop.create_future())
        self._answers.expect(response, has_no_body=has_no_body)
        self._since_s = self._loop.time()
        try:
            if body is None or (isinstance(body, bytes) and len(body) <= ONE_PIECE_BYTES):
                self._transport.write(head + body if body else head)
                if self._sending.is_held_up:
                    self._sending.begin(None)
            else:
                self._transport.write(head)
                self._sending.begin(body)
            await response.head
        except BaseException:  # also when the client has left
            response.close()
            raise
        return response

    def close(self) -> None:
        """Close it, whatever it is at."""
        response, self._response = self._response, None
        transport = self._transport
        is_gentle = response is None and not (transport.is_closing() or buffered_bytes(transport))
        if response is not None and not response.is_over:
            response.end(UpstreamError("read", _CLOSED))
        self._timer.cancel()
        self._sending.cancel()
        if self._is_lost:
            return
        if is_gentle:
            transport.close()
        else:
            # What upstream has not taken of a request is not kept for it, and a farewell in TLS
            # is not waited for while it goes on with an answer that nobody reads.
            transport.abort()

    # What an answer calls...

    def go_on(self) -> None:
        """Read on, if that was held up by what had not been taken yet."""
        if self._is_read_paused:
            self._is_read_paused = False
            self._since_s = self._loop.time()
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def leave(self, response: UpstreamResponse) -> None:
        """Close the wire, if it is still in the hands of who had that answer."""
        if self._response is response:
            self.close()

    # --- what asyncio calls ---

    def data_received(self, data: bytes) -> None:
        """Read what comes."""
        response = self._response
        if response is None or self._answers.is_done:
            self._unasked()
            return
        is_done = self._answers.feed(data)
        if response.status:
            self._since_s = self._loop.time()
        if not response.offer() and not self._is_read_paused:
            self._is_read_paused = True
            self._transport.pause_reading()
        if is_done:
            self._finish(response)
        elif self._answers.error:
            self._break("read", self._answers.error)

    def eof_received(self) -> None:
        """Take nothing more; the connection is not lost before it has taken what is written."""
        self._end(is_clean=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever reads or writes."""
        self._is_lost = True
        self._timer.cancel()
        self._sending.resume()
        if self._former is not None:
            self._former.connection_lost(exc)
        self._dialled.close()
        self._on_end(self)
        self._end(is_clean=exc is None)

    def pause_writing(self) -> None:
        """Let the writer of a request wait."""
        self._sending.pause()

    def resume_writing(self) -> None:
        """Let it go on."""
        self._sending.resume()

    # --- the end of a request, and of an exchange ---

    def _sent(self) -> None:
        self._since_s = self._loop.time()

    def _unsent(self, error: BaseException) -> None:
        self._break("read", f"the request broke off: {type(error).__name__}")

    def _finish(self, response: UpstreamResponse) -> None:
        response.end()
        is_sent = not (self._sending.is_on or buffered_bytes(self._transport))
        if not is_sent:
            return  # who has the answer closes it
        self._response = None
        if not self._answers.may_stay or self._transport.is_closing():
            self.close()
            return
        self.go_on()
        self.is_used = True
        self._on_idle(self)

    def _end(self, *, is_clean: bool) -> None:
        """Take what has come of an answer for all of it."""
        response = self._response
        if response is None or response.is_over:
            return
        if self._answers.until_eof and is_clean:
            response.end()
        else:
            is_untouched = self.is_used and not response.status and not self._answers.beside_bytes
            self._break("read", _CLOSED, is_untouched=is_untouched)

    def _break(
        self, source: str, reason: str, setting: str = "", *, is_untouched: bool = False
    ) -> None:
        if self._response is not None and not self._response.is_over:
            self._response.end(UpstreamError(source, reason, setting, is_untouched=is_untouched))
        self.close()

    def _unasked(self) -> None:
        """Use the connection no more: this would be read as the answer to the next request."""
        self._answers.may_stay = False
        if self._response is None:
            self.close()

    # --- patience ---

    def _look(self) -> None:
        """Give up an upstream that has been waited for long enough."""
        now_s, patience, response = self._loop.time(), self._patience, self._response
        quiet_s, most_s, setting, why = now_s - self._since_s, IDLE_S, "", ""
        if response is None:
            pass
        elif response.is_over or self._is_read_paused:
            quiet_s = 0.0
        elif response.status:
            most_s, setting = patience.read_s, "read_timeout_s"
            why = f"nothing came for {most_s:g} s"
        elif self._sending.is_on:
            quiet_s = self._stall.lasts_s(now_s)
            most_s, setting = patience.read_s, "read_timeout_s"
            why = f"it took nothing of the request for {most_s:g} s"
        else:
            most_s, setting = patience.first_byte_s, "first_byte_timeout_s"
            why = f"no answer in the {most_s:g} s after the request"
        if quiet_s < most_s:
            later_s = min(self._look_s, most_s - quiet_s)
            self._timer = self._loop.call_later(later_s, self._look)
        elif response is None:
            self.close()
        else:
            self._break("timeout", why, setting)
