"""Clients' side of the sockets: aiohttp's server, less its own words and logs, and bounded."""

import asyncio
import contextlib
import functools
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from reasoning_replay.adapters.runtime.tcp import buffered_bytes
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.upstream.response import READ_BUFFER_BYTES
from reasoning_replay.web.errors import as_bytes
from reasoning_replay.web.http.client_connection import ClientConnection, ConnectionLimits, Gate
from reasoning_replay.web.limit_errors import too_many_connections
from reasoning_replay.web.pipeline.handler import ProxyHandler

__all__ = ["Handler", "Server", "silent"]

# How often within client_timeout_s it is looked who has stalled, and how seldom at the least.
LOOKS = 4
LOOK_MAX_S = 15.0
# A connection that is turned away is held until its client has read why: so long, so many of them.
AWAY_S = 1.0
AWAY_MAX = 64
# However long a connection may be idle, a handshake takes no longer.
HANDSHAKE_MAX_S = 60.0
# There is room again once so much of the limit is free: not a line of log for each that comes.
FREE_SHARE = 0.1

# aiohttp quotes what it cannot read in its log, and that may be somebody's key.
silent = logging.getLogger("reasoning_replay.silent")
silent.addHandler(logging.NullHandler())
silent.propagate = False
silent.disabled = True


# Takes one request, and answers it.
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Server(web.Server):
    """Accepts clients' connections for one `ProxyHandler`."""

    def __init__(
        self, forward: ProxyHandler, handle: Handler, limits: ConnectionLimits, log: Log
    ) -> None:
        """
        Accept nothing yet; needs a running loop.

        Args:
            forward: Told of whom there is no room for.
            handle: Gets every request.
            limits: On each connection, and on all of them.
            log: Told when there is no room, and when there is again.
        """
        self.forward = forward
        self._limits = limits
        self._log = log
        self._full = too_many_connections(limits.max_connections)
        self._gate = Gate(self._admits, forward.refuse)
        self._open = 0
        self._away = 0
        self._turned_away = 0  # since there was room last
        self._sweeping: asyncio.TimerHandle | None = None
        self._handshakes: set[asyncio.Task[None]] = set()
        super().__init__(
            handle,
            handler_cancellation=True,  # a client that leaves cancels its exchange at once
            auto_decompress=False,
            access_log=None,
            logger=silent,
            read_bufsize=READ_BUFFER_BYTES,
        )

    def __call__(self) -> RequestHandler:
        """Return what talks to one new connection."""
        return self._connection(self._gate)

    def _connection(self, gate: Gate) -> ClientConnection:
        return ClientConnection(self, self._limits, gate, loop=self._loop, **self._kwargs)

    def securing(self, context: ssl.SSLContext) -> Callable[[socket.socket], None]:
        """Return what begins TLS on a new connection."""
        return functools.partial(self._secure, context)

    def close_idle(self) -> None:
        """Close the connections that clients keep for a next request."""
        for handler in self.connections:
            if isinstance(handler, ClientConnection) and handler.is_between_requests:
                handler.force_close()

    @property
    def unsent(self) -> int:
        """On how many connections something written waits for its client to take it."""
        return sum(buffered_bytes(transport) > 0 for transport in self._connections.values())

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count a connection."""
        super().connection_made(handler, transport)
        self._open += 1
        if self._sweeping is None:
            self._sweep_later()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """Count it no more."""
        if handler in self._connections:
            self._give_place()
        super().connection_lost(handler, exc)

    async def shutdown(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (aiohttp's)
        """End what is open, handshakes too."""
        for handshake in self._handshakes:
            handshake.cancel()
        await asyncio.gather(*self._handshakes, return_exceptions=True)
        await super().shutdown(timeout)

    # --- TLS ---

    def _secure(self, context: ssl.SSLContext, accepted: socket.socket) -> None:
        """Count a connection from here on, and begin TLS on it."""
        has_place = self._has_place()
        if has_place:
            self._open += 1
        elif self._away < AWAY_MAX:
            self._away += 1
        else:  # nobody could be told why
            accepted.close()
            return
        handshake = self._loop.create_task(self._shake_hands(context, accepted, has_place))
        self._handshakes.add(handshake)
        handshake.add_done_callback(self._handshakes.discard)

    async def _shake_hands(
        self,
        context: ssl.SSLContext,
        accepted: socket.socket,
        has_place: bool,  # noqa: FBT001 (else its client shall only read that there is none)
    ) -> None:
        is_over = False

        def over() -> None:
            nonlocal is_over
            if not is_over and has_place:
                self._give_place()
            elif not is_over:
                self._away -= 1
            is_over = True

        def admits(transport: asyncio.Transport) -> bool:
            over()  # from here on it counts as all do
            if not has_place:
                self._turn_away(transport)
            return has_place

        most_s = min(self._limits.idle_timeout_s, HANDSHAKE_MAX_S) if has_place else AWAY_S
        try:
            # A client that speaks something else, is too slow or leaves is closed without a word.
            with contextlib.suppress(OSError):
                await self._loop.connect_accepted_socket(
                    lambda: self._connection(Gate(admits, self.forward.refuse)),
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=most_s,
                )
        finally:
            over()

    # --- who may not come in ---

    def _admits(self, transport: asyncio.Transport) -> bool:
        if self._has_place():
            return True
        self._turn_away(transport)
        return False

    def _turn_away(self, transport: asyncio.Transport) -> None:
        """Close a connection for which there is no place, once its client has read why."""
        transport.write(as_bytes(self._full))
        if self._away < AWAY_MAX:
            self._away += 1
            transport.set_protocol(_Away(self, transport))
        else:
            transport.close()

    def _has_place(self) -> bool:
        if self._open < self._limits.max_connections:
            return True
        if not self._turned_away:
            self._log.warning("connections_full", max_connections=self._limits.max_connections)
        self._turned_away += 1
        self.forward.count_refusal(self._full)
        return False

    def _give_place(self) -> None:
        self._open -= 1
        if self._turned_away and self._open <= self._limits.max_connections * (1 - FREE_SHARE):
            self._log.info("connections_free", turned_away=self._turned_away)
            self._turned_away = 0

    def went_away(self) -> None:
        """Count one less that is turned away."""
        self._away -= 1

    # --- who has stalled ---

    def _sweep_later(self) -> None:
        later_s = min(self._limits.client_timeout_s / LOOKS, LOOK_MAX_S)
        self._sweeping = self._loop.call_later(later_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        now_s = self._loop.time()
        for handler, transport in list(self._connections.items()):
            if isinstance(handler, ClientConnection):
                handler.look(transport, now_s)
        if self._connections:
            self._sweep_later()


class _Away(asyncio.Protocol):
    """A connection that is turned away: closed at once, its client might never read why."""

    def __init__(self, server: Server, transport: asyncio.Transport) -> None:
        self._server = server
        self._timer = asyncio.get_running_loop().call_later(AWAY_S, transport.abort)
        if transport.can_write_eof():
            transport.write_eof()
        else:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        self._timer.cancel()
        self._server.went_away()
