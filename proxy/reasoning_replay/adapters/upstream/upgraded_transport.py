"""
Connections that speak HTTP no longer: bytes in both directions, and nobody between.

aiohttp's own WebSockets take every frame apart and put it together again, so the transports are
taken over instead, as asyncio provides for it (`Transport.set_protocol`). Two things are still
aiohttp's, and in this file alone: what it has read already behind a head, which its `set_parser`
hands over, and its protocols, which learn from us that their connection is gone.
"""

import asyncio
import contextlib

from aiohttp import web
from aiohttp.tcp_helpers import tcp_keepalive
from aiohttp.web_protocol import RequestHandler

from reasoning_replay.adapters.upstream.response import ResponseOwner, UpstreamResponse

__all__ = ["LEFT_OVER_S", "End", "client_end", "upstream_end"]

# So much is read ahead of whoever passes it on before the other side has to wait.
READ_AHEAD_BYTES = 128 * 1024
# A side that takes not a byte for so long, while there are some for it, is taken for gone: what
# its neighbour does meanwhile goes unseen. As long as an upstream may be silent over HTTP.
STALLED_S = 900.0
# The same once its neighbour has left, or the tunnel is over.
LEFT_OVER_S = 30.0


class End(asyncio.Protocol):
    """
    One end of a tunnel.

    It stands in for aiohttp's protocol on the transport, and for the parser that aiohttp wants in
    order to hand over what it has read.

    Attributes:
        ended: Set when nothing more will come, but what has come already.
    """

    def __init__(
        self, transport: asyncio.Transport | None, former: ResponseOwner | RequestHandler
    ) -> None:
        """
        Take the transport over.

        Args:
            transport: Behind the head of the upgrade; None when it is gone already.
            former: Its protocol so far.
        """
        self._transport = transport
        self._former = former
        self._read = bytearray()
        self._is_paused = False
        self.ended = asyncio.Event()
        self._is_lost = transport is None
        self._put_bytes = 0
        self._is_closed = False  # by us
        self._has_said_end = False
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        if transport is None:
            self.ended.set()
        else:
            transport.set_protocol(self)

    @property
    def is_held_up(self) -> bool:
        """Whether writers wait for the other side."""
        return not self._may_write.is_set()

    @property
    def taken_bytes(self) -> int:
        """How much of what was written has been taken."""
        return self._put_bytes - self._left_bytes

    @property
    def _left_bytes(self) -> int:
        transport = self._transport
        if transport is None or self._is_lost:
            return 0
        return transport.get_write_buffer_size()

    @property
    def _open(self) -> asyncio.Transport | None:
        transport = self._transport
        return None if transport is None or transport.is_closing() else transport

    async def read(self) -> bytes:
        """Return what has come; b"" once the other side has ended."""
        while not self._read and not self.ended.is_set():
            self._news.clear()
            await self._news.wait()
        data = bytes(self._read)
        self._read.clear()
        if self._is_paused and (transport := self._open) is not None:
            self._is_paused = False
            transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """
        Write, and wait while the other side is slower than we are.

        Raises:
            ConnectionResetError: Nobody is there any more, or nobody who takes anything.
        """
        self.put(data)
        while not self._may_write.is_set():
            taken = self.taken_bytes
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STALLED_S):
                    await self._may_write.wait()
                    return
            if self._give_up(taken):
                raise ConnectionResetError

    def put(self, data: bytes) -> None:
        """
        Write without waiting.

        Raises:
            ConnectionResetError: Nobody is there any more.
        """
        transport = self._open
        if transport is None or self._is_lost or self._has_said_end:
            raise ConnectionResetError
        self._put_bytes += len(data)
        transport.write(data)

    def end(self) -> None:
        """Say that nothing more will be written."""
        transport = self._open
        if transport is None or self._is_lost or self._has_said_end:
            return
        self._has_said_end = True
        with contextlib.suppress(OSError):
            if transport.can_write_eof():
                transport.write_eof()
            else:
                transport.close()

    def close(self) -> None:
        """Close, once everything is written, or no more of it is taken."""
        self._is_closed = True
        if self._transport is None:
            return
        self._transport.close()
        if self._is_lost:
            # Later, because aiohttp's server cancels the handler that this is called from.
            asyncio.get_running_loop().call_soon(self._former.connection_lost, self._error)
        elif self._left_bytes:
            self._see_off()

    def _see_off(self) -> None:
        taken = self.taken_bytes

        def look() -> None:
            if not self._give_up(taken) and self._left_bytes:
                self._see_off()

        asyncio.get_running_loop().call_later(LEFT_OVER_S, look)

    def _give_up(self, taken: int) -> bool:
        """Break off if no more has been taken than that; tell whether the connection is over."""
        if self._transport is not None and self._left_bytes and self.taken_bytes <= taken:
            self._transport.abort()
            return True
        return self._is_lost

    # What asyncio calls...

    def data_received(self, data: bytes) -> None:
        """Keep what has come, up to a bound."""
        self._read += data
        self._news.set()
        if len(self._read) >= READ_AHEAD_BYTES and not self._is_paused:
            self._is_paused = True
            if (transport := self._open) is not None:
                transport.pause_reading()

    def eof_received(self) -> bool:
        """Note the end; where the transport can, we may go on writing."""
        self.ended.set()
        self._news.set()
        return self._transport is not None and self._transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever reads or writes."""
        self._is_lost = True
        self.ended.set()
        self._error = exc
        self._news.set()
        self._may_write.set()
        if self._is_closed:
            self._former.connection_lost(exc)

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._may_write.set()

    # What aiohttp calls of a parser...

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take what was read behind the head; pausing and resuming is aiohttp's until then."""
        self._read += data
        return False, b""

    def feed_eof(self) -> None:
        """Take the end, which `connection_lost` has told already."""


def upstream_end(response: UpstreamResponse) -> End:
    """
    Take over the connection of an answer with status 101.

    Raises:
        ConnectionResetError: There is none.
    """
    source = response.taken_over()
    transport, behind = source.hand_over()
    if transport is not None:
        tcp_keepalive(transport)  # between two turns it is silent, also if nobody is there
    end = End(transport, source)
    if behind:
        end.data_received(behind)
    return end


def client_end(request: web.BaseRequest) -> End:
    """Take over the connection of a request, once the upgrade is agreed upon."""
    end = End(request.transport, request.protocol)
    request.protocol.set_parser(end)  # type: ignore[arg-type]
    request.protocol.keep_alive(val=False)
    return end
