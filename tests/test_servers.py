"""The servers of the tests work as described, and tests can make them fail."""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from tests.certificates import Certificates
from tests.redis_groups import Cluster, Sentinels
from tests.redis_server import RedisServer, redis_server
from tests.slow_line import slow_line

SLOT_OF_FOO = 12_182


async def say(url: str, **options: Any) -> bool:
    """Return whether a client gets a response."""
    async with Redis.from_url(url, socket_timeout=5, **options) as redis:
        with contextlib.suppress(RedisError):
            return bool(await redis.ping())
    return False


@pytest.mark.parametrize("keeps", [False, True])
def test_a_server_comes_back_where_it_was(keeps: bool) -> None:
    """After a kill, a server starts on the same port, with its data if `keeps`."""
    with redis_server(keeps=keeps) as server:
        port = server.port
        server.do("SET", "a", "1")
        server.kill()
        server.start()
        assert server.port == port
        assert server.do("GET", "a") == (b"1" if keeps else None)


async def test_a_server_that_is_paused_hangs_and_goes_on(own_redis: RedisServer) -> None:
    """A command sent during a pause is handled after it."""
    async with Redis.from_url(own_redis.url, socket_timeout=20) as redis:
        await redis.ping()
        own_redis.pause()
        asked = asyncio.ensure_future(redis.ping())
        done, _ = await asyncio.wait([asked], timeout=0.2)
        assert done == set()
        own_redis.resume()
        assert await asked


async def test_settings_are_lines() -> None:
    """Directives can set a password, and users with limited rights."""
    with redis_server("requirepass hunter2", "user reader on >hunter3 ~* +get +ping") as server:
        async with Redis(port=server.port, retry=Retry(NoBackoff(), 0)) as redis:
            with pytest.raises(AuthenticationError):
                await redis.ping()
        async with Redis(port=server.port, username="reader", password="hunter3") as redis:
            assert await redis.get("a") is None
            with pytest.raises(ResponseError, match="no permissions"):
                await redis.set("a", "1")


async def test_tls_asks_for_a_certificate(
    shared_tls_redis: RedisServer, shared_certificates: Certificates
) -> None:
    """A client needs a certificate and must trust the authority."""

    def pem(path: Path) -> str:
        return str(path)

    ca = {"ssl_ca_certs": pem(shared_certificates.ca_pem)}
    client = pem(shared_certificates.client_pem)
    own = {"ssl_certfile": client, "ssl_keyfile": client}
    assert await say(shared_tls_redis.url, **ca, **own)
    assert not await say(shared_tls_redis.url, **ca)
    assert not await say(shared_tls_redis.url, **own)


async def test_a_valkey_answers_as_a_redis_does(shared_valkey: RedisServer) -> None:
    """Valkey uses the same protocol and reports its own version."""
    assert await say(shared_valkey.url)
    assert "valkey_version" in shared_valkey.told("server")


def test_shared_sentinels_are_well(shared_sentinels: Sentinels) -> None:
    """The shared Sentinels have one master and one replica."""
    assert [_role(node) for node in shared_sentinels.nodes] == ["master", "slave"]


def test_a_slot_of_a_cluster_is_moved(shared_cluster: Cluster) -> None:
    """During a move the owner redirects for moved keys; afterwards the target owns the slot."""
    source = shared_cluster.owner(SLOT_OF_FOO)
    to = next(node for node in shared_cluster.masters if node is not source)
    with pytest.raises(ResponseError, match=f"{SLOT_OF_FOO} 127.0.0.1:{source.port}"):
        to.do("GET", "foo")
    source.do("SET", "foo", "1")
    shared_cluster.begin_move(SLOT_OF_FOO, to)
    assert source.do("GET", "foo") == b"1"
    assert shared_cluster.carry(SLOT_OF_FOO) == 1
    with pytest.raises(ResponseError, match=f"{SLOT_OF_FOO} 127.0.0.1:{to.port}"):
        source.do("GET", "foo")
    shared_cluster.end_move(SLOT_OF_FOO)
    assert to.do("GET", "foo") == b"1"


async def test_a_slow_line_delays_resets_and_recovers(own_redis: RedisServer) -> None:
    """A slow line delays responses or resets connections, and works again afterwards."""
    async with (
        slow_line(own_redis.port) as line,
        Redis.from_url(line.url, single_connection_client=True) as redis,
    ):
        assert await redis.ping()
        line.delay_s = 0.1
        began = time.monotonic()
        assert await redis.ping()
        assert time.monotonic() - began >= line.delay_s
        line.is_broken = True
        assert not await say(line.url)
        line.is_broken, line.delay_s = False, 0
        assert await say(line.url)


def _role(node: RedisServer) -> str:
    return node.told("replication")["role"]
