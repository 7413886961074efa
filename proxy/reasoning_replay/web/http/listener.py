"""
Listener: one listening port of the process, with its server.

aiohttp's `Server` header tells the versions of Python and aiohttp, also in its answers to malformed
requests, and it has no setting for that. So the module constant `SERVER_SOFTWARE` is replaced.
"""

import asyncio
import errno
import socket
import ssl

from aiohttp import web, web_response

from reasoning_replay.adapters.runtime.tcp import keep_alive, keep_little_unsent
from reasoning_replay.settings.urls import authority, host_and_port

BACKLOG = 1024
HANDSHAKE_MAX_S = 60.0
SERVER_NAME = "reasoning-replay"


class Listener:
    """
    One listening port.

    Attributes:
        url: URL of the port; "" until it is open.
    """

    def __init__(self, runner: web.ServerRunner | web.AppRunner, setting: str) -> None:
        """Wrap the runner of a server; errors name the setting of its address."""
        self._runner = runner
        self._setting = setting
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
            tls: None serves plain HTTP.
            handshake_s: Longest TLS handshake; at most a minute applies.
            reuse_port: Whether to share the port with other processes (SO_REUSEPORT); the system
                spreads connections over them.

        Raises:
            OSError: The port cannot be opened or shared; the text names the setting, the cause
                and the way out.
        """
        if reuse_port and not hasattr(socket, "SO_REUSEPORT"):
            raise OSError("this system cannot share a port between processes; turn reuse_port off")
        web_response.SERVER_SOFTWARE = SERVER_NAME  # type: ignore[attr-defined]
        await self._runner.setup()
        host, port = host_and_port(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server(
                (host, port), family=family, backlog=BACKLOG, reuse_port=reuse_port
            )
        except OSError as error:
            reason = why_refused(error, address)
            raise OSError(f"{self._setting} {address}: {reason}") from error
        keep_little_unsent(listening)
        keep_alive(listening)
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


def why_refused(error: OSError, address: str) -> str:
    """Return why a process cannot listen on an address, with a way out."""
    if isinstance(error, socket.gaierror):
        return "its host is not a name or address of this machine; use 127.0.0.1 or 0.0.0.0"
    if error.errno == errno.EADDRINUSE:
        _, port = host_and_port(address)
        return (
            f"another program uses this port, and `lsof -i :{port}` shows which; stop it, or "
            "choose another port"
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        return "this user may not use this port; choose one above 1023"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; use 127.0.0.1, or 0.0.0.0 for every interface"
    return f"cannot listen there: {error.strerror}"
