"""Connections to Redis: addresses, passwords, TLS, Sentinels, and changes while the proxy runs."""

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from reasoning_replay.adapters.runtime.resolver import Resolver
from reasoning_replay.adapters.stores.base import Bounds, Store, StoreError
from reasoning_replay.adapters.stores.contract.turns import (
    SCOPE,
    asked,
    key,
    looked_up,
    save,
    turn,
)
from reasoning_replay.adapters.stores.redis.connect import Credentials
from reasoning_replay.adapters.stores.redis.store import RedisStore

from tests.adapters.stores.kinds import ALLOWED, link_to
from tests.certificates import Certificates, certificates
from tests.patience import SOON_S
from tests.redis_groups import redis_sentinels
from tests.redis_server import RedisServer, redis_server, wait_until

BOUNDS = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)


@pytest.fixture
async def opens() -> AsyncIterator[Callable[..., RedisStore]]:
    """Yield a function that opens a store by its address; at the end, close every store."""
    stores: list[RedisStore] = []

    def opens(
        url: str, who: Credentials | None = None, timeout_s: float = 20.0, prefix: str = "rr"
    ) -> RedisStore:
        stores.append(RedisStore(link_to(url, who, timeout_s)(), BOUNDS, prefix))
        return stores[-1]

    yield opens
    for store in stores:
        await store.close()


async def works(store: Store) -> None:
    """Save a turn and find it again."""
    name = secrets.token_hex()  # tests share the server, and a key of many turns would be crowded
    kept = turn(name, conversation=name)
    await save(store, kept, [key(name)])
    assert (await looked_up(store, asked(key(name)))).turns == [kept]


async def test_a_file_with_the_password_is_read_for_each_connection(
    shared_redis: RedisServer, opens: Callable[..., RedisStore], tmp_path: Path
) -> None:
    """A password may change while the proxy runs; open connections stay usable."""
    file = tmp_path / "password"

    def change(password: str) -> None:
        rules = ["reset", "on", f">{password}", *ALLOWED.split()]
        shared_redis.do("ACL", "SETUSER", "rotating", *rules)
        file.write_text(password + "\n")

    change("first")
    store = opens(shared_redis.url, Credentials("rotating", "", str(file)))
    await works(store)
    change("second")
    await works(store)
    shared_redis.do("CLIENT", "KILL", "USER", "rotating")
    await works(store)


async def test_an_unreadable_password_leaves_no_half_open_connection(
    shared_redis: RedisServer, opens: Callable[..., RedisStore], tmp_path: Path
) -> None:
    """A missing password file is an error, and the store works as soon as the file exists."""
    shared_redis.do("ACL", "SETUSER", "late", "reset", "on", ">x", *ALLOWED.split())
    file = tmp_path / "password"
    store = opens(shared_redis.url, Credentials("late", "", str(file)))
    for _ in range(2):
        with pytest.raises(StoreError, match="it refuses the user or the password"):
            await store.check()
    file.write_text("x")
    await works(store)


