"""A listening port with what answers on it."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from aiohttp import web

from reasoning_replay.settings.urls import authority, host_and_port

__all__ = ["Listener"]

BACKLOG = 1024
# Between two tries to accept a connection, when there are no files to be had for it.
AGAIN_S = 0.1


class Listener:
    """
    One of the ports of a process.

    Attributes:
        url: Where it listens, once it does.
    """

    def __init__(self, runner: web.ServerRunner | web.AppRunner) -> None:
        """Keep what answers; `close` closes it."""
        self._runner = runner
        self._listening: asyncio.Server | None = None
        self._accepting: asyncio.Task[None] | None = None
        self.url = ""

    async def open(
        self,
        address: str,
        secure: Callable[[socket.socket], None] | None = None,
        *,
        reuse_port: bool = False,
    ) -> None:
        """
        Listen.

        Args:
            address: As in the settings; port 0 takes a free one.
            secure: Begins TLS on a new connection; None: there is none.
            reuse_port: Share the port with other processes (SO_REUSEPORT); the system spreads
                connections over them.

        Raises:
            OSError: The port cannot be had; its text names the address.
        """
        await self._runner.setup()
        host, port = host_and_port(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if reuse_port and not hasattr(socket, "SO_REUSEPORT"):
            raise OSError("this system cannot share a port among processes; leave reuse_port off")
        listening = socket.create_server(
            (host, port), family=family, backlog=BACKLOG, reuse_port=reuse_port
        )
        self.url = f"{'https' if secure else 'http'}://{authority(*listening.getsockname()[:2])}"
        loop = asyncio.get_running_loop()
        if secure is not None:
            listening.settimeout(0)
            self._accepting = loop.create_task(_accept(listening, secure))
        elif self._runner.server is not None:
            self._listening = await loop.create_server(
                self._runner.server, sock=listening, backlog=BACKLOG
            )

    async def stop_listening(self) -> None:
        """Take no further connection; those that are open stay."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
            self._accepting = None

    async def close(self) -> None:
        """Take nothing and leave nothing open."""
        await self.stop_listening()
        await self._runner.cleanup()


async def _accept(listening: socket.socket, secure: Callable[[socket.socket], None]) -> None:
    """Hand over each new connection, from its first moment."""
    loop = asyncio.get_running_loop()
    with contextlib.closing(listening):
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(AGAIN_S)
            else:
                secure(accepted)
