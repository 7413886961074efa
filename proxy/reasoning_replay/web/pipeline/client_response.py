"""The client's side of an answer: upstream's head and bytes, and nothing of aiohttp's own."""

import asyncio
import contextlib
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web

from reasoning_replay.adapters.upstream.response import UpstreamError, UpstreamResponse
from reasoning_replay.core.wire.headers import Headers, without
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.pipeline.capture_tee import CaptureTee

__all__ = ["RawResponse", "relay"]

_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_LENGTH = b"content-length"
# How long the head of an answer is held for a body that is held itself.
HEAD_HELD_S = 0.01


class RawResponse(web.StreamResponse):
    """
    An answer that goes straight to its client's connection, a chunk in one write.

    aiohttp's own would be made of more objects than all the rest of a small exchange. Its server
    sees this one through `prepare`, `write_eof` and `keep_alive` alone.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        response: UpstreamResponse,
        headers: Headers,
        *,
        is_last: bool,
    ) -> None:
        """
        Write nothing yet.

        Args:
            request: The client's.
            response: Upstream's.
            headers: The end-to-end ones of that, and ours.
            is_last: Whether the connection is closed behind it.
        """
        self._request = request
        self._has_ended = False
        status, version = response.status, request.version
        has_body = request.method != hdrs.METH_HEAD and status not in _WITHOUT_BODY
        self._is_chunked = False
        self._may_stay = request.keep_alive and not is_last
        if status == HTTPStatus.NO_CONTENT:
            headers = without(headers, _LENGTH)  # RFC 9110, 8.6
        elif has_body and response.length is None:
            self._is_chunked = version >= HttpVersion11
            self._may_stay = self._may_stay and self._is_chunked
        lines = [b"%b: %b\r\n" % field for field in headers]
        if self._is_chunked:
            lines.append(b"Transfer-Encoding: chunked\r\n")
        if not self._may_stay:
            lines.append(b"Connection: close\r\n")
        elif version == HttpVersion10:
            lines.append(b"Connection: keep-alive\r\n")
        lines.append(b"\r\n")
        line = b"HTTP/%d.%d %d %b\r\n" % (*version, status, response.reason)
        self._head = line + b"".join(lines)

    @property
    def keep_alive(self) -> bool:
        """Whether the client's connection may carry a next request."""
        return self._may_stay

    @property
    def is_held_up(self) -> bool:
        """Whether whoever writes has to wait, for the client or for good."""
        transport = self._request.transport
        is_open = transport is not None and not transport.is_closing()
        return not is_open or self._request.protocol.writing_paused

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing: the head goes out with what comes first behind it, or with `begin`."""

    def begin(self) -> None:
        """
        Write the head, if it is not out yet.

        Raises:
            ConnectionResetError: The client has left.
        """
        if self._head:
            self._write(b"")

    def put(self, data: bytes) -> None:
        """
        Write a piece of the body without waiting.

        Raises:
            ConnectionResetError: The client has left.
        """
        self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    async def drain(self) -> None:
        """
        Wait while the client is slower than we are.

        Raises:
            ConnectionResetError: The client has left.
        """
        if self._request.protocol.writing_paused:
            await self._request.writer.drain()

    def end(self) -> None:
        """
        Write the end, once, without waiting.

        Raises:
            ConnectionResetError: The client has left.
        """
        self._has_ended = True
        if self._head or self._is_chunked:
            self._write(b"0\r\n\r\n" if self._is_chunked else b"")

    async def write_eof(self, data: bytes = b"") -> None:  # noqa: ARG002 (aiohttp's)
        """
        Write the end, once, and wait while the client is slower than we are.

        Raises:
            ConnectionResetError: The client has left.
        """
        if not self._has_ended:
            self.end()
            await self.drain()

    def _write(self, data: bytes) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        if self._head:
            data = self._head + data
            self._head = b""
            self._request.writer.output_size += len(data)  # so aiohttp knows that it has begun
        transport.write(data)


async def relay(  # noqa: PLR0913, PLR0917 (all that takes part in it)
    exchange: Exchange,
    response: UpstreamResponse,
    downstream: RawResponse,
    reader: CaptureTee | None,
    read: bytes,
    clock: Callable[[], float],
) -> bool:
    """
    Pass an answer on, its head first.

    As a rule a chunk is passed on in the loop's own call that reads it. Only what has to wait, for
    its turn to be saved or for a slow client, comes back to this task.

    Args:
        exchange: Counts the bytes, and how long they are held.
        response: Upstream's.
        downstream: The client's.
        reader: Learns from it; None when there is nothing to learn.
        read: What was read of the body already.
        clock: Seconds, never going backwards.

    Returns:
        False when upstream broke it off.
    """
    came_s = 0.0

    def passes(chunk: bytes) -> bool:
        nonlocal came_s
        came_s = clock()
        if (reader is not None and not reader.take(chunk)) or downstream.is_held_up:
            return False
        downstream.put(chunk)
        exchange.sent_bytes += len(chunk)
        exchange.between_ms += (clock() - came_s) * 1000
        return True

    async def write_in_time(chunk: bytes) -> None:
        """Write what has to wait, once it need not; a slow client is waited for behind that."""
        try:
            await _settle(reader, downstream)
            downstream.put(chunk)
        finally:  # also where the client did not wait for that
            exchange.between_ms += (clock() - came_s) * 1000
        exchange.sent_bytes += len(chunk)
        await downstream.drain()

    if read and not passes(read):
        await write_in_time(read)
    del read
    try:
        while True:
            if not response.is_ready:
                downstream.begin()
            chunk = await response.read(passes)
            if not chunk:
                break
            await write_in_time(chunk)
    except UpstreamError:
        downstream.begin()
        return False
    exchange.answered_s = clock()
    if reader is not None:
        await reader.close()
    return True


async def _settle(reader: CaptureTee | None, downstream: RawResponse) -> None:
    """Wait for what is to be saved first, with the head if that is quick."""
    if reader is None:
        return
    # The head need not wait for a store that takes its time; as a rule they share a write.
    soon = asyncio.get_running_loop().call_later(HEAD_HELD_S, _begin, downstream)
    await reader.settle()
    soon.cancel()


def _begin(downstream: RawResponse) -> None:
    with contextlib.suppress(ConnectionResetError):
        downstream.begin()
