"""The pool: open connections with no reply left to read, and none that hides another."""

import asyncio
import contextlib
import socket
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
import uvloop
from reasoning_replay.adapters.runtime.tcp import keep_alive_options
from reasoning_replay.adapters.stores.base import Bounds, StoreError
from reasoning_replay.adapters.stores.contract.turns import found, key, save, turn
from reasoning_replay.adapters.stores.redis import pool as module
from reasoning_replay.adapters.stores.redis.cluster import ClusterExecutor
from reasoning_replay.adapters.stores.redis.connect import Credentials
from reasoning_replay.adapters.stores.redis.connections import (
    UNACKNOWLEDGED_MS,
    PooledConnection,
)
from reasoning_replay.adapters.stores.redis.executor import SingleServer
from reasoning_replay.adapters.stores.redis.store import RedisStore
from redis.exceptions import RedisError

from tests.adapters.stores.kinds import link_to
from tests.certificates import Certificates
from tests.left_open import left_open
from tests.patience import SOON_S
from tests.redis_groups import Cluster, Sentinels
from tests.redis_server import RedisServer, redis_server
from tests.slow_line import slow_line

BOUNDS = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)


@pytest.fixture
async def opens() -> AsyncIterator[Callable[..., RedisStore]]:
    """Yield a function that opens a store by its address; at the end, close every store."""
    stores: list[RedisStore] = []

    def opens(url: str, who: Credentials | None = None) -> RedisStore:
        stores.append(RedisStore(link_to(url, who)(), BOUNDS))
        return stores[-1]

    yield opens
    for store in stores:
        await store.close()


def servers_of(store: RedisStore) -> list[SingleServer]:
    """Return the servers of a store: one, or the nodes of a Cluster."""
    link = store._link
    if isinstance(link, ClusterExecutor):
        return list(link._nodes.values())
    assert isinstance(link, SingleServer)
    return [link, *link._others]


def free_of(store: RedisStore) -> list[PooledConnection]:
    """Return the idle connections of a store."""
    return [one for server in servers_of(store) for one in server.pool._free]


async def burst(store: RedisStore, count: int) -> None:
    """Save and look up at the same time."""
    await asyncio.gather(
        *(save(store, turn(f"{n}", f"{n}"), [key(f"{n}")]) for n in range(count)),
        *(found(store, f"{n}") for n in range(count)),
    )


# --- what is left of a connection that failed ---


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_closing_never_fails(run: Callable[..., None]) -> None:
    """A connection is closed also if its transport refuses everything."""

    class Dead:
        def get_extra_info(self, _: str) -> None:
            raise ValueError("negative file descriptor")

        def abort(self) -> None:
            raise RuntimeError("the handler is closed")

        def is_closing(self) -> bool:
            return True

        def close(self) -> None:
            """Do nothing: it is dead."""

    async def main() -> None:
        with redis_server() as server:
            store = RedisStore(link_to(server.url)(), BOUNDS)
            await store.check()
            (connection,) = free_of(store)
            assert connection._writer is not None
            real, connection._writer._transport = connection._writer.transport, Dead()  # type: ignore[attr-defined]
            connection.end()
            real.abort()
            assert not connection.is_connected
            assert not connection.is_open
            await store.check()
            await store.close()

    run(main())


