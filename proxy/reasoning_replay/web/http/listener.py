"""Listener: one listening port of the process, with the server that answers on it."""

import asyncio
import socket
import ssl

from aiohttp import web

from reasoning_replay.adapters.runtime.tcp import keep_little_unsent
from reasoning_replay.settings.urls import authority, host_and_port

__all__ = ["Listener"]

BACKLOG = 1024
HANDSHAKE_MAX_S = 60.0


class Listener:
    """
    One listening port.

    Attributes:
        url: Where it listens, once it is open.
    """

    def __init__(self, runner: web.ServerRunner | web.AppRunner) -> None:
        """Keep the runner of the server that answers; `close` ends it."""
        self._runner = runner
        self._listening: asyncio.Server | None = None
        self.url = ""

    async def open(
        self,
        address: str,
        tls: ssl.SSLContext | None = None,
        *,
        handshake_s: float = HANDSHAKE_MAX_S,
        reuse_port: bool = False,
    ) -> None:
        """
        Listen.

        Args:
            address: As in the settings; port 0 takes a free one.
            tls: The certificate to serve TLS with; None serves plain HTTP.
            handshake_s: How long a TLS handshake may take, and no longer than a minute.
            reuse_port: Share the port with other processes (SO_REUSEPORT): the system spreads
                connections over them.

        Raises:
            OSError: The port cannot be opened, or not be shared; the text names which.
        """
        if reuse_port and not hasattr(socket, "SO_REUSEPORT"):
            raise OSError("this system cannot share a port among processes; leave reuse_port off")
        await self._runner.setup()
        host, port = host_and_port(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server(
            (host, port), family=family, backlog=BACKLOG, reuse_port=reuse_port
        )
        keep_little_unsent(listening)
        self.url = f"{'https' if tls else 'http'}://{authority(*listening.getsockname()[:2])}"
        if self._runner.server is not None:
            self._listening = await asyncio.get_running_loop().create_server(
                self._runner.server,
                sock=listening,
                backlog=BACKLOG,
                ssl=tls,
                ssl_handshake_timeout=min(handshake_s, HANDSHAKE_MAX_S) if tls else None,
            )

    def stop_listening(self) -> None:
        """Accept no further connection; open ones stay."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def close(self) -> None:
        """Accept nothing, and close every connection."""
        self.stop_listening()
        await self._runner.cleanup()
