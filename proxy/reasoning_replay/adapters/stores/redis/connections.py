"""
Redis connections: either logged in or closed.

Only this module and `cluster` use redis-py's private interface.

redis-py treats a connection as ready as soon as its socket is open, and closes it when the login
fails with one of redis-py's own errors. But the guard cancels an operation that takes too long. A
connection with a cancelled login would stay open and be used as it is: as the wrong user, in the
wrong database.

`tests/adapters/stores/redis/test_private_api.py` names each private attribute that is used.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from ssl import SSLContext
from typing import Any

from hiredis import pack_command
from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    Redis,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.connection import AbstractConnection, RedisSSLContext
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import (
    MasterNotFoundError,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.redis.executor import ask

_TLS_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, for 0 s: unsent data is dropped


class _LoggedIn(AbstractConnection):
    """A connection that is either logged in or closed."""

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[bytes]:
        """Pack commands with hiredis, which is seven times as fast as redis-py's own code."""
        return [pack_command(tuple(command)) for command in commands]

    async def connect_check_health(
        self,
        check_health: bool = True,  # noqa: FBT001, FBT002 - redis-py's
        retry_socket_connect: bool = True,  # noqa: FBT001, FBT002 - redis-py's
    ) -> None:
        """Connect and log in if needed; close the connection if that fails or is cancelled."""
        try:
            await super().connect_check_health(check_health, retry_socket_connect)
        except BaseException:
            await self.disconnect(nowait=True)
            raise

    async def disconnect(
        self,
        nowait: bool = False,  # noqa: FBT001, FBT002 - redis-py's
        *args: Any,  # noqa: ANN401
        **kwargs: Any,  # noqa: ANN401
    ) -> None:
        """
        Disconnect; with `nowait`, in the middle of an operation, also drop unsent data.

        That operation has failed for its caller. If the network delivered a save late, it would
        create again a conversation that was deleted in the meantime.
        """
        if nowait and self._writer is not None:
            transport = self._writer.transport
            if (sock := transport.get_extra_info("socket")) is not None:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            transport.abort()
        await super().disconnect(nowait, *args, **kwargs)


class Tcp(_LoggedIn, Connection):
    """A connection without TLS, whose host name never takes a thread that others need."""

    def __init__(self, *, resolver: Resolver, **kwargs: Any) -> None:  # noqa: ANN401 - redis-py's
        super().__init__(**kwargs)
        self._resolver = resolver
        self._address = ""

    async def _connect(self) -> None:
        """Connect to the first address of the host that accepts, all within the timeout of one."""
        async with asyncio.timeout(self.socket_connect_timeout):
            addresses = await self._resolver.addresses(self.host)
            for self._address in addresses:
                try:
                    await super()._connect()  # type: ignore[no-untyped-call]
                except OSError:
                    if self._address == addresses[-1]:
                        raise
                else:
                    return

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "host": self._address}


class Unix(_LoggedIn, UnixDomainSocketConnection):
    """A connection over a Unix socket."""


class SentinelTcp(Tcp, SentinelManagedConnection):
    """A connection to the master that Sentinels name."""


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
    """A connection over TLS that uses the shared context."""

    def __init__(self, *, tls_context: TlsContext, **kwargs: Any) -> None:  # noqa: ANN401 - redis-py's
        super().__init__(**kwargs)
        self._tls_context = tls_context

    def _connection_arguments(self) -> Mapping[str, Any]:
        self.ssl_context.context = self._tls_context.current(self.ssl_context)
        return {**super()._connection_arguments(), "server_hostname": self.host}


class SentinelTls(Tls, SentinelManagedSSLConnection):
    """A connection over TLS to the master that Sentinels name."""


class SentinelPool(SentinelConnectionPool, BlockingConnectionPool):
    """Pool of connections to the master; operations wait for a free one."""


class Sentinels:
    """All Sentinels, queried in parallel, so that one that hangs delays nothing."""

    def __init__(self, clients: "list[Redis]") -> None:
        self._clients = clients

    async def discover_master(self, service: str) -> tuple[str, int]:
        """Return host and port of the master, from the first Sentinel that names one."""
        asked = [
            asyncio.ensure_future(ask(client, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", service))
            for client in self._clients
        ]
        try:
            for answer in asyncio.as_completed(asked):
                try:
                    found = await answer
                except (RedisError, OSError):
                    continue
                if found:
                    host, port = found
                    return host.decode(), int(port)
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        raise MasterNotFoundError("no Sentinel names a master")


def cluster_client(hosts: Sequence[tuple[str, int]], settings: Mapping[str, Any]) -> RedisCluster:
    """
    Return a Cluster client that never retries; it connects on first use.

    Args:
        hosts: Some of the Cluster's nodes.
        settings: Settings of connections, including `connection_class` and `max_connections`.
    """
    cluster = RedisCluster(
        startup_nodes=[ClusterNode(*host) for host in hosts],
        require_full_coverage=False,
        reinitialize_steps=0,
        retry=Retry(NoBackoff(), 0),
        protocol=settings["protocol"],
        maint_notifications_config=settings["maint_notifications_config"],
    )
    # RedisCluster has no argument for a connection class, but creates all nodes with these.
    cluster.connection_kwargs.update(settings)
    nodes = [ClusterNode(*host, **cluster.connection_kwargs) for host in hosts]
    cluster.nodes_manager.startup_nodes = {node.name: node for node in nodes}
    return cluster
