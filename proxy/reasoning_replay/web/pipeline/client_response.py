"""Client response: the upstream's head and bytes, written to the client as they arrive."""

from http import HTTPStatus
from time import monotonic

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web

from reasoning_replay.adapters.upstream.client import (
    UpstreamError,
    UpstreamResponse,
    cause_of,
    reason_of,
)
from reasoning_replay.core.wire.headers import Headers, as_line, for_downstream, without
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.pipeline.capture_tee import Tee

_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_LENGTH = b"content-length"
# Interim responses of one exchange that are passed on; the upstream client bounds their bytes.
INTERIM_MAX = 16


class InterimResponses:
    """
    Interim responses of the upstream to one request, passed on as they arrive (RFC 9110, 15.2).

    A client of HTTP/1.0 knows none. A 100 is dropped, because the proxy answers `Expect` itself.
    """

    def __init__(self, request: web.BaseRequest) -> None:
        """Write nothing yet."""
        self._request = request
        self._left = INTERIM_MAX if request.version >= HttpVersion11 else 0

    def write(self, status: int, reason: bytes, headers: Headers) -> None:
        """Write one of them to the client, unless there were too many or the client has left."""
        transport = self._request.transport
        if status == HTTPStatus.CONTINUE or not self._left:
            return
        if transport is None or transport.is_closing():
            return
        self._left -= 1
        # It has no body, so a length would be wrong (RFC 9110, 8.6).
        fields = without(for_downstream(headers), _LENGTH)
        lines = map(as_line, fields)
        transport.write(b"HTTP/1.1 %d %b\r\n%b\r\n" % (status, reason, b"".join(lines)))


class ClientResponse(web.StreamResponse):
    """
    A response that is written directly to the client's connection, with one write per chunk.

    aiohttp's own response would create more objects than the rest of a small exchange, and would
    rewrite the headers. aiohttp's server uses only `prepare`, `write_eof` and `keep_alive` of this.

    Whatever writes raises ConnectionResetError if the client has left.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        response: UpstreamResponse,
        headers: Headers,
        *,
        closes: bool,
    ) -> None:
        """
        Build the head; nothing is written yet.

        Args:
            request: The client's request.
            response: The upstream's response.
            headers: The end-to-end headers to write, in place of the upstream's.
            closes: Whether the connection is closed after it.
        """
        status, version = response.status, request.version
        super().__init__(status=status, reason=response.reason.decode("latin-1"))
        self._request = request
        self._has_ended = False
        has_body = request.method != hdrs.METH_HEAD and status not in _WITHOUT_BODY
        self._in_chunks = False
        self._may_stay = request.keep_alive and not closes
        if status == HTTPStatus.NO_CONTENT:
            headers = without(headers, _LENGTH)  # RFC 9110, 8.6
        elif has_body and response.length is None:
            self._in_chunks = version >= HttpVersion11
            self._may_stay = self._may_stay and self._in_chunks
        lines = [*map(as_line, headers)]
        if self._in_chunks:
            lines.append(b"Transfer-Encoding: chunked\r\n")
        if not self._may_stay:
            lines.append(b"Connection: close\r\n")
        elif version == HttpVersion10:
            lines.append(b"Connection: keep-alive\r\n")
        lines.append(b"\r\n")
        # The version is the proxy's own, also for a client of HTTP/1.0 (RFC 9112, 2.3).
        line = b"HTTP/1.1 %d %b\r\n" % (status, response.reason)
        self._head = line + b"".join(lines)

    @property
    def keep_alive(self) -> bool:
        """Whether the client's connection may carry another request."""
        return self._may_stay

    @property
    def is_blocked(self) -> bool:
        """Whether a write must wait for the client, or would fail because it has left."""
        transport = self._request.transport
        is_open = transport is not None and not transport.is_closing()
        return not is_open or self._request.protocol.writing_paused

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing: the head is written with the first chunk, or by `write_head`."""

    def write_head(self) -> None:
        """Write the head, unless it is already written."""
        if self._head:
            self._write(b"")

    def write_chunk(self, data: bytes) -> None:
        """Write a chunk of the body without waiting."""
        self._write(b"%x\r\n%b\r\n" % (len(data), data) if self._in_chunks else data)

    async def drain(self) -> None:
        """Wait while the write buffer is full; the server cuts off a client that reads nothing."""
        if self._request.protocol.writing_paused:
            await self._request.writer.drain()

    def write_end(self) -> None:
        """Write the end of the body without waiting; must be called only once."""
        self._has_ended = True
        if self._head or self._in_chunks:
            self._write(b"0\r\n\r\n" if self._in_chunks else b"")

    async def write_eof(self, data: bytes = b"") -> None:  # noqa: ARG002 (aiohttp's)
        """Write the end, unless it is already written, and wait while the write buffer is full."""
        if not self._has_ended:
            self.write_end()
            await self.drain()

    def _write(self, data: bytes) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        if self._head:
            data = self._head + data
            self._head = b""
            self._request.writer.output_size += len(data)  # marks it as begun for aiohttp
        transport.write(data)


async def copy(
    exchange: Exchange,
    response: UpstreamResponse,
    downstream: ClientResponse,
    tee: Tee,
    read: bytes,
) -> bool:
    """
    Copy a response to the client, the head first.

    Most chunks are written in the event loop callback that reads them. Only a chunk that must wait,
    for its turn to be saved or for a slow client, returns to this task.

    Args:
        exchange: Counts the bytes, and the time for which they are held.
        response: The upstream's response.
        downstream: The response to the client.
        tee: Captures the response, or reads its error.
        read: The part of the body that is already read.

    Returns:
        False if upstream broke the response off.
    """
    arrived_s = 0.0

    def write_at_once(chunk: bytes) -> bool:
        nonlocal arrived_s
        arrived_s = monotonic()
        if not tee.take(chunk) or downstream.is_blocked:
            return False
        downstream.write_chunk(chunk)
        exchange.sent_bytes += len(chunk)
        exchange.times.between_ms += (monotonic() - arrived_s) * 1000
        return True

    async def write_later(chunk: bytes) -> None:
        """Write a chunk after its save, then wait for the client."""
        try:
            await tee.settle()
            downstream.write_chunk(chunk)
        finally:  # also if the client has left in the meantime
            exchange.times.between_ms += (monotonic() - arrived_s) * 1000
        exchange.sent_bytes += len(chunk)
        await downstream.drain()

    if read and not write_at_once(read):
        await write_later(read)
    del read
    try:
        while True:
            if not response.is_ready:
                downstream.write_head()
            chunk = await response.read(write_at_once)
            if not chunk:
                break
            await write_later(chunk)
    except UpstreamError as error:
        exchange.error, exchange.error_detail = cause_of(error), reason_of(error)
        downstream.write_head()
        return False
    exchange.times.answered_s = monotonic()
    await tee.close()
    return True
