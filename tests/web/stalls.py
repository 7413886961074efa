"""Stalled peers: they read nothing, and their kernels take little for them."""

import asyncio
import socket

from tests.web.scripted import Script, Step

# More than a stalled peer, the proxy, and the kernel's send buffers (4 MiB each) take.
LARGE_BYTES = 16 << 20
# The kernel may enlarge a receive buffer to 32 MiB, unless its size is set.
TAKES_BYTES = 64 << 10


def stops_reading(writer: asyncio.StreamWriter) -> None:
    """Stop reading; only the kernel's buffers still fill."""
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, TAKES_BYTES)
    writer.transport.pause_reading()  # type: ignore[attr-defined]


def reads_again(writer: asyncio.StreamWriter) -> None:
    """Read again."""
    writer.transport.resume_reading()  # type: ignore[attr-defined]


def stalls() -> Step:
    """Read nothing until the test calls `go`, or the other side leaves."""

    async def step(script: Script, writer: asyncio.StreamWriter) -> None:
        stops_reading(writer)
        await script.told.acquire()
        reads_again(writer)

    return step