async def test_a_connection_that_is_cancelled_as_its_handshake_ends_is_closed_at_once(
    shared_certificates: Certificates,
    opens: Callable[..., RedisStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing waits for the server's side of the end of TLS; a loop may end before it comes."""
    made = shared_certificates
    options = f"ssl_ca_certs={made.ca_pem}&ssl_certfile={made.client_pem}"
    real = SSLProtocol._on_handshake_complete
    with redis_server(tls=made) as server:
        store = opens(f"{server.url}?{options}&ssl_keyfile={made.client_pem}")
        hasty = asyncio.ensure_future(store.check())

        def complete(protocol: SSLProtocol, error: Exception | None) -> None:
            real(protocol, error)
            server.pause()
            hasty.cancel()

        monkeypatch.setattr(SSLProtocol, "_on_handshake_complete", complete)
        await asyncio.wait([hasty])
        assert hasty.cancelled()
        connections = left_open(asyncio.get_running_loop())
        assert [one for one in connections if not one.is_closing()] == []


@pytest.mark.parametrize("cuts", range(8))
async def test_a_cancelled_operation_leaves_no_reply(
    cuts: int, shared_redis: RedisServer, opens: Callable[..., RedisStore]
) -> None:
    """Wherever an operation is cancelled, the next one reads only replies to its own commands."""
    shared_redis.do("FLUSHALL")
    async with slow_line(shared_redis.port) as line:
        store = opens(line.url)
        for name in "ab":
            await save(store, turn(name, name), [key(name)])
        line.delay_s = 0.002
        for n in range(30):
            hasty = asyncio.ensure_future(found(store, "a"))
            await asyncio.sleep(0.0002 * cuts * (n % 5))
            hasty.cancel()
            assert await found(store, "b") == ["b"]
            await asyncio.gather(hasty, return_exceptions=True)


async def scripted(replies: bytes, closed: asyncio.Event) -> asyncio.Server:
    """Serve a Redis that answers the first command with these replies, others with +PONG."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(replies)
        with contextlib.suppress(OSError):
            while await reader.read(1 << 16):
                writer.write(b"+PONG\r\n")
        closed.set()
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


@pytest.mark.parametrize(
    "replies",
    [b"+PONG\r\n+PONG\r\n", b"+PONG\r\n$100\r\nhalf", b"+PO", b"*1\r\n:x\r\n", b"\x00\xff\r\n"],
)
async def test_replies_that_do_not_fit_end_the_connection(
    replies: bytes, opens: Callable[..., RedisStore]
) -> None:
    """A reply too many, a part of one and garbage are never read by the next operation."""
    closed = asyncio.Event()
    async with await scripted(replies, closed) as server:
        store = opens(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises((StoreError, TimeoutError)):
            async with asyncio.timeout(0.5):
                await store.check()
        await asyncio.wait_for(closed.wait(), SOON_S)
        assert free_of(store) == []


async def test_a_reply_in_another_form_ends_the_connection(
    shared_redis: RedisServer, opens: Callable[..., RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a reply cannot be read as it should be, those after it are not left over."""
    store = opens(shared_redis.url)
    await store.check()
    (before,) = free_of(store)

    def refuse(_: object) -> None:
        raise ValueError("odd")

    monkeypatch.setattr("reasoning_replay.adapters.stores.redis.executor._as_dict", refuse)
    with pytest.raises(RedisError):
        await store._link.run([("HGETALL", "rr:x"), ("GET", "rr:y"), ("GET", "rr:z")])
    assert not before.is_connected
    assert free_of(store) == []


# --- a refused connection ---


@pytest.mark.parametrize("refusal", ["maxclients", "password"])
async def test_a_refused_connection_hides_none_that_is_open(
    refusal: str, opens: Callable[..., RedisStore]
) -> None:
    """While new connections are refused, a burst is served by those that are open."""
    with redis_server("user app on >old ~* &* +@all") as server, server.operator() as operator:
        store = opens(server.url, Credentials("app", "old"))
        await burst(store, 2)
        count = len(free_of(store))
        if refusal == "maxclients":
            server.do("CONFIG", "SET", "maxclients", count + 1, by=operator)
        else:
            server.do("ACL", "SETUSER", "app", "resetpass", ">new", by=operator)
        for _ in range(3):
            await burst(store, 20)
        assert len(free_of(store)) == count


async def test_idle_connections_are_closed(
    shared_redis: RedisServer,
    opens: Callable[..., RedisStore],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a burst, the connections that are not needed any more are closed."""
    store = opens(shared_redis.url)
    await burst(store, 20)
    assert len(free_of(store)) > 1
    monkeypatch.setattr(module, "IDLE_MAX_S", 0.05)
    deadline = time.monotonic() + SOON_S
    while len(free_of(store)) > 1:
        assert time.monotonic() < deadline
        await store.check()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("kind", ["redis", "sentinel", "cluster"])
async def test_a_closed_store_opens_no_connection(
    kind: str, request: pytest.FixtureRequest, opens: Callable[..., RedisStore]
) -> None:
    """An operation that comes later fails, and no server sees a connection of it."""
    servers = request.getfixturevalue(
        "shared_sentinels" if kind == "sentinel" else f"shared_{kind}"
    )
    nodes: Sequence[RedisServer] = [servers] if isinstance(servers, RedisServer) else servers.nodes

    def opened() -> int:
        return sum(int(one.told("stats")["total_connections_received"]) for one in nodes)

    store = opens(servers.url)
    await burst(store, 2)
    await store.close()
    asking = len(nodes)  # by `opened` itself, once for each node
    before = opened()
    for operation in (store.check(), found(store, "1"), save(store, turn("a"), [key("a")])):
        with pytest.raises(StoreError, match="the store is closed"):
            await operation
    assert opened() == before + asking


# --- the address leads to another server ---


@pytest.mark.parametrize("how", ["lives on as a replica", "is cut off from its replicas"])
async def test_a_demoted_server_is_left(how: str, opens: Callable[..., RedisStore]) -> None:
    """The operation that meets it is repeated on the new master, and no connection stays."""
    with redis_server() as old, redis_server() as new:
        async with slow_line(old.port) as line:
            store = opens(line.url)
            await burst(store, 10)
            line.to_port = new.port
            if how == "lives on as a replica":
                old.do("REPLICAOF", "127.0.0.1", new.port)
            else:
                old.do("CONFIG", "SET", "min-replicas-to-write", 1)
            await asyncio.gather(*(save(store, turn(f"{n}"), [key("new")]) for n in range(20)))
            assert int(new.told("stats")["total_commands_processed"]) > 0
            assert await found(store, "new")
            assert "app" not in old.do("CLIENT", "LIST").decode()
            connections = [
                one
                for one in old.do("CLIENT", "LIST").decode().splitlines()
                if "cmd=replconf" not in one
            ]
            assert len(connections) <= 2  # the operator's, and that of replication


async def test_a_replica_is_not_left_again_and_again(opens: Callable[..., RedisStore]) -> None:
    """If the address leads to a replica for good, it can still be read, on kept connections."""
    with redis_server() as server:
        store = opens(server.url)
        await save(store, turn("a"), [key("a")])
        server.do("REPLICAOF", "127.0.0.1", server.port)
        before = int(server.told("stats")["total_connections_received"])
        began_s = time.monotonic()
        for _ in range(50):
            assert await found(store, "a") == ["a"]
        opened = int(server.told("stats")["total_connections_received"]) - before
        assert opened <= 10 + 5 * (time.monotonic() - began_s)
        with pytest.raises(StoreError, match="it is a replica"):
            await save(store, turn("b"), [key("b")])


# --- sockets ---


@pytest.mark.parametrize("kind", ["redis", "TLS", "sentinel", "cluster"])
async def test_every_connection_over_tcp_has_keep_alive(
    kind: str,
    request: pytest.FixtureRequest,
    opens: Callable[..., RedisStore],
) -> None:
    """Live connections have the options, those to Sentinels as well."""
    if kind == "TLS":
        made: Certificates = request.getfixturevalue("shared_certificates")
        options = f"ssl_ca_certs={made.ca_pem}&ssl_certfile={made.client_pem}"
        server: RedisServer = request.getfixturevalue("shared_tls_redis")
        url = f"{server.url}?{options}&ssl_keyfile={made.client_pem}"
    elif kind == "sentinel":
        sentinels: Sentinels = request.getfixturevalue("shared_sentinels")
        url = sentinels.url
    elif kind == "cluster":
        cluster: Cluster = request.getfixturevalue("shared_cluster")
        url = cluster.url
    else:
        url = request.getfixturevalue("shared_redis").url
    store = opens(url)
    await store.check()
    connections = free_of(store)
    assert len(connections) >= {"sentinel": 2, "cluster": 3}.get(kind, 1)
    for connection in connections:
        assert connection._writer is not None
        opened = connection._writer.transport.get_extra_info("socket")
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        for option, value in keep_alive_options().items():
            assert opened.getsockopt(socket.IPPROTO_TCP, option) == value
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            limit_ms = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert limit_ms == UNACKNOWLEDGED_MS
