"""Small HTTP proxy, as many companies have between their network and the internet."""

import asyncio
import contextlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

# Errors when one side has left or the test is over.
_OVER = (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)


class HttpProxy:
    """
    Proxy that tunnels CONNECT requests and forwards requests with a full URL.

    Attributes:
        address: Its host and port.
        asked: Request line and credentials of every request.
        refusal: Response to every CONNECT instead of a tunnel, if not empty.
    """

    def __init__(self, user: str = "") -> None:
        self.address = ""
        self.asked: list[tuple[str, str]] = []
        self.refusal = b""
        self._wanted = f"Basic {b64encode(user.encode()).decode()}" if user else ""
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(*_OVER):
                await self._serve(reader, writer)
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            head = await reader.readuntil(b"\r\n\r\n")
            first, *fields = head[:-4].decode("latin-1").split("\r\n")
            given = "".join(line[21:] for line in fields if line.startswith("Proxy-Authorization"))
            self.asked.append((first, given))
            method, target, _ = first.split(" ")
            if given != self._wanted:
                writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
                return
            if self.refusal:
                writer.write(self.refusal)
                return
            where = target if method == "CONNECT" else urlsplit(target).netloc
            host, _, port = where.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
                return
            kept = [line for line in fields if not line.startswith("Proxy-")]
            path = target.split("/", 3)[3]
            far_writer.write("\r\n".join([f"{method} /{path} HTTP/1.1", *kept, "", ""]).encode())
            if any(line.lower().startswith("upgrade:") for line in kept):
                await asyncio.gather(_pass(reader, far_writer), _pass(far_reader, writer))
                return
            far_writer.write(await reader.readexactly(_length(head)))
            answer = await far_reader.readuntil(b"\r\n\r\n")
            writer.write(answer + await far_reader.readexactly(_length(answer)))
            await writer.drain()
            far_writer.close()

    async def close(self) -> None:
        """End the running connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _length(head: bytes) -> int:
    """Return the length of a body; chunked bodies are not supported."""
    found = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return int(found[1]) if found else 0


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def http_proxy(user: str = "") -> AsyncIterator[HttpProxy]:
    """Run one on a free port; `user` is the name and password that it requires."""
    proxy = HttpProxy(user)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.close()
