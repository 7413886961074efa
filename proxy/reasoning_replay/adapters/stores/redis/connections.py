"""
Redis connections: opened once, logged in, and closed at once when anything fails.

Only this module uses redis-py's private interface.

redis-py keeps a connection object after it was closed, and opens it again; closing may wait, fail
or be cancelled. Here a connection is opened by its pool and used until its first failure. Closing
it is one synchronous step that cannot fail, so no connection stays half closed, half logged in, or
with an unread reply.

`tests/adapters/stores/redis/test_private_api.py` names each private attribute that is used.
"""

import contextlib
import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from ssl import SSLContext
from typing import Any

from hiredis import pack_command
from redis.asyncio import Connection, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.connection import AbstractConnection, RedisSSLContext
from typing_extensions import override

from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.runtime.tcp import keep_alive_options

_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for 0 s: unsent data is dropped
# A peer that acknowledges nothing for this time is gone, where the system has this option.
UNACKNOWLEDGED_MS = 60_000


class PooledConnection(AbstractConnection):
    """
    A connection that a pool opens.

    Attributes:
        opened_at: When its pool began to open it, by the pool's clock.
        used_at: When it returned to its pool.
    """

    opened_at = 0.0
    used_at = 0.0

    @property
    def place(self) -> str:
        """Address of its server: host and port, or a path."""
        return self._host_error()

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it, as far as is known."""
        reader, writer = self._reader, self._writer
        return not (
            reader is None
            or writer is None
            or writer.transport.is_closing()
            or reader.exception() is not None
            or reader.at_eof()
        )

    @property
    def has_unread(self) -> bool:
        """Whether there is a reply, or a part of one, that no command asked for."""
        reader: Any = self._reader
        parser: Any = self._parser
        return reader is not None and bool(reader._buffer or parser._reader.has_data())  # noqa: SLF001

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[bytes]:
        """Pack commands with hiredis, which is seven times as fast as redis-py's own code."""
        return [pack_command(tuple(command)) for command in commands]

    def end(self) -> None:
        """
        Close at once, and drop unsent data.

        An operation that is cut off has failed for its caller. If the network delivered a save
        late, it would create again a conversation that was deleted in the meantime.
        """
        writer, self._writer, self._reader = self._writer, None, None
        self._parser.on_disconnect()  # type: ignore[no-untyped-call]
        if writer is None:
            return
        # One that the peer has reset may have no socket any more: uvloop raises ValueError.
        with contextlib.suppress(Exception):
            linger = writer.transport.get_extra_info("socket")
            linger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        with contextlib.suppress(Exception):
            writer.transport.abort()

    async def disconnect(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - redis-py's
        """Close at once; redis-py calls this after each failure."""
        self.end()
        await super().disconnect(*args, **kwargs)


class Tcp(PooledConnection, Connection):
    """A connection without TLS, whose host name never takes a thread that others need."""

    def __init__(self, *, resolver: Resolver, **kwargs: Any) -> None:  # noqa: ANN401 - redis-py's
        super().__init__(**kwargs)
        self._resolver = resolver
        self._address = ""

    async def _connect(self) -> None:
        """Connect to the first address of the host that accepts; the pool has the timeout."""
        addresses = await self._resolver.addresses(self.host)
        for self._address in addresses:
            try:
                await super()._connect()  # type: ignore[no-untyped-call]
                await self._secure()
            except OSError:
                self.end()
                if self._address == addresses[-1]:
                    raise
            else:
                return

    async def _secure(self) -> None:
        """Begin TLS: not here."""

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {"host": self._address, "port": self.port}


class Unix(PooledConnection, UnixDomainSocketConnection):
    """A connection over a Unix socket."""


class TlsContext:
    """
    SSL context that connections share, because creating one blocks the event loop for 50 ms.

    It is created again after one of its files has changed, as certificates do every few weeks.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        """Create the context now, before requests are served."""
        self._files = [Path(value) for name, value in options.items() if name in _TLS_FILES]
        self._made = SSLConnection(**options).ssl_context.get()
        self._stamp = self._changed_at()

    def current(self, fresh: RedisSSLContext) -> SSLContext:
        """Return the context; create it again with `fresh` if a file has changed."""
        stamp = self._changed_at()
        if stamp != self._stamp:
            fresh.context = None
            self._made, self._stamp = fresh.get(), stamp
        return self._made

    def _changed_at(self) -> list[int]:
        return [file.stat().st_mtime_ns for file in self._files]


class Tls(Tcp, SSLConnection):
    """
    A connection over TLS that uses the shared context.

    TLS begins once `end` can close the connection. Where asyncio opens both, and is cancelled as
    the handshake ends, it waits for the server's side of the end of TLS, perhaps for 30 s.
    """

    def __init__(self, *, tls_context: TlsContext, **kwargs: Any) -> None:  # noqa: ANN401 - redis-py's
        super().__init__(**kwargs)
        self._tls_context = tls_context

    @override
    async def _secure(self) -> None:
        writer: Any = self._writer
        context = self._tls_context.current(self.ssl_context)
        await writer.start_tls(context, server_hostname=self.host)


def tcp_options() -> dict[str, Any]:
    """Return the arguments of a connection over TCP that detect a peer that is gone."""
    options = keep_alive_options()
    if (unacknowledged := getattr(socket, "TCP_USER_TIMEOUT", None)) is not None:
        options[unacknowledged] = UNACKNOWLEDGED_MS
    return {"socket_keepalive": True, "socket_keepalive_options": options}
