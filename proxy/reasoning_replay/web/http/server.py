"""Server: aiohttp's server with a connection limit and a timeout for clients that do not read."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from reasoning_replay.adapters.runtime.frames import clear_frames
from reasoning_replay.adapters.runtime.tcp import (
    LOOK_S,
    WriteProgress,
    buffered_bytes,
    is_gone,
    is_reset,
)
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.upstream.client import READ_BUFFER_BYTES
from reasoning_replay.web.errors import (
    TOO_MANY_CONNECTIONS,
    ProxyError,
    as_bytes,
    as_response,
    readable,
)
from reasoning_replay.web.exchange_log import ExchangeLog
from reasoning_replay.web.http.client_connection import ClientConnection, ConnectionLimits

# Each connection is checked for progress this often per client_timeout_s, and at least per LOOK_S.
CHECKS = 4
# After the limit was reached, free connections are logged once, when this share of it is free.
FREE_SHARE = 0.1

# aiohttp's log quotes input that it cannot parse, which may contain a key. This logger writes
# nothing. It is not registered, so importing this module has no side effect.
silent = logging.Logger("reasoning_replay.silent", logging.CRITICAL + 1)  # noqa: LOG001 (as above)

# Handles one request and returns its response.
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Server(web.Server):
    """Server of client connections."""

    def __init__(
        self, exchange_log: ExchangeLog, handle: Handler, limits: ConnectionLimits, log: Log
    ) -> None:
        """Accept no connection yet; needs a running event loop."""
        super().__init__(self._handle, handler_cancellation=True)  # a disconnect cancels
        self._exchange_log = exchange_log
        self._answer = handle
        self._limits = limits
        self._log = log
        self._full = TOO_MANY_CONNECTIONS.filled(most=limits.max_connections)
        self._open: dict[web.RequestHandler, WriteProgress] = {}
        self._turned_away = 0  # since the limit was reached
        self._checking: asyncio.TimerHandle | None = None

    def __call__(self) -> web.RequestHandler:
        """Return the protocol of a new connection."""
        return ClientConnection(
            self,
            self._limits,
            self._exchange_log.refuse,
            auto_decompress=False,
            access_log=None,
            logger=silent,
            read_bufsize=READ_BUFFER_BYTES,
        )

    def close_idle(self) -> None:
        """Close idle keep-alive connections."""
        for connection in list(self._open):
            if isinstance(connection, ClientConnection) and connection.is_between_requests:
                connection.force_close()

    @property
    def unsent(self) -> int:
        """Number of connections with a non-empty write buffer."""
        return sum(buffered_bytes(progress.transport) > 0 for progress in self._open.values())

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """Accept a connection, or reject it if the limit is reached."""
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
        """Free the slot of a closed connection."""
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
            return as_response(readable(error.fault, request))
        except BaseException as error:
            clear_frames(error)  # aiohttp's task keeps it
            raise
        finally:
            connection.end_exchange()

    def _turn_away(self, transport: asyncio.Transport) -> None:
        if not self._turned_away:
            self._log.warning("connections_full", max_connections=self._limits.max_connections)
        self._turned_away += 1
        self._exchange_log.count_refusal(self._full)
        transport.write(as_bytes(self._full))

    def _check_later(self) -> None:
        later_s = min(self._limits.client_timeout_s / CHECKS, LOOK_S)
        self._checking = asyncio.get_running_loop().call_later(later_s, self._check_progress)

    def _check_progress(self) -> None:
        """
        Cut off clients that are gone, or read nothing of a response.

        A drain would wait for them forever, and a client that is gone still costs its response.
        """
        self._checking = None
        now_s = asyncio.get_running_loop().time()
        for connection, progress in list(self._open.items()):
            has_stalled = progress.stalled_s(now_s) >= self._limits.client_timeout_s
            # A WebSocket has another protocol, and its relay detects both itself.
            transport = progress.transport
            if not isinstance(connection, ClientConnection) or (
                transport.get_protocol() is not connection
            ):
                continue
            if has_stalled:
                connection.has_stalled = True
                transport.abort()
            elif connection.is_in_exchange and (
                is_gone(transport) or (connection.is_half_closed and is_reset(transport))
            ):
                transport.abort()
        if self._open:
            self._check_later()
