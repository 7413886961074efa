"""A line to a server on which a test decides how long bytes take, and whether they come at all."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

__all__ = ["SlowLine", "slow_line"]

CHUNK_BYTES = 1 << 16
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


class SlowLine:
    """
    Passes bytes on, both ways.

    Attributes:
        port: Where it listens.
        delay_s: How long each piece of an answer takes, besides.
        is_broken: Whether connections are reset as soon as the client has said something.
        connections: How many there were.
    """

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.delay_s = 0.0
        self.is_broken = False
        self.connections = 0

    @property
    def url(self) -> str:
        """As a client of Redis takes it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self) -> None:
        """Reset every connection that is open now."""
        for writer in self._open:
            _reset(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side has left."""
        self.connections += 1
        self._open.add(writer)
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._to_port)
        except OSError:
            _reset(writer)
            return
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, there, is_answer=False))
                group.create_task(self._pass_on(there_reader, writer, is_answer=True))
        except* OSError:
            pass  # reset by either side
        finally:
            self._open.discard(writer)
            for one in (writer, there):
                one.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        while data := await reader.read(CHUNK_BYTES):
            if self.is_broken:
                self.cut()
                raise ConnectionResetError
            if is_answer and self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # so that the other way ends too


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


@contextlib.asynccontextmanager
async def slow_line(to_port: int) -> AsyncIterator[SlowLine]:
    """Open one, to a port of this machine; it delays nothing until told to."""
    line = SlowLine(to_port)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.port = server.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        server.close()
        line.cut()
        await server.wait_closed()
