"""A Cluster: its nodes are asked side by side, and followed when slots move or nodes go."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Bounds, StoreError
from reasoning_replay.adapters.stores.redis.cluster import ClusterExecutor
from reasoning_replay.adapters.stores.redis.connect import Credentials
from reasoning_replay.adapters.stores.redis.store import RedisStore
from redis.asyncio.cluster import ClusterNode
from redis.crc import key_slot

from tests.adapters.stores.kinds import ALLOWED, link_to
from tests.adapters.stores.turns import SCOPE, asked, bytes_of, found, key, save, turn
from tests.redis_groups import Cluster as Servers
from tests.redis_groups import redis_cluster
from tests.redis_server import RedisServer

BOUNDS = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)
ALLOWED_IN_CLUSTER = "+cluster|slots +command +asking"
SOON_S = 30.0


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Three masters, whose slots tests may move."""
    with redis_cluster() as cluster:
        yield cluster


@pytest.fixture
async def store(servers: Servers) -> AsyncIterator[RedisStore]:
    """A store on them, empty, as a user who may do what the README says."""
    rules = ["reset", "on", ">x", *ALLOWED.split(), *ALLOWED_IN_CLUSTER.split()]
    for master in servers.masters:
        master.do("FLUSHALL")
        master.do("ACL", "SETUSER", "app", *rules)
    store = RedisStore(link_to(servers.url, Credentials("app", "x"))(), BOUNDS)
    yield store
    await store.close()


def executor_of(store: RedisStore) -> ClusterExecutor:
    """Return the way that a store takes."""
    link = store._link
    assert isinstance(link, ClusterExecutor)
    return link


def name_of(conversation: str) -> str:
    """Return the name of a conversation's hash."""
    return f"rr:2:{{{SCOPE.hex()}:{bytes_of(conversation).hex()}}}"


async def test_a_slot_on_its_way_is_read_and_written(store: RedisStore, servers: Servers) -> None:
    """What has moved is asked for where it is, command by command; then it is known."""
    slot = key_slot(name_of("moving").encode())
    target = next(one for one in servers.masters if one is not servers.owner(slot))
    for n in range(3):
        await save(store, turn(f"{n}", "moving"), [key("1"), key(f"{n}")])
    servers.begin_move(slot, target)
    try:
        assert await found(store, "1") == ["0", "1", "2"]
        servers.carry(slot)
        assert await found(store, "1") == ["0", "1", "2"]
        saves = [save(store, turn(f"{n}", "moving"), [key("1")]) for n in range(3, 20)]
        await asyncio.gather(*saves)
        every = sorted(str(n) for n in range(20))
        assert all(
            names == every
            for names in await asyncio.gather(*(found(store, "1") for _ in range(20)))
        )
    finally:
        servers.end_move(slot)
    assert await found(store, "1") == every
    keeper = executor_of(store)._cluster.get_node_from_key(name_of("moving"))
    assert keeper is not None
    assert keeper.port == target.port
    # Back again, for the other tests.
    source = servers.owner(slot)
    for node in (source, target):
        node.do("FLUSHALL")
    name = source.do("CLUSTER", "MYID")
    for node in servers.masters:
        node.do("CLUSTER", "SETSLOT", slot, "NODE", name)


async def test_every_node_is_asked_once(store: RedisStore, servers: Servers) -> None:
    """A lookup is one round trip to each node that has some of it, however many keys there are."""
    for n in range(5):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}")])
    sent: list[ClusterNode] = []
    real = ClusterNode.execute_pipeline

    async def counted(node: ClusterNode, commands: list[Any]) -> bool:
        sent.append(node)
        return await real(node, commands)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ClusterNode, "execute_pipeline", counted)
        assert await found(store, *(f"{n}" for n in range(200))) == list("01234")
    assert len(sent) <= 2 * len(servers.masters)
    assert len({node.name for node in sent}) == len(servers.masters)


async def test_more_operations_than_connections_wait_for_each_other(
    store: RedisStore, servers: Servers
) -> None:
    """A burst is no failure."""
    for master in servers.masters:
        master.do("CONFIG", "RESETSTAT")
    await asyncio.gather(
        *(save(store, turn(f"{n}", f"{n}"), [key(f"{n}")]) for n in range(200)),
        *(found(store, f"{n}") for n in range(200)),
        *(store.check() for _ in range(50)),
    )
    for master in servers.masters:
        assert int(master.told("stats")["total_connections_received"]) < 100


