"""
Redis clients for each kind of address: standalone, Unix socket, Sentinel or Cluster.

redis-py's defaults wait longer and send more than a proxy may, so this module sets each of them:
one immediate retry on a stale connection and no other, no health checks, no maintenance
notifications (which log, and lengthen timeouts), no CLIENT SETINFO. The caller sets the timeout of
an operation; redis-py's own would be a timer for each reply. Only a Cluster client has them,
because it must continue with the next node when one hangs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.exceptions import AuthenticationError, ConnectionError  # noqa: A004 - redis-py's
from redis.maint_notifications import MaintNotificationsConfig

from reasoning_replay.adapters.runtime.blocking import BlockingCalls
from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.redis.cluster import ClusterExecutor
from reasoning_replay.adapters.stores.redis.connections import (
    SentinelPool,
    Sentinels,
    SentinelTcp,
    SentinelTls,
    Tcp,
    Tls,
    TlsContext,
    Unix,
    cluster_client,
)
from reasoning_replay.adapters.stores.redis.executor import RedisExecutor, SingleServer
from reasoning_replay.settings.store_url import StoreUrl


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
    url: StoreUrl, credentials: Credentials, timeout_s: float, max_connections: int
) -> RedisExecutor:
    """
    Return the executor for a Redis; it connects on first use.

    Args:
        url: Address of any kind of Redis.
        credentials: They take precedence over those in the address.
        timeout_s: Timeout of connecting, and of each reply from a Cluster.
        max_connections: Limit per server in this process; further operations wait.
    """
    given = credentials.or_else(url.username, url.password)
    every = _every(url, timeout_s)
    common = every | {"client_name": url.options.get("client_name")}
    common |= {"protocol": int(url.options.get("protocol", 2)), "db": url.database}
    if given:
        common["credential_provider"] = given
    limits: dict[str, Any] = {"max_connections": max_connections, "timeout": None}
    tcp = Tls if url.tls else Tcp
    opens = _opener(common | limits | {"connection_class": tcp})
    match url.kind:
        case "cluster":
            # One more connection to each node, to refresh the slot table.
            settings = common | {"connection_class": tcp, "max_connections": max_connections + 1}
            settings |= {"socket_timeout": timeout_s}
            return ClusterExecutor(cluster_client(url.hosts, settings), max_connections)
        case "sentinel":
            asking = every | limits | {"connection_class": tcp, "protocol": 2}
            name, secret = (url.options.get(f"sentinel_{n}", "") for n in ("username", "password"))
            if who := Credentials(name, secret):
                asking["credential_provider"] = who
            sentinels = [_opener(asking)(*host) for host in url.hosts]
            kind = SentinelTls if url.tls else SentinelTcp
            pool = SentinelPool(  # type: ignore[no-untyped-call]
                url.service, Sentinels(sentinels), connection_class=kind, **common, **limits
            )
            return SingleServer(Redis.from_pool(pool), *sentinels)
        case "unix":
            kind_of: dict[str, Any] = {"connection_class": Unix, "path": url.path}
            alone = BlockingConnectionPool(**common, **limits, **kind_of)
            return SingleServer(Redis.from_pool(alone))
        case _:
            return SingleServer(opens(*url.hosts[0]))


def _every(url: StoreUrl, timeout_s: float) -> dict[str, Any]:
    """Return the settings of every connection."""
    tls: dict[str, Any] = {n: value for n, value in url.options.items() if n.startswith("ssl_")}
    if "ssl_check_hostname" in tls:
        tls |= {"ssl_check_hostname": tls["ssl_check_hostname"] == "true"}
    if url.tls:
        tls |= {"tls_context": TlsContext(tls)}
    if url.kind != "unix":
        tls |= {"resolver": Resolver()}
    return tls | {
        "socket_timeout": None,
        "socket_connect_timeout": timeout_s,
        # The command itself detects a stale connection: one retry costs less than a check before
        # each command. A command that timed out is not retried.
        "retry": Retry(NoBackoff(), 1, (ConnectionError,)),
        "health_check_interval": 0,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
        "driver_info": None,
    }


def _opener(settings: dict[str, Any]) -> "Callable[[str, int], Redis]":
    """Return a function that opens a client of one server; its pool waits during a burst."""

    def opens(host: str, port: int) -> "Redis":
        return Redis.from_pool(BlockingConnectionPool(host=host, port=port, **settings))

    return opens
