"""
Connections that speak HTTP no longer: bytes in both directions, and nobody between.

aiohttp's own WebSockets take every frame apart and put it together again, so the transports are
taken over instead, as asyncio provides for it (`Transport.set_protocol`). Two things are still
aiohttp's, and in this file alone: what it has read already behind a head, which its `set_parser`
hands over, and its protocols, which learn from us that their connection is gone.
"""

import asyncio
import contextlib

import aiohttp
from aiohttp import web
from aiohttp.client_proto import ResponseHandler
from aiohttp.tcp_helpers import tcp_keepalive
from aiohttp.web_protocol import RequestHandler

__all__ = ["End", "client_end", "upstream_end"]

# So much is read ahead of whoever passes it on before the other side has to wait.
READ_AHEAD_BYTES = 128 * 1024


class End(asyncio.Protocol):
    """
    One end of a tunnel.

    It stands in for aiohttp's protocol on the transport, and for the parser that aiohttp wants in
    order to hand over what it has read.
    """

    def __init__(
        self, transport: asyncio.Transport | None, former: ResponseHandler | RequestHandler
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
        self._is_lost = transport is None
        self._is_closed = False  # by us
        self._has_said_end = False
        self._error: Exception | None = None
        self._has_ended = transport is None  # nothing more will be read
        self._news = asyncio.Event()
        self._may_write = asyncio.Event()
        self._may_write.set()
        if transport is not None:
            transport.set_protocol(self)

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be written any more."""
        return self._is_lost

    @property
    def _open(self) -> asyncio.Transport | None:
        transport = self._transport
        return None if transport is None or transport.is_closing() else transport

    async def read(self) -> bytes:
        """Return what has come; b"" once the other side has ended."""
        while not self._read and not self._has_ended:
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
            ConnectionResetError: Nobody is there any more.
        """
        self.put(data)
        await self._may_write.wait()

    def put(self, data: bytes) -> None:
        """
        Write without waiting.

        Raises:
            ConnectionResetError: Nobody is there any more.
        """
        transport = self._open
        if transport is None or self._is_lost or self._has_said_end:
            raise ConnectionResetError
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
        """Close, once everything is written."""
        self._is_closed = True
        if self._transport is None:
            return
        self._transport.close()
        if self._is_lost:
            # Later, because aiohttp's server cancels the handler that this is called from.
            asyncio.get_running_loop().call_soon(self._former.connection_lost, self._error)

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
        self._has_ended = True
        self._news.set()
        return self._transport is not None and self._transport.can_write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever reads or writes."""
        self._is_lost = self._has_ended = True
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


def upstream_end(response: aiohttp.ClientResponse) -> End:
    """
    Take over the connection of an answer with status 101.

    Raises:
        ConnectionResetError: There is none.
    """
    protocol = response.connection.protocol if response.connection is not None else None
    if protocol is None:
        raise ConnectionResetError
    transport = protocol.transport
    protocol.read_timeout = None  # between two turns a connection is silent
    if transport is not None:
        tcp_keepalive(transport)  # so that a host that went away is noticed all the same
    end = End(transport, protocol)
    protocol.set_parser(end, end)
    return end


def client_end(request: web.BaseRequest) -> End:
    """Take over the connection of a request, once the upgrade is agreed upon."""
    end = End(request.transport, request.protocol)
    request.protocol.set_parser(end)  # type: ignore[arg-type]
    request.protocol.keep_alive(val=False)
    return end
