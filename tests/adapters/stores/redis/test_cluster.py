"""Redis Cluster: nodes are asked in parallel, and clients follow slots that move."""

import asyncio
import gc
import time
import warnings
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Bounds, StoreError
from reasoning_replay.adapters.stores.contract.turns import (
    SCOPE,
    asked,
    bytes_of,
    found,
    key,
    looked_up,
    save,
    turn,
)
from reasoning_replay.adapters.stores.redis.cluster import ClusterExecutor
from reasoning_replay.adapters.stores.redis.connect import Credentials
from reasoning_replay.adapters.stores.redis.executor import Command, SingleServer
from reasoning_replay.adapters.stores.redis.store import RedisStore
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from tests.adapters.stores.kinds import ALLOWED, link_to
from tests.fast_lane import first
from tests.patience import SOON_S
from tests.redis_groups import Cluster as Servers
from tests.redis_groups import redis_cluster
from tests.redis_server import RedisServer, wait_until

BOUNDS = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)
ALLOWED_IN_CLUSTER = "+cluster|slots +command +asking"


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Yield three masters; tests may move or delete slots, and the other slots still work."""
    with redis_cluster("cluster-require-full-coverage no") as cluster:
        yield cluster


@pytest.fixture
async def store(servers: Servers) -> AsyncIterator[RedisStore]:
    """Yield an empty store, with a user that has only the documented rights."""
    rules = ["reset", "on", ">x", *ALLOWED.split(), *ALLOWED_IN_CLUSTER.split()]
    for master in servers.masters:
        master.do("FLUSHALL")
        master.do("ACL", "SETUSER", "app", *rules)
    store = RedisStore(link_to(servers.url, Credentials("app", "x"))(), BOUNDS)
    yield store
    await store.close()


def executor_of(store: RedisStore) -> ClusterExecutor:
    """Return the executor of a store."""
    link = store._link
    assert isinstance(link, ClusterExecutor)
    return link


def name_of(conversation: str) -> str:
    """Return the name of a conversation's hash."""
    return f"rr:2:{{{SCOPE.hex()}:{bytes_of(conversation).hex()}}}"


async def test_a_moving_slot_is_read_and_written(store: RedisStore, servers: Servers) -> None:
    """Each command follows its slot to the new node, and then the client knows the new node."""
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
    table = executor_of(store)._table
    assert table is not None
    assert table.master(slot) == ("127.0.0.1", target.port)
    # Move the slot back, for the other tests.
    source = servers.owner(slot)
    for node in (source, target):
        node.do("FLUSHALL")
    name = source.do("CLUSTER", "MYID")
    for node in servers.masters:
        node.do("CLUSTER", "SETSLOT", slot, "NODE", name)


async def test_a_lookup_is_one_round_trip_to_each_node(store: RedisStore, servers: Servers) -> None:
    """The number of round trips does not depend on the number of keys."""
    for n in range(5):
        await save(store, turn(f"{n}", f"{n}"), [key(f"{n}")])
    sent: list[SingleServer] = []
    real = SingleServer.run

    async def counted(node: SingleServer, commands: Sequence[Command]) -> list[Any]:
        sent.append(node)
        return await real(node, commands)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SingleServer, "run", counted)
        assert await found(store, *(f"{n}" for n in range(200))) == list("01234")
    assert len(sent) <= 2 * len(servers.masters)
    assert len(set(sent)) == len(servers.masters)


async def test_operations_wait_for_a_free_connection(store: RedisStore, servers: Servers) -> None:
    """A burst of operations opens few connections, and none of the operations fails."""
    for master in servers.masters:
        master.do("CONFIG", "RESETSTAT")
    await asyncio.gather(
        *(save(store, turn(f"{n}", f"{n}"), [key(f"{n}")]) for n in range(200)),
        *(found(store, f"{n}") for n in range(200)),
        *(store.check() for _ in range(50)),
    )
    for master in servers.masters:
        assert int(master.told("stats")["total_connections_received"]) < 100


async def test_one_reachable_start_node_is_enough(servers: Servers) -> None:
    """All nodes are found through one node, while the other addresses are unreachable."""
    url = f"redis+cluster://127.0.0.1:1,127.0.0.1:{servers.masters[1].port}"
    store = RedisStore(link_to(url)(), BOUNDS)
    await store.check()
    assert {port for _, port in executor_of(store)._nodes} == {
        master.port for master in servers.masters
    }
    await store.close()


async def test_a_cancelled_lookup_does_not_affect_the_next_one(servers: Servers) -> None:
    """A lookup may be cancelled while the client connects or runs commands; the next one works."""
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


async def works_again(store: RedisStore, keys: Sequence[bytes]) -> None:
    """Wait until a turn can be saved under these keys and found by all of them."""
    deadline = time.monotonic() + SOON_S
    while True:
        try:
            await save(store, turn("b"), keys)
            turns = (await looked_up(store, asked(*keys))).turns
            break
        except StoreError:
            assert time.monotonic() < deadline, "the store does not work"
            await asyncio.sleep(0.05)
    assert turn("b") in turns


