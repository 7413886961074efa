"""A line to a server on which the trips there and back are counted."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

__all__ = ["Trips", "counted"]

CHUNK_BYTES = 1 << 18


class Trips:
    """
    Passes bytes on, both ways.

    Attributes:
        port: Where it listens.
        count: How often a client has said something, first of all or after an answer.
    """

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._serving: set[asyncio.Task[None]] = set()
        self.port = 0
        self.count = 0

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side has left."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def end(self) -> None:
        """Leave all clients."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there = await asyncio.open_connection("127.0.0.1", self._to_port)
        is_asking = False

        async def ask() -> None:
            nonlocal is_asking
            while data := await reader.read(CHUNK_BYTES):
                self.count += not is_asking
                is_asking = True
                there.write(data)
            raise ConnectionResetError  # so that the other way ends too

        async def answer() -> None:
            nonlocal is_asking
            while data := await there_reader.read(CHUNK_BYTES):
                is_asking = False
                writer.write(data)
            raise ConnectionResetError

        with contextlib.suppress(OSError):
            try:
                await asyncio.gather(ask(), answer())
            finally:
                for one in (writer, there):
                    one.close()
                    with contextlib.suppress(OSError):
                        await one.wait_closed()


@contextlib.asynccontextmanager
async def counted(to_port: int) -> AsyncIterator[Trips]:
    """Open one, to a port of this machine."""
    trips = Trips(to_port)
    server = await asyncio.start_server(trips.serve, "127.0.0.1", 0)
    trips.port = server.sockets[0].getsockname()[1]
    try:
        yield trips
    finally:
        server.close()
        await trips.end()