async def test_connections_that_went_stale_are_not_noticed(
    store: RedisStore, servers: Servers
) -> None:
    """However many there are: servers close what is idle for long."""
    await asyncio.gather(*(save(store, turn(f"{n}", f"{n}"), [key(f"{n}")]) for n in range(20)))
    for master in servers.masters:
        master.do("CLIENT", "KILL", "USER", "app")
    assert await found(store, "1", "2") == ["1", "2"]
    await save(store, turn("a"), [key("a")])
    assert await found(store, "a") == ["a"]


async def test_one_start_node_is_enough(servers: Servers) -> None:
    """The others may be down, or nowhere; all nodes are found from it."""
    url = f"redis+cluster://127.0.0.1:1,127.0.0.1:{servers.masters[1].port}"
    store = RedisStore(link_to(url)(), BOUNDS)
    await store.check()
    assert len(executor_of(store)._primaries()) == len(servers.masters)
    await store.close()


async def test_a_lookup_that_is_given_up_leaves_nothing_half_done(servers: Servers) -> None:
    """Neither at the first look nor amid commands: the next ones find what they ask for."""
    store = RedisStore(link_to(servers.url)(), BOUNDS)
    await save(store, turn("a"), [key("a")])
    for _ in range(50):
        hasty = [asyncio.ensure_future(found(store, f"{n}")) for n in range(5)]
        await asyncio.sleep(0)
        for one in hasty:
            one.cancel()
        await asyncio.wait(hasty)
        assert await found(store, "a") == ["a"]
    await store.close()


@pytest.mark.parametrize("hurts", [RedisServer.kill, RedisServer.pause], ids=["killed", "hangs"])
async def test_a_lost_node_is_never_half_of_an_answer(hurts: Any) -> None:
    """What it keeps fails whole; when it is back all works again, without a restart."""
    with redis_cluster("cluster-require-full-coverage no") as own:
        store = RedisStore(link_to(own.url, timeout_s=1.0)(), BOUNDS)
        keys = [key(f"{n}") for n in range(60)]
        await save(store, turn("a"), keys)
        lost = own.masters[2]
        hurts(lost)
        for _ in range(3):
            with pytest.raises(StoreError):
                await store.look_up(SCOPE, asked(*keys), {})
        with pytest.raises(StoreError):
            await store.check()
        if hurts is RedisServer.kill:
            lost.start()
        else:
            lost.resume()
        deadline = time.monotonic() + SOON_S
        while True:
            try:
                await save(store, turn("b"), keys)
                names = await found(store, *(f"{n}" for n in range(60)))
                break
            except StoreError:
                assert time.monotonic() < deadline, "it did not come back"
                await asyncio.sleep(0.05)
        assert "b" in names
        await store.close()


async def test_a_part_that_no_node_keeps_is_a_failure_of_that_part(servers: Servers) -> None:
    """The rest works."""
    with redis_cluster("cluster-require-full-coverage no") as own:
        slot = key_slot(name_of("c").encode())
        for master in own.masters:
            master.do("CLUSTER", "DELSLOTS", slot)
        store = RedisStore(link_to(own.url)(), BOUNDS)
        with pytest.raises(StoreError, match="some slots of the Cluster have no node"):
            await save(store, turn("a"), [])
        with pytest.raises(StoreError, match="some slots of the Cluster have no node"):
            await store.check()
        await save(store, turn("b", "another"), [key("b")])
        assert await found(store, "b") == ["b"]
        await store.close()


async def test_a_server_that_is_no_cluster_says_so(shared_redis: RedisServer) -> None:
    """With the command that it refuses."""
    store = RedisStore(link_to(f"redis+cluster://127.0.0.1:{shared_redis.port}")(), BOUNDS)
    with pytest.raises(StoreError, match=r"it refused a command \(ERR\)"):
        await store.check()
    await store.close()


async def test_a_wrong_password_is_told_as_such(store: RedisStore, servers: Servers) -> None:
    """And not that no node answers."""
    await store.check()
    other = RedisStore(link_to(servers.url, Credentials("app", "wrong"))(), BOUNDS)
    with pytest.raises(StoreError, match="it refuses the user or the password"):
        await other.check()
    await other.close()