@pytest.mark.parametrize("hurts", first(1, ["hangs", "is killed"]))
async def test_a_lost_node_fails_the_whole_lookup(hurts: str) -> None:
    """A lookup never returns a part of its result, and works again once the node is back."""
    with redis_cluster("cluster-require-full-coverage no") as own:
        store = RedisStore(link_to(own.url, timeout_s=0.3)(), BOUNDS)
        keys = [key(f"{n}") for n in range(60)]
        await works_again(store, keys)
        lost = own.masters[2]
        if hurts == "hangs":
            lost.pause()
        else:
            lost.kill()
        for _ in range(3):
            with pytest.raises(StoreError):
                await store.look_up(SCOPE, asked(*keys), {})
        with pytest.raises(StoreError):
            await store.check()
        if hurts == "hangs":
            lost.resume()
        else:
            lost.start()
        await works_again(store, keys)
        await store.close()


async def test_a_slot_without_a_node_fails_its_own_keys_only(
    store: RedisStore, servers: Servers
) -> None:
    """Operations on a slot without a node fail; those on other slots work."""
    slot = key_slot(name_of("c").encode())
    owner = servers.owner(slot)
    for master in (owner, *(one for one in servers.masters if one is not owner)):
        master.do("CLUSTER", "DELSLOTS", slot)
    try:
        with pytest.raises(StoreError, match="some slots of the Cluster have no node"):
            await save(store, turn("a"), [])
        with pytest.raises(StoreError, match="some slots of the Cluster have no node"):
            await store.check()
        await save(store, turn("b", "another"), [key("b")])
        assert await found(store, "b") == ["b"]
    finally:
        owner.do("CLUSTER", "ADDSLOTS", slot)
        wait_until(lambda: all(map(_has_every_slot, servers.masters)))


def _has_every_slot(node: RedisServer) -> bool:
    return node.told("CLUSTER INFO")["cluster_slots_assigned"] == str(REDIS_CLUSTER_HASH_SLOTS)


async def test_a_server_outside_a_cluster_is_an_error(shared_redis: RedisServer) -> None:
    """The error message tells that the server is no node."""
    store = RedisStore(link_to(f"redis+cluster://127.0.0.1:{shared_redis.port}")(), BOUNDS)
    with pytest.raises(StoreError, match="it is not a node of a Cluster"):
        await store.check()
    await store.close()


async def test_a_wrong_password_is_reported(store: RedisStore, servers: Servers) -> None:
    """The error names the wrong password, and not an unreachable node."""
    await store.check()
    other = RedisStore(link_to(servers.url, Credentials("app", "wrong"))(), BOUNDS)
    with pytest.raises(StoreError, match="it refuses the user or the password"):
        await other.check()
    await other.close()


async def test_a_check_that_is_cancelled_at_once_starts_no_part_in_vain(store: RedisStore) -> None:
    """Its parts for the nodes may not have begun; Python warns of a coroutine never awaited."""
    executor = executor_of(store)
    await executor.check()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        checking = asyncio.create_task(executor.check())
        await asyncio.sleep(0)
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
        gc.collect()
    assert [str(warning.message) for warning in warned] == []


@pytest.mark.parametrize("turns", range(1, 12))
async def test_an_operation_that_is_cancelled_begins_no_task(turns: int, store: RedisStore) -> None:
    """A loop that ends cancels its tasks once: a task that began then would leave connections."""
    executor = executor_of(store)
    await executor.check()
    before = asyncio.all_tasks()
    running = asyncio.create_task(executor.run([("GET", f"{n}") for n in range(20)]))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert asyncio.all_tasks() <= before


async def test_a_cancelled_close_leaves_no_connection(servers: Servers) -> None:
    """All connections are closed before the first point at which it can be cancelled."""
    store = RedisStore(link_to(servers.url)(), BOUNDS)
    await store.check()
    connections = [one for node in executor_of(store)._nodes.values() for one in node.pool._free]
    assert connections
    closing = asyncio.create_task(store.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    assert not any(one.is_open for one in connections)


async def test_operations_that_wait_for_the_table_end_with_the_store(servers: Servers) -> None:
    """They fail at once, and do not wait for a node that hangs."""
    hangs = asyncio.Event()

    async def told_by(*_: object) -> None:
        hangs.set()
        await asyncio.sleep(SOON_S)

    store = RedisStore(link_to(servers.url)(), BOUNDS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ClusterExecutor, "_told_by", told_by)
        waiting = [asyncio.create_task(store.check()) for _ in range(3)]
        await asyncio.wait_for(hangs.wait(), SOON_S)
        await store.close()
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, StoreError)
            assert "the store is closed" in str(result)


async def test_a_slot_table_is_refreshed_after_an_odd_failure(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operation gets the failure, and the next one a table."""

    async def told_by(*_: object) -> None:
        raise RecursionError

    executor = executor_of(store)
    with monkeypatch.context() as patched:
        patched.setattr(ClusterExecutor, "_told_by", told_by)
        with pytest.raises(RecursionError):
            await executor.run([("GET", "rr:2:a")])
    assert await executor.run([("GET", "rr:2:a")]) == [None]
