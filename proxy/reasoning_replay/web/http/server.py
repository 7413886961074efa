"""Server: aiohttp's, with a limit on connections, and an end for clients that take nothing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import web

from reasoning_replay.adapters.runtime.tcp import WriteProgress, buffered_bytes
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.upstream.client import READ_BUFFER_BYTES
from reasoning_replay.web.errors import (
    ErrorResponse,
    ProxyError,
    as_bytes,
    as_response,
    too_many_connections,
)
from reasoning_replay.web.http.client_connection import ClientConnection, ConnectionLimits

__all__ = ["Handler", "RefusalRecorder", "Server", "silent"]

# How often, within client_timeout_s, each connection is checked for progress, and at least.
CHECKS = 4
CHECK_MAX_S = 15.0
# The end of a full server is logged once so much of the limit is free, and not for each client.
FREE_SHARE = 0.1

# aiohttp quotes in its log what it cannot read, and that may be a key. This logger writes nothing.
# It is not registered: importing this module changes nothing else.
silent = logging.Logger("reasoning_replay.silent", logging.CRITICAL + 1)  # noqa: LOG001 (as above)

# Takes one request and returns its response.
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class RefusalRecorder(Protocol):
    """Recorder of what is refused before it is an exchange."""

    def refuse(self, fault: ErrorResponse) -> None:
        """Record a request that cannot be read."""

    def count_refusal(self, fault: ErrorResponse) -> None:
        """Count a connection over the limit; there may be thousands."""


class Server(web.Server):
    """Server of clients' connections."""

    def __init__(
        self, recorder: RefusalRecorder, handle: Handler, limits: ConnectionLimits, log: Log
    ) -> None:
        """
        Accept nothing yet; needs a running loop.

        Args:
            recorder: Gets what is refused here.
            handle: Gets every request.
            limits: Of each connection, and of all of them.
            log: Gets a line when the limit is reached, and when there is room again.
        """
        super().__init__(self._handle, handler_cancellation=True)  # a client that leaves cancels
        self._recorder = recorder
        self._answer = handle
        self._limits = limits
        self._log = log
        self._full = too_many_connections(limits.max_connections)
        self._open: dict[web.RequestHandler, WriteProgress] = {}
        self._turned_away = 0  # since there was room
        self._checking: asyncio.TimerHandle | None = None

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return ClientConnection(
            self,
            self._limits,
            self._recorder.refuse,
            auto_decompress=False,
            access_log=None,
            logger=silent,
            read_bufsize=READ_BUFFER_BYTES,
        )

    def close_idle(self) -> None:
        """Close the connections that clients keep for a next request."""
        for connection in list(self._open):
            if isinstance(connection, ClientConnection) and connection.is_between_requests:
                connection.force_close()

    @property
    def unsent(self) -> int:
        """How many connections have something in their write buffer."""
        return sum(buffered_bytes(progress.transport) > 0 for progress in self._open.values())

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Take a connection in, or turn it away where there are too many."""
        if len(self._open) >= self._limits.max_connections:
            self._turn_away(transport)
            handler.force_close()
            return
        super().connection_made(handler, transport)
        self._open[handler] = WriteProgress(transport)
        if self._checking is None:
            self._check_later()

    def connection_lost(
        self, handler: web.RequestHandler, exc: BaseException | None = None
    ) -> None:
        """Free its place."""
        super().connection_lost(handler, exc)
        if self._open.pop(handler, None) is None or not self._turned_away:
            return
        if len(self._open) <= self._limits.max_connections * (1 - FREE_SHARE):
            self._log.info("connections_free", turned_away=self._turned_away)
            self._turned_away = 0

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if not isinstance(connection, ClientConnection):
            return await self._answer(request)
        try:
            connection.begin_exchange(request)
            return await self._answer(request)
        except ProxyError as error:
            return as_response(error.fault)
        finally:
            connection.end_exchange()

    def _turn_away(self, transport: asyncio.Transport) -> None:
        if not self._turned_away:
            self._log.warning("connections_full", max_connections=self._limits.max_connections)
        self._turned_away += 1
        self._recorder.count_refusal(self._full)
        transport.write(as_bytes(self._full))

    def _check_later(self) -> None:
        later_s = min(self._limits.client_timeout_s / CHECKS, CHECK_MAX_S)
        self._checking = asyncio.get_running_loop().call_later(later_s, self._check_progress)

    def _check_progress(self) -> None:
        """Cut off the clients that take nothing of a response: a drain would wait without end."""
        self._checking = None
        now_s = asyncio.get_running_loop().time()
        for connection, progress in list(self._open.items()):
            if progress.stalled_s(now_s) < self._limits.client_timeout_s:
                continue
            # A WebSocket has another protocol, and its own rules.
            transport = progress.transport
            if isinstance(connection, ClientConnection) and transport.get_protocol() is connection:
                connection.has_stalled = True
                transport.abort()
        if self._open:
            self._check_later()
