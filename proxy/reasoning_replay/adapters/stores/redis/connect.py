"""
Redis clients for each kind of address: standalone, Unix socket, Sentinel or Cluster.

redis-py's defaults wait longer and send more than a proxy may, so this module sets each of them: no
retries but those of `SingleServer`, no health checks, no maintenance notifications (which log, and
lengthen timeouts), no CLIENT SETINFO, no timeouts: the caller sets that of an operation, and the
pool that of connecting. redis-py's own would be a timer for each reply.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError
from redis.maint_notifications import MaintNotificationsConfig

from reasoning_replay.adapters.runtime.blocking import BlockingCalls
from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.redis.address import RedisAddress
from reasoning_replay.adapters.stores.redis.cluster import ClusterExecutor
from reasoning_replay.adapters.stores.redis.connections import (
    PooledConnection,
    Tcp,
    Tls,
    TlsContext,
    Unix,
    tcp_options,
)
from reasoning_replay.adapters.stores.redis.errors import FAILURES
from reasoning_replay.adapters.stores.redis.executor import RedisExecutor, SingleServer
from reasoning_replay.adapters.stores.redis.pool import Pool

# Connecting has this part of the timeout of an operation, so that its error, which names the
# address, is there before the operation is cancelled.
CONNECTING_PART = 0.9


class Credentials(CredentialProvider):
    """
    User and password for a Redis.

    A password file replaces the password; it is read for each new connection.
    """

    def __init__(self, username: str = "", password: str = "", password_file: str = "") -> None:
        self._username = username
        self._password = password
        self._file = password_file
        self._calls = BlockingCalls()

    def __bool__(self) -> bool:
        """Return whether a user, a password or a password file is set."""
        return bool(self._username or self._password or self._file)

    def or_else(self, username: str, password: str) -> "Credentials":
        """Return a copy in which these replace a missing user and a missing password."""
        secret = self._password or ("" if self._file else password)
        return Credentials(self._username or username, secret, self._file)

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """
        Return user and password, or the password alone, in the form that redis-py requires.

        Raises:
            AuthenticationError: The password file cannot be read.
        """
        password = self._password
        if self._file:
            try:
                password = Path(self._file).read_text("utf-8").rstrip("\r\n")
            except (OSError, ValueError):
                raise AuthenticationError("the password file cannot be read") from None
        return (self._username, password) if self._username else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """Call `get_credentials`; a file on a disk that hangs blocks nothing else."""
        if not self._file:
            return self.get_credentials()
        return await self._calls.run(self._file, self.get_credentials)


def connect(
    url: RedisAddress, credentials: Credentials, timeout_s: float, max_connections: int
) -> RedisExecutor:
    """
    Return the executor for a Redis; it connects on first use.

    Args:
        url: Address of any kind of Redis.
        credentials: They take precedence over those in the address.
        timeout_s: Timeout of an operation; connecting has a part of it.
        max_connections: Limit per server in this process; further operations wait.
    """
    tcp = Tls if url.tls else Tcp
    options = _of_tcp(url)

    def pooled(
        make: Callable[[], Awaitable[PooledConnection]], *others: SingleServer
    ) -> SingleServer:
        return SingleServer(Pool(make, max_connections, CONNECTING_PART * timeout_s), *others)

    def server(settings: dict[str, Any], host: str, port: int) -> SingleServer:
        async def make() -> PooledConnection:
            return tcp(host=host, port=port, **options, **settings)

        return pooled(make)

    given = credentials.or_else(url.username, url.password)
    settings = _settings(int(url.options.get("protocol", 2)), given)
    settings |= {"client_name": url.options.get("client_name"), "db": url.database}
    match url.kind:
        case "cluster":
            return ClusterExecutor(url.hosts, partial(server, settings), timeout_s)
        case "sentinel":
            names = ("sentinel_username", "sentinel_password")
            who = Credentials(*(url.options.get(name, "") for name in names))
            sentinels = [server(_settings(2, who), *host) for host in url.hosts]

            async def to_master() -> PooledConnection:
                host, port = await _master_of(sentinels, url.service)
                return tcp(host=host, port=port, **options, **settings)

            return pooled(to_master, *sentinels)
        case "unix":

            async def to_socket() -> PooledConnection:
                return Unix(path=url.path, **settings)

            return pooled(to_socket)
        case _:
            return server(settings, *url.hosts[0])


def _settings(protocol: int, credentials: Credentials) -> dict[str, Any]:
    """Return the settings of connections of any kind."""
    return {
        "protocol": protocol,
        "credential_provider": credentials or None,
        "socket_timeout": None,
        "socket_connect_timeout": None,
        "retry": Retry(NoBackoff(), 0),
        "health_check_interval": 0,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        "driver_info": None,
    }


def _of_tcp(url: RedisAddress) -> dict[str, Any]:
    """Return the settings of connections over TCP, with or without TLS."""
    tls: dict[str, Any] = {n: value for n, value in url.options.items() if n.startswith("ssl_")}
    if "ssl_check_hostname" in tls:
        tls |= {"ssl_check_hostname": tls["ssl_check_hostname"] == "true"}
    if url.tls:
        tls |= {"tls_context": TlsContext(tls)}
    return tls | tcp_options() | {"resolver": Resolver()}


async def _master_of(sentinels: Sequence[SingleServer], service: str) -> tuple[str, int]:
    """
    Return host and port of the master, from the first Sentinel that names one.

    All are asked at the same time, so one that hangs delays nothing.

    Raises:
        MasterNotFoundError: None of them names one.
    """
    asked = [
        asyncio.ensure_future(one.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service))
        for one in sentinels
    ]
    try:
        for answer in asyncio.as_completed(asked):
            try:
                found = await answer
            except FAILURES:
                continue
            if found:
                host, port = found
                return host.decode(), int(port)
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
    raise MasterNotFoundError("no Sentinel names a master")
