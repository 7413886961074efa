"""A new connection until its TLS stands: counted and timed as any other, from its first moment."""

import asyncio
import contextlib
import ssl
from typing import Protocol, cast

__all__ = ["Greeting", "Host"]


class Host(Protocol):
    """Who lets connections in."""

    def greets(self, greeting: "Greeting") -> float:
        """Count a connection; return how long its handshake may take, 0 if there shall be none."""

    def greeted(self, greeting: "Greeting") -> None:
        """Count it no more, as its handshake is over."""

    def turn_away(self, transport: asyncio.Transport) -> None:
        """Tell a client that there is no place for it."""

    def __call__(self) -> asyncio.Protocol:
        """Return what talks to a client that has come in."""


class Greeting(asyncio.Protocol):
    """
    A connection on which TLS begins.

    Attributes:
        has_place: Whether there is one for it; else it only learns that there is none.
    """

    def __init__(self, host: Host, context: ssl.SSLContext) -> None:
        """Wait for the connection."""
        self.has_place = False
        self._host = host
        self._context = context
        self._early: list[bytes] = []  # came in one piece with the end of the handshake
        self._is_lost = False
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, if there shall be one."""
        # uvloop's are no subclass of it
        both_ways = self._transport = cast("asyncio.Transport", transport)
        limit_s = self._host.greets(self)
        if not limit_s:
            both_ways.abort()
            return
        both_ways.pause_reading()  # what comes is the handshake's
        self._task = asyncio.create_task(self._shake_hands(both_ways, limit_s))

    def data_received(self, data: bytes) -> None:
        """Keep what comes for who is next."""
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        """Hand nothing over any more."""
        self._is_lost = True

    async def end(self) -> None:
        """End it now."""
        if self._task is not None and self._transport is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._transport.abort()  # should it not have begun

    async def _shake_hands(self, transport: asyncio.Transport, limit_s: float) -> None:
        secured: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        try:
            # A client that speaks something else, is too slow or leaves is closed without a word.
            with contextlib.suppress(OSError):
                secured = await loop.start_tls(
                    transport, self, self._context, server_side=True, ssl_handshake_timeout=limit_s
                )
        finally:
            self._host.greeted(self)
            if secured is None:
                transport.abort()
        if secured is not None and not self._is_lost:
            self._hand_over(secured)

    def _hand_over(self, secured: asyncio.Transport) -> None:
        if not self.has_place:
            self._host.turn_away(secured)
            return
        handler = self._host()
        secured.set_protocol(handler)
        handler.connection_made(secured)
        for data in self._early:
            if secured.get_protocol() is handler:
                handler.data_received(data)
