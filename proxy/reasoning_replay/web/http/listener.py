"""A listening port with what answers on it."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from aiohttp import web

from reasoning_replay.settings.urls import authority, host_and_port

__all__ = ["Listener", "reserved"]

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
        is_shared: bool = False,
    ) -> None:
        """
        Listen.

        Args:
            address: As in the settings; port 0 takes a free one.
            secure: Begins TLS on a new connection; None: there is none.
            is_shared: With other processes of ours, among which connections are spread.

        Raises:
            OSError: The port cannot be had; its text names the address.
        """
        await self._runner.setup()
        host, port = host_and_port(address)
        listening = socket.create_server(
            (host, port), family=_family(host), backlog=BACKLOG, reuse_port=is_shared
        )
        self.url = f"{'https' if secure else 'http'}://{_written(listening)}"
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


def reserved(address: str) -> tuple[socket.socket, str]:
    """
    Hold a port for processes that share it, without listening: they get it even if it was 0.

    Returns:
        What holds it, and its address with the port that it got.

    Raises:
        OSError: The port cannot be had; its text names the address.
    """
    host, port = host_and_port(address)
    if not hasattr(socket, "SO_REUSEPORT"):
        raise OSError("this system cannot share a port among processes; use --workers 1")
    holding = socket.socket(_family(host), socket.SOCK_STREAM)
    try:
        # Whoever shares a port shares it with all who ask, with another proxy of this user, too.
        if port:
            socket.create_server((host, port), family=_family(host), backlog=1).close()
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holding.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if holding.family == socket.AF_INET6:
            holding.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        holding.bind((host, port))
    except OSError as error:
        holding.close()
        raise OSError(error.errno, f"{error.strerror} (while binding {address})") from None
    return holding, _written(holding)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _written(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return authority(host, port)
