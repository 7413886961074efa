"""Clients of the bench: connections that stay open, with as little work on each as possible."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from tests.bench.shapes.dialect import STAMP

END = b"\r\n\r\n"
LENGTH = b"content-length: "
OK = b"HTTP/1.1 200 "
STAMP_DIGITS = 16


class LoadError(Exception):
    """A response is wrong, so there is nothing to compare."""


class Line(asyncio.Protocol):
    """
    One connection: a request, its response, and so on.

    Attributes:
        head: The head of the last response, in lower case.
    """

    def __init__(self) -> None:
        self.head = b""
        self._got = bytearray()
        self._needs = 0
        self._answer: asyncio.Future[bytes] | None = None
        self._hears: Callable[[bytes], None] | None = None
        self._is_open = False
        self._transport: asyncio.Transport

    async def exchange(self, request: bytes) -> bytes:
        """
        Send a request, and return the body of its response, which must have a length.

        Raises:
            LoadError: The response is not a 200, or is cut off.
        """
        self._hears = None
        return await self._asked(request)

    async def stream(self, request: bytes, hears: Callable[[bytes], None]) -> None:
        """Send a request with a chunked response; pass each chunk on at once, without its frame."""
        self._hears = hears
        await self._asked(request)

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to write to."""
        # uvloop's transports are not a subclass of it.
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request in flight."""
        self._fail(f"connection lost: {error}")

    def data_received(self, data: bytes) -> None:
        """Read the response in flight."""
        self._got += data
        if self._is_open:
            self._chunks()
        elif len(self._got) >= self._needs:
            self._head()

    async def _asked(self, request: bytes) -> bytes:
        if self._transport.is_closing():
            raise LoadError("connection lost")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def _fail(self, reason: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(LoadError(reason))

    def _done(self, body: bytes) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(body)

    def _head(self) -> None:
        end = self._got.find(END)
        if end < 0:
            return
        head = bytes(self._got[: end + 4])
        if not head.startswith(OK):
            self._fail(bytes(self._got[: end + 400]).decode(errors="replace"))
            return
        self.head = head = head.lower()
        at = head.find(LENGTH)
        if at < 0:
            del self._got[: end + 4]
            self._is_open = True
            self._chunks()
            return
        at += len(LENGTH)
        whole = end + 4 + int(head[at : head.index(b"\r", at)])
        self._needs = whole
        if len(self._got) >= whole:
            body = bytes(self._got[end + 4 : whole])
            del self._got[:whole]
            self._needs = 0
            self._done(body)

    def _chunks(self) -> None:
        got = self._got
        at = 0
        while (line := got.find(b"\r\n", at)) >= 0:
            size = int(got[at:line], 16)
            behind = line + 2 + size + 2
            if len(got) < behind:
                break
            at = behind
            if not size:
                self._is_open = False
                del got[:at]
                self._done(b"")
                return
            if self._hears is not None:
                self._hears(bytes(got[line + 2 : behind - 2]))
        del got[:at]


async def back_to_back(opened: list[Line], requests: Iterator[bytes]) -> list[float]:
    """
    Send requests, on each connection the next one as soon as the last one has its response.

    Returns:
        How long each exchange took, in seconds.
    """
    took_s: list[float] = []

    async def work(line: Line) -> None:
        for request in requests:
            began_s = time.perf_counter()
            await line.exchange(request)
            took_s.append(time.perf_counter() - began_s)

    async with asyncio.TaskGroup() as group:
        for line in opened:
            group.create_task(work(line))
    return took_s


@dataclass(slots=True)
class Arrivals:
    """
    The events of one stream, as received.

    Attributes:
        ending: Start of the event that marks the end of the stream.
        late_s: The delay of each delta, from sending to receiving, in seconds.
        ends: Number of those events.
        began_ns, ended_ns: Times of the first bytes and of the end, on the monotonic clock.
        failure: Why it was not read to its end; empty if it was.
    """

    ending: bytes
    late_s: list[float] = field(default_factory=list)
    ends: int = 0
    began_ns: int = 0
    ended_ns: int = 0
    failure: str = ""
    _begun: bytes = b""

    def is_whole(self, deltas: int) -> bool:
        """Return whether all events have arrived, including the last one."""
        return not self.failure and self.ends == 1 and len(self.late_s) == deltas

    def hear(self, data: bytes) -> None:
        """Record a piece of the stream: some events, of which the last one may be incomplete."""
        now_ns = time.monotonic_ns()
        self.began_ns = self.began_ns or now_ns
        whole, parted, self._begun = (self._begun + data).rpartition(b"\n\n")
        data = whole + parted
        at = data.find(STAMP)
        while at >= 0:
            at += len(STAMP)
            sent_ns = int(data[at : at + STAMP_DIGITS])
            self.late_s.append((now_ns - sent_ns) / 1e9)
            at = data.find(STAMP, at)
        if self.ending in data:
            self.ends += 1
            self.ended_ns = now_ns
