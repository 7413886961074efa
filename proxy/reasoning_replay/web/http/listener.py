"""Listener: one listening port of the process, with its server."""

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
        url: URL of the port; "" until it is open.
    """

    def __init__(self, runner: web.ServerRunner | web.AppRunner) -> None:
        """Wrap the runner of a server; `close` cleans it up."""
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
        Open the port.

        Args:
            address: Host and port, as in the settings; port 0 picks a free one.
            tls: TLS context; None serves plain HTTP.
            handshake_s: Longest TLS handshake; at most a minute applies.
            reuse_port: Whether to share the port with other processes (SO_REUSEPORT); the system
                spreads connections over them.

        Raises:
            OSError: The port cannot be opened or shared; the text names the cause.
        """
        if reuse_port and not hasattr(socket, "SO_REUSEPORT"):
            raise OSError("this system cannot share a port between processes; turn reuse_port off")
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
        """Accept no new connections; open ones stay open."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    async def close(self) -> None:
        """Stop listening, and close every connection."""
        self.stop_listening()
        await self._runner.cleanup()
