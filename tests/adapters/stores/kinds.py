"""The kinds of stores that share one contract, each with a way to move its time forward."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fakeredis import FakeServer
from fakeredis.aioredis import FakeBaseAsyncConnection
from reasoning_replay.adapters.resilience.local_table import Alone, LocalTable
from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.base import Bounds, Codec, Store
from reasoning_replay.adapters.stores.contract import StoreUnderTest
from reasoning_replay.adapters.stores.contract.turns import SCOPE, bytes_of
from reasoning_replay.adapters.stores.encryption import EncryptedCodec
from reasoning_replay.adapters.stores.encryption_keys import EncryptionKey
from reasoning_replay.adapters.stores.redis.address import RedisAddress
from reasoning_replay.adapters.stores.redis.connect import Credentials, connect
from reasoning_replay.adapters.stores.redis.connections import Tcp
from reasoning_replay.adapters.stores.redis.executor import RedisExecutor, SingleServer
from reasoning_replay.adapters.stores.redis.pool import Pool
from reasoning_replay.adapters.stores.redis.store import RedisStore
from reasoning_replay.adapters.stores.sqlite.store import SqliteStore
from reasoning_replay.core.history.room import Room

from tests.adapters.stores.dictionary import DictStore
from tests.adapters.stores.table_store import TableStore
from tests.redis_server import RedisServer

__all__ = ["ALLOWED", "BEHIND", "link_to", "on_kind"]

MIB = 1 << 20
TIMEOUT_S = 20.0  # a store must not fail because the machine is busy
SEALED = EncryptedCodec([EncryptionKey("new", b"n" * 32), EncryptionKey("old", b"o" * 32)])

# The rights of a Redis user in docs/stores.md.
ALLOWED = (
    "~rr:2:* -@all +get +mget +set +append +del +hgetall +hget +hmget +hset +hsetnx +hdel "
    "+hincrby +expire +ttl +eval +scan +ping"
)
# All stores that the local table may have.
BEHIND = (
    "dictionary",
    "dictionary, sealed",
    "sqlite",
    "sqlite, sealed",
    "fakeredis",
    "redis",
    "redis, sealed",
    "redis, RESP3",
    "redis, socket",
    "redis, TLS",
    "redis, ACL",
    "valkey",
    "sentinel",
    "cluster",
    "cluster, RESP3",
)


class Fake(FakeBaseAsyncConnection, Tcp):  # type: ignore[misc]  # as fakeredis' own class
    """Connection to fakeredis: it has no socket."""

    @property
    def is_open(self) -> bool:
        """Whether it was not closed."""
        return bool(self.is_connected)

    @property
    def has_unread(self) -> bool:
        """Whether a reply was not read."""
        return self._sock is not None and not self._sock.responses.empty()

    def end(self) -> None:
        """Close."""
        self._writer = self._reader = None


def on_kind(
    kind: str, fixture: Callable[[str], Any]
) -> contextlib.AbstractAsyncContextManager[StoreUnderTest]:
    """Return an empty store of one kind; `fixture` returns a server by its fixture's name."""
    kind, _, more = kind.partition(", ")
    codec = SEALED if more == "sealed" else None
    here: dict[str, Callable[[], contextlib.AbstractAsyncContextManager[StoreUnderTest]]] = {
        "table": _on_table,
        "dictionary": partial(_on_dictionary, codec),
        "sqlite": partial(_on_sqlite, codec),
        "fakeredis": lambda: _on_redis(_fake_link(FakeServer()), codec),
    }
    if kind in here:
        return here[kind]()
    if kind == "cluster":
        cluster = fixture("shared_cluster")
        _empty(cluster.masters)
        return _on_redis(link_to(cluster.url + ("?protocol=3" if more else "")), codec)
    if kind == "sentinel":
        sentinels = fixture("shared_sentinels")
        _empty([sentinels.master])
        return _on_redis(link_to(sentinels.url), codec)
    name = {"TLS": "shared_tls_redis"}.get(more, f"shared_{kind}")
    redis: RedisServer = fixture(name)
    _empty([redis])
    url, who = redis.url, Credentials()
    match more:
        case "RESP3":
            url += "?protocol=3"
        case "socket":
            url = f"unix://{redis.socket_path}"
        case "TLS":
            made = fixture("shared_certificates")
            url += f"?ssl_ca_certs={made.ca_pem}"
            url += f"&ssl_certfile={made.client_pem}&ssl_keyfile={made.client_pem}"
        case "ACL":
            redis.do("ACL", "SETUSER", "app", "reset", "on", ">a secret", *ALLOWED.split())
            who = Credentials("app", "a secret")
    return _on_redis(link_to(url, who), codec, link_to(redis.url) if who else None)


def link_to(
    url: str, who: Credentials | None = None, timeout_s: float = TIMEOUT_S
) -> Callable[[], RedisExecutor]:
    """Return a function that connects to a Redis as the proxy does."""
    return lambda: connect(
        RedisAddress.read(*url.split("://")), who or Credentials(), timeout_s, 16
    )


def _fake_link(server: FakeServer) -> Callable[[], RedisExecutor]:
    async def make() -> Fake:
        return Fake(server=server, resolver=Resolver())

    return lambda: SingleServer(Pool(make, 16, TIMEOUT_S))


def _empty(servers: Sequence[RedisServer]) -> None:
    for server in servers:
        server.do("FLUSHALL")


