"""How long an upstream is waited for, where aiohttp does not ask that, or has one time for two."""

import asyncio
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from proxy.adapters.sockets import Stall, buffered_bytes

__all__ = ["SWITCHED", "NotTaken", "Patience", "answers"]

SWITCHED = 101
# How often it is looked, within the time that it may last, whether an upstream takes a request.
LOOKS = 4


@dataclass(frozen=True, slots=True)
class Patience:
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


class NotTaken(aiohttp.SocketTimeoutError):
    """Upstream takes nothing of a request."""


class _Answer(aiohttp.ClientResponse):
    """
    An answer that is waited for with patience, of which there is more before its head than after.

    Behind one that switches protocols, the connection is not used for HTTP again.
    """

    read_s = 0.0

    def __init__(
        self,
        *args: Any,  # noqa: ANN401 (aiohttp's own)
        writer: "asyncio.Task[None] | None",
        **kwargs: Any,  # noqa: ANN401 (as above)
    ) -> None:
        """Take what aiohttp gives; `writer` is at work until the request is written."""
        super().__init__(*args, writer=writer, **kwargs)
        self._request_writer = writer

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Read the head; aiohttp gives a connection back whose 101 does not say to what."""
        protocol = connection.protocol
        watch = self._watch(protocol)
        try:
            await super().start(connection)
        finally:
            if watch is not None:
                watch.cancel()
        if protocol is None:
            return self
        if self.status == SWITCHED and self.closed:
            protocol.close()
        protocol.read_timeout = self.read_s
        transport = protocol.transport
        # The clock that runs was set for the head; while nothing is read, none does.
        if not self.closed and transport is not None and transport.is_reading():
            protocol.start_timeout()
        return self

    def close(self) -> None:
        """Close the connection; what upstream has not taken of the request is not kept for it."""
        protocol = self.connection.protocol if self.connection is not None else None
        transport = protocol.transport if protocol is not None else None
        if protocol is None or transport is None or transport.is_closing():
            pass  # whoever closes it sees to what is left
        elif buffered_bytes(transport):
            protocol.abort()
        super().close()

    def _watch(self, protocol: ResponseHandler | None) -> "_Watch | None":
        writer = self._request_writer
        if writer is None or protocol is None or protocol.transport is None:
            return None
        return _Watch(protocol, protocol.transport, writer, self.read_s)


class _Watch:
    """Gives up an upstream that takes nothing of a request: aiohttp waits for it without end."""

    def __init__(
        self,
        protocol: ResponseHandler,
        transport: asyncio.Transport,
        writer: "asyncio.Task[None]",
        most_s: float,
    ) -> None:
        self._protocol = protocol
        self._writer = writer
        self._stall = Stall(transport)
        self._most_s = most_s
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(most_s / LOOKS, self._look)

    def _look(self) -> None:
        if self._writer.done():
            return
        if self._stall.lasts_s(self._loop.time()) >= self._most_s:
            self._protocol.set_exception(NotTaken())
            return
        self._timer = self._loop.call_later(self._most_s / LOOKS, self._look)

    def cancel(self) -> None:
        self._timer.cancel()


def answers(read_s: float) -> type[aiohttp.ClientResponse]:
    """Return the class of answers amid which an upstream may be silent for so long."""
    return type("_Answer", (_Answer,), {"read_s": read_s})
