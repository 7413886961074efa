"""Slow line: a relay to a server that delays or resets connections, and counts round trips."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import TypeVar, cast

__all__ = ["SlowLine", "listening", "reset_now", "slow_line"]

CHUNK_BYTES = 1 << 16
# Turns of the event loop from the arrival of a connection until asyncio has called `serve`.
ACCEPTING_TURNS = 4


class SlowLine:
    """
    A TCP relay in both directions.

    Attributes:
        port: The port on which it listens.
        to_port: The port to which new connections lead.
        delay_s: Additional delay of each chunk of a response, in seconds.
        is_broken: Whether a connection is reset as soon as the client sends something.
        connections: Number of connections so far.
        trips: Number of round trips: a client's data at the start or after a response.
    """

    def __init__(self, to_port: int) -> None:
        self.to_port = to_port
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._has_ended = False
        self.port = 0
        self.delay_s = 0.0
        self.is_broken = False
        self.connections = 0
        self.trips = 0

    @property
    def url(self) -> str:
        """The address for a Redis client."""
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self) -> None:
        """Reset every open connection."""
        for writer in self._open:
            reset_now(writer.transport)

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side closes."""
        if self._has_ended:
            reset_now(writer.transport)
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def end(self) -> None:
        """Reset every connection, also those that are being accepted; wait for all tasks."""
        self._has_ended = True
        for _ in range(ACCEPTING_TURNS):  # asyncio does not tell which are being accepted
            await asyncio.sleep(0)
        self.cut()
        await asyncio.sleep(0)
        for task in self._serving:
            task.cancel()  # one that was made silent notices nothing
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def accepts(self, client: asyncio.StreamWriter) -> None:
        """Do what a fault does to a new connection: nothing here."""

    async def asks(self, data: bytes, client: asyncio.StreamWriter) -> bytes:
        """Return what passes of a client's data: all here."""
        return data

    async def answers(self, data: bytes, client: asyncio.StreamWriter) -> bytes:
        """Return what passes of a response: all here."""
        return data

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            await self.accepts(writer)
            there_reader, there = await asyncio.open_connection("127.0.0.1", self.to_port)
        except OSError:
            self._open.discard(writer)
            reset_now(writer.transport)
            return
        is_asking = False

        async def pass_on(to: asyncio.StreamWriter, *, is_answer: bool) -> None:
            nonlocal is_asking
            while data := await (there_reader if is_answer else reader).read(CHUNK_BYTES):
                if self.is_broken:
                    self.cut()
                    raise ConnectionResetError
                self.trips += not (is_answer or is_asking)
                is_asking = not is_answer
                if is_answer and self.delay_s:
                    await asyncio.sleep(self.delay_s)
                act = self.answers if is_answer else self.asks
                to.write(await act(data, writer))
                await to.drain()
            raise ConnectionResetError  # ends the other direction too

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(pass_on(there, is_answer=False))
                group.create_task(pass_on(writer, is_answer=True))
        except* (OSError, RuntimeError):
            pass  # reset by either side; uvloop raises RuntimeError on a closed transport
        finally:
            self._open.discard(writer)
            for one in (writer, there):
                one.close()


def reset_now(transport: asyncio.BaseTransport) -> None:
    """Close a connection with RST, without FIN."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # uvloop: it has no socket now
        linger = struct.pack("ii", 1, 0)  # closing sends RST
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    cast("asyncio.Transport", transport).abort()  # uvloop's transports are not a subclass


Line = TypeVar("Line", bound=SlowLine)


@contextlib.asynccontextmanager
async def listening(line: Line) -> AsyncIterator[Line]:
    """Run a relay."""
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        server.close()
        await line.end()


def slow_line(to_port: int) -> contextlib.AbstractAsyncContextManager[SlowLine]:
    """Run a relay to a port of this machine; it adds no delay at first."""
    return listening(SlowLine(to_port))