@contextlib.asynccontextmanager
async def _on_table() -> AsyncIterator[StoreUnderTest]:
    """The local table alone, as with `memory://`; its clock stands still until a test moves it."""
    now = 1000.0
    stores: dict[Bounds, TableStore] = {}

    async def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def opens(bounds: Bounds) -> Store:
        table = LocalTable(Room(64 * MIB), alone=Alone(bounds, lambda: now))
        return stores.setdefault(bounds, TableStore(table))

    async def names() -> Sequence[object]:
        tables = [one.table for one in stores.values()]
        keys = (key for one in tables for keys in one._index.values() for key in keys)
        return [*(name for one in tables for name in one._rows), *keys]

    async def counts(key: bytes) -> int:
        return sum(len(one.table.index(SCOPE)[key]) for one in stores.values())

    yield StoreUnderTest(opens, passes, names, counts)


@contextlib.asynccontextmanager
async def _on_dictionary(codec: Codec | None) -> AsyncIterator[StoreUnderTest]:
    """Store in this process; its clock stands still until a test moves it."""
    now = 1000.0
    stores: dict[Bounds, DictStore] = {}

    async def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def opens(bounds: Bounds) -> Store:
        return stores.setdefault(bounds, DictStore(bounds, lambda: now, codec))

    async def names() -> Sequence[object]:
        keys = (name for one in stores.values() for keys in one._index.values() for name in keys)
        return [*(name for one in stores.values() for name in one._conversations), *keys]

    async def damages(name: bytes, value: bytes) -> None:
        for one in stores.values():
            records = one._conversations[SCOPE, bytes_of("c")].records
            assert name in records
            records[name] = value

    async def counts(key: bytes) -> int:
        return sum(len(one._index[SCOPE][key]) for one in stores.values())

    yield StoreUnderTest(opens, passes, names, counts, damages)


@contextlib.asynccontextmanager
async def _on_sqlite(codec: Codec | None) -> AsyncIterator[StoreUnderTest]:
    """Store in a file; its clock stands still until a test moves it."""
    now = 1000.0
    opened: list[SqliteStore] = []

    async def asked(*sql: Any) -> list[tuple[Any, ...]]:
        rows = opened[0]._writes(lambda db: db.execute(*sql).fetchall())
        return await rows

    async def passes(seconds: float) -> None:
        nonlocal now
        for store in opened:  # pending writes of the expiry finish before
            await store._writes(lambda db: db.execute("SELECT 1").fetchall())
        now += seconds

    async def names() -> Sequence[object]:
        # Expired rows are deleted by the next save; until then no lookup finds them.
        rows = await asked("SELECT id FROM conversations WHERE expires_at > ?", (now,))
        return rows + await asked(
            "SELECT leads.id FROM leads JOIN conversations c ON c.id = conversation_id"
            " WHERE expires_at > ?",
            (now,),
        )

    async def damages(name: bytes, value: bytes) -> None:
        await asked("UPDATE records SET value = ? WHERE name = ?", (value, name))

    async def counts(key: bytes) -> int:
        return len(await asked("SELECT id FROM leads WHERE scope = ? AND key = ?", (SCOPE, key)))

    with tempfile.TemporaryDirectory(prefix="rr-") as folder:
        path = str(Path(folder, "replay.db"))

        def opens(bounds: Bounds) -> Store:
            opened.append(SqliteStore(path, bounds, 64 * MIB, TIMEOUT_S, lambda: now, codec=codec))
            return opened[-1]

        try:
            yield StoreUnderTest(opens, passes, names, counts, damages)
        finally:
            for store in opened:
                await store.close()


@contextlib.asynccontextmanager
async def _on_redis(
    connects: Callable[[], RedisExecutor],
    codec: Codec | None,
    operates: Callable[[], RedisExecutor] | None = None,
) -> AsyncIterator[StoreUnderTest]:
    """
    Store in an empty Redis, real or fake.

    Args:
        connects: Returns the executor of the stores.
        codec: Stored form of values; None: plain.
        operates: Returns an executor with all rights, if that of the stores has fewer.
    """
    link = (operates or connects)()
    opened: list[RedisStore] = []
    now = 1000.0

    async def passes(seconds: float) -> None:
        nonlocal now
        for store in opened:  # renewals in the background finish before
            await asyncio.gather(*store._renewals.tasks.values())
        now += seconds
        keys = [key for key in await names() if isinstance(key, bytes)]
        left_ms = await link.run([("PTTL", key.decode()) for key in keys])
        await link.run(
            [
                ("PEXPIRE", key.decode(), ms - int(seconds * 1000))
                for key, ms in zip(keys, left_ms, strict=True)
            ]
        )

    def opens(bounds: Bounds) -> Store:
        opened.append(RedisStore(connects(), bounds, codec=codec, clock=lambda: now))
        return opened[-1]

    async def names() -> Sequence[object]:
        cursor, found = await link.scan("", "*", 10_000)
        while cursor:
            cursor, more = await link.scan(cursor, "*", 10_000)
            found += more
        return found

    async def damages(name: bytes, value: bytes) -> None:
        conversation = f"rr:2:{{{SCOPE.hex()}:{bytes_of('c').hex()}}}"
        assert await link.run([("HSET", conversation, name, value)]) == [0]

    async def counts(key: bytes) -> int:
        (answer,), _ = await link.read([f"rr:2:k:{SCOPE.hex()}:{key.hex()}"], [])
        return len(answer) // 16

    try:
        yield StoreUnderTest(opens, passes, names, counts, damages, keys_outlive=True)
    finally:
        for store in opened:
            await store.close()
        await link.close()