async def test_the_next_address_of_a_name_is_tried(
    shared_redis: RedisServer, opens: Callable[..., RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may have several addresses, of which some refuse; if all do, the store fails."""
    known = ["127.0.0.9", "127.0.0.1"]

    async def addresses(_: Resolver, host: str) -> list[str]:
        assert host == "store.test"
        return known

    monkeypatch.setattr(Resolver, "addresses", addresses)
    await works(opens(shared_redis.url.replace("127.0.0.1", "store.test")))
    known.pop()
    with pytest.raises(StoreError, match="cannot be reached"):
        await opens(shared_redis.url.replace("127.0.0.1", "store.test")).check()


@pytest.mark.parametrize("kind", ["RESP2", "RESP3", "socket", "TLS"])
async def test_a_cancelled_login_leaves_no_open_connection(
    kind: str, opens: Callable[..., RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection without a login would be used as the default user, in database 0."""
    hangs = asyncio.Event()
    read = Credentials.get_credentials_async

    async def reads(who: Credentials) -> tuple[str] | tuple[str, str]:
        if not hangs.is_set():
            hangs.set()
            await asyncio.sleep(SOON_S)  # a disk
        return await read(who)

    monkeypatch.setattr(Credentials, "get_credentials_async", reads)
    with (
        certificates() as made,
        redis_server("user app on >pw ~* &* +@all", tls=made if kind == "TLS" else None) as server,
    ):
        more = {"RESP3": "&protocol=3", "TLS": f"&ssl_ca_certs={made.ca_pem}"}.get(kind, "")
        url = f"{server.url.removesuffix('/0')}/3?client_name=rr{more}"
        if kind == "socket":
            url = f"unix://{server.socket_path}?db=3"
        store = opens(url, Credentials("app", "pw"))
        saving = asyncio.ensure_future(save(store, turn("a"), [key("a")]))
        await asyncio.wait_for(hangs.wait(), SOON_S)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        await works(store)
        assert list(server.told("keyspace")) == ["db3"]


async def test_a_failed_save_does_not_reach_the_server_later(
    opens: Callable[..., RedisStore],
) -> None:
    """A late save would create a conversation again that was deleted in the meantime."""
    begins, reads = asyncio.Event(), asyncio.Event()
    ends: asyncio.Future[type[Exception] | None] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        begins.set()
        await reads.wait()
        try:
            while await reader.read(1 << 16):
                pass
        except OSError as error:
            ends.set_result(type(error))
        else:
            ends.set_result(None)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = opens(f"redis://127.0.0.1:{port}")
        saving = asyncio.ensure_future(save(store, turn("a", size=16 << 20), []))
        await asyncio.wait_for(begins.wait(), SOON_S)
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
        reads.set()
        assert await asyncio.wait_for(ends, SOON_S) is ConnectionResetError


async def test_settings_take_precedence_over_the_address(
    shared_redis: RedisServer, opens: Callable[..., RedisStore]
) -> None:
    """The user and the password are overridden separately."""
    shared_redis.do("ACL", "SETUSER", "me", "reset", "on", ">right", *ALLOWED.split())
    url = shared_redis.url.replace("://", "://me:wrong@")
    await works(opens(url, Credentials("", "right")))
    await works(opens(url.replace("wrong", "right").replace("me:", "you:"), Credentials("me")))
    with pytest.raises(StoreError, match="it refuses the user or the password"):
        await opens(url).check()


async def test_a_password_without_a_user_is_that_of_the_default_user(
    opens: Callable[..., RedisStore],
) -> None:
    """With either protocol, a password alone logs in as the default user."""
    with redis_server("requirepass right") as guarded:
        for protocol in (2, 3):
            url = f"{guarded.url}?protocol={protocol}"
            await works(opens(url, Credentials("", "right")))
            with pytest.raises(StoreError, match="it refuses the user or the password"):
                await opens(url, Credentials("", "wrong")).check()
            with pytest.raises(StoreError, match="it refuses the user or the password"):
                await opens(url).check()


async def test_tls_checks_both_certificates(
    shared_tls_redis: RedisServer,
    shared_certificates: Certificates,
    opens: Callable[..., RedisStore],
) -> None:
    """The server's certificate needs a trusted authority, and the client presents its own."""
    url, made = shared_tls_redis.url, shared_certificates
    mine = f"ssl_certfile={made.client_pem}&ssl_keyfile={made.client_pem}"
    await works(opens(f"{url}?ssl_ca_certs={made.ca_pem}&{mine}"))
    await works(opens(f"{url}?ssl_cert_reqs=none&{mine}"))
    await works(opens(f"{url}?ssl_ca_certs={made.ca_pem}&ssl_check_hostname=false&{mine}"))
    with pytest.raises(StoreError, match="CERTIFICATE_VERIFY_FAILED"):
        await opens(f"{url}?{mine}").check()
    with pytest.raises(StoreError, match="it cannot be reached"):
        await opens(f"{url}?ssl_ca_certs={made.ca_pem}").check()


async def test_the_tls_context_is_created_again_when_its_files_change(
    opens: Callable[..., RedisStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections share one context, because creating one for each would block the event loop."""
    made: list[float] = []
    real = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        made.append(time.monotonic())
        return real()

    monkeypatch.setattr(ssl, "create_default_context", counted)
    with certificates(asks_client=True) as old, certificates(asks_client=True) as new:
        mine = f"ssl_certfile={old.client_pem}&ssl_keyfile={old.client_pem}"
        with redis_server(tls=old) as server:
            store = opens(f"{server.url}?ssl_ca_certs={old.ca_pem}&{mine}")
            await asyncio.gather(*(save(store, turn(f"{n}"), []) for n in range(30)))
            assert len(made) == 1
            server.kill()
            for name in ("ca_pem", "server_pem", "client_pem"):
                getattr(old, name).write_bytes(getattr(new, name).read_bytes())
            server.start()
            await works(store)
            assert len(made) == 2


async def test_sentinels_have_their_own_password_and_share_the_authority(
    opens: Callable[..., RedisStore],
) -> None:
    """Sentinels may require another password than the master, and use the same TLS authority."""
    with (
        certificates() as made,
        redis_server("requirepass right", tls=made) as master,
        redis_server(
            f"sentinel monitor main 127.0.0.1 {master.port} 1",
            "sentinel auth-pass main right",
            "requirepass theirs",
            "tls-replication yes",
            tls=made,
            words=["--sentinel"],
        ) as sentinel,
    ):
        place = f"rediss+sentinel://:right@127.0.0.1:{sentinel.port}/main"
        trusted = f"ssl_ca_certs={made.ca_pem}"
        await works(opens(f"{place}?{trusted}&sentinel_password=theirs"))
        with pytest.raises(StoreError, match="no Sentinel names a master"):
            await opens(f"{place}?{trusted}&sentinel_password=right").check()
        with pytest.raises(StoreError, match="no Sentinel names a master"):
            await opens(f"{place}?sentinel_password=theirs").check()


async def test_a_cluster_uses_tls(opens: Callable[..., RedisStore]) -> None:
    """Each node is reached over TLS, at the port that the Cluster announces."""
    with (
        certificates(asks_client=True) as made,
        redis_server("cluster-enabled yes", "tls-cluster yes", tls=made) as node,
    ):
        node.do("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        wait_until(lambda: node.told("CLUSTER INFO")["cluster_state"] == "ok")
        mine = f"ssl_certfile={made.client_pem}&ssl_keyfile={made.client_pem}"
        url = f"rediss+cluster://127.0.0.1:{node.port}?ssl_ca_certs={made.ca_pem}&{mine}"
        await works(opens(url))


def test_the_page_on_stores_names_the_necessary_rights() -> None:
    """docs/stores.md names the rights with which the store contract is tested."""
    page = Path(__file__).parents[4] / "docs/stores.md"
    assert f"on >… {ALLOWED}\n" in page.read_text("utf-8")


@pytest.mark.parametrize("protocol", ["2", "3"])
async def test_options_reach_the_server(
    shared_redis: RedisServer, opens: Callable[..., RedisStore], protocol: str
) -> None:
    """The server sees the protocol, the client name and the database, but no library name."""
    name = f"replay-{protocol}"
    url = f"redis://127.0.0.1:{shared_redis.port}/5?protocol={protocol}&client_name={name}"
    await works(opens(url))
    clients = shared_redis.do("CLIENT", "LIST").decode().splitlines()
    (ours,) = [line for line in clients if f" name={name} " in line]
    assert {"db=5", f"resp={protocol}"} <= set(ours.split())
    assert "lib-name=redis-py" not in ours


async def test_prefixes_separate_installations(
    shared_redis: RedisServer, opens: Callable[..., RedisStore]
) -> None:
    """Two installations can share a Redis: each one reads and deletes only its own keys."""
    shared_redis.do("FLUSHALL")
    one, other = opens(shared_redis.url, prefix="a.b-c"), opens(shared_redis.url, prefix="rr")
    await save(one, turn("a"), [key("1")])
    await save(other, turn("b"), [key("1")])
    assert list((await looked_up(one, asked(key("1")))).turns) == [turn("a")]
    assert [kept.turns for kept in (await one.survey(None, "", 10)).conversations] == [1]
    assert await one.forget(SCOPE, turn("a").conversation)
    assert list((await looked_up(other, asked(key("1")))).turns) == [turn("b")]
    names = shared_redis.do("KEYS", "*")
    assert {name.split(b":")[0] for name in names} == {b"rr", b"a.b-c"}


async def test_redis_py_logs_nothing(
    shared_redis: RedisServer,
    opens: Callable[..., RedisStore],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The proxy logs each change of the store's state itself; redis-py would log each failure."""
    caplog.set_level(logging.DEBUG, "redis")
    await works(opens(f"{shared_redis.url}?protocol=3"))
    with pytest.raises(StoreError):
        await opens("redis://127.0.0.1:1").check()
    assert [record for record in caplog.records if record.name.startswith("redis")] == []


async def test_a_hanging_sentinel_delays_nothing(opens: Callable[..., RedisStore]) -> None:
    """If one Sentinel hangs, another one names the master."""
    with redis_sentinels() as group:
        group.watching[0].pause()
        await works(opens(group.url))
