"""A Cluster: its nodes are asked side by side, and followed when slots move or nodes go."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Bounds, StoreError
from reasoning_replay.adapters.stores.redis import cluster as module
from reasoning_replay.adapters.stores.redis.cluster import Cluster
from reasoning_replay.adapters.stores.redis.connect import Credentials
from reasoning_replay.adapters.stores.redis.executor import Command, run_on
from reasoning_replay.adapters.stores.redis.store import RedisStore
from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import ClusterDownError, RedisError, SlotNotCoveredError

from tests.adapters.stores.kinds import ALLOWED, link_to
from tests.adapters.stores.turns import SCOPE, asked, bytes_of, key, turn
from tests.redis_groups import Cluster as Servers
from tests.redis_groups import redis_cluster

BOUNDS = Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20)
ALLOWED_IN_CLUSTER = "+cluster|slots +asking"
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


def cluster_of(store: RedisStore) -> Cluster:
    """Return the way that a store takes."""
    link = store._link
    assert isinstance(link, Cluster)
    return link


def slot_of(name: str) -> int:
    """Return the slot of a conversation."""
    return key_slot(f"rr:1:{{{SCOPE.hex()}:{bytes_of(name).hex()}}}".encode())


async def names_found(store: RedisStore, *names: str) -> list[str]:
    """Ask by some keys."""
    recalled = await store.recall(SCOPE, asked(*map(key, names)))
    return sorted(t.items[0].id.removeprefix("fc_") for t in recalled.turns)


async def test_a_slot_on_its_way_is_read_and_written(store: RedisStore, servers: Servers) -> None:
    """What has moved is asked for where it is, command by command; then it is known."""
    slot = slot_of("moving")
    target = next(one for one in servers.masters if one is not servers.owner(slot))
    for n in range(3):
        await store.save(SCOPE, turn(f"{n}", "moving"), [key("1"), key(f"{n}")])
    servers.begin_move(slot, target)
    try:
        assert await names_found(store, "1") == ["0", "1", "2"]
        servers.carry(slot)
        assert await names_found(store, "1") == ["0", "1", "2"]
        saves = [store.save(SCOPE, turn(f"{n}", "moving"), [key("1")]) for n in range(3, 20)]
        await asyncio.gather(*saves)
        every = sorted(str(n) for n in range(20))
        assert all(
            found == every
            for found in await asyncio.gather(*(names_found(store, "1") for _ in range(20)))
        )
    finally:
        servers.end_move(slot)
    assert await names_found(store, "1") == every
    assert cluster_of(store)._keeper[slot] == ("127.0.0.1", target.port)
    # Back again, for the other tests.
    source = servers.owner(slot)
    for node in (source, target):
        node.do("FLUSHALL")
    name = source.do("CLUSTER", "MYID")
    for node in servers.masters:
        node.do("CLUSTER", "SETSLOT", slot, "NODE", name)


async def test_every_node_is_asked_once(store: RedisStore, servers: Servers) -> None:
    """A recall is one round trip to each node that has some of it, however many keys there are."""
    for n in range(5):
        await store.save(SCOPE, turn(f"{n}", f"{n}"), [key(f"{n}")])
    sent: list[Any] = []

    async def counted(redis: "Redis", commands: list[Command]) -> list[Any]:
        sent.append(redis)
        return await run_on(redis, commands)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "run_on", counted)
        assert await names_found(store, *(f"{n}" for n in range(200))) == list("01234")
    assert len(sent) <= 2 * len(servers.masters)
    assert len(set(map(id, sent))) == len(servers.masters)


async def test_one_start_node_is_enough(servers: Servers) -> None:
    """The others may be down, or nowhere; all nodes are found from it."""
    url = f"redis+cluster://127.0.0.1:1,127.0.0.1:{servers.masters[1].port}"
    store = RedisStore(link_to(url)(), BOUNDS)
    await store.check()
    assert len(cluster_of(store)._nodes()) == len(servers.masters)
    await store.close()


async def test_who_cannot_wait_for_the_first_look_does_not_end_it(servers: Servers) -> None:
    """A request has less time than connecting may take; the next one profits from it."""
    store = RedisStore(link_to(servers.url)(), BOUNDS)
    hasty = asyncio.ensure_future(store.check())
    await asyncio.sleep(0)
    hasty.cancel()
    await asyncio.wait([hasty])
    looking = cluster_of(store)._looking
    assert looking is not None
    assert await looking is None
    assert cluster_of(store)._nodes()
    await store.close()


async def test_a_lost_node_is_never_half_of_an_answer() -> None:
    """What it keeps fails whole; when it is back all works again, without a restart."""
    with redis_cluster("cluster-require-full-coverage no") as own:
        store = RedisStore(link_to(own.url, timeout_s=5.0)(), BOUNDS)
        keys = [key(f"{n}") for n in range(60)]
        await store.save(SCOPE, turn("a"), keys)
        own.masters[2].kill()
        for _ in range(3):
            with pytest.raises(StoreError):
                await store.recall(SCOPE, asked(*keys))
        with pytest.raises(StoreError):
            await store.check()
        own.masters[2].start()
        deadline = time.monotonic() + SOON_S
        while True:
            try:
                await store.save(SCOPE, turn("b"), keys)
                recalled = await store.recall(SCOPE, asked(*keys))
                break
            except StoreError:
                assert time.monotonic() < deadline, "it did not come back"
                await asyncio.sleep(0.05)
        assert turn("b") in recalled.turns
        await store.close()


class Told:
    """A node that answers as it is told, and counts how often it was asked."""

    def __init__(self, slots: Any) -> None:
        self.slots = slots
        self.asked = 0

    async def execute_command(self, *_: object) -> Any:
        """Answer, or fail."""
        self.asked += 1
        if isinstance(self.slots, Exception):
            raise self.slots
        return self.slots

    async def aclose(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("slots", "want"),
    [
        pytest.param([[0, 16383, [b"h", 7, b"id"]]], ("h", 7), id="by-name"),
        pytest.param([[0, 16383, [None, 7, b"id"]]], ("start", 7), id="same-host"),
        pytest.param([[0, 16383, [b"", 7, b"id"], [b"r", 8, b"x"]]], ("start", 7), id="empty-host"),
    ],
)
async def test_reads_who_keeps_what(slots: Any, want: tuple[str, int]) -> None:
    """A node that does not know its own name leaves it out; replicas are not asked."""
    link = Cluster([("start", 1)], lambda *_: Told(slots))  # type: ignore[arg-type]
    await link._know()
    assert set(link._keeper) == {want}
    await link.close()


@pytest.mark.parametrize(
    "slots",
    [
        pytest.param([], id="none"),
        pytest.param([[0, 16383, [b"?", 7, b"id"]]], id="nobody-knows"),
        pytest.param(ClusterDownError("x"), id="down"),
        pytest.param([[0]], id="odd"),
        pytest.param("OK", id="no-list"),
    ],
)
async def test_a_cluster_that_knows_nothing_is_a_failure(slots: Any) -> None:
    """Each time it is asked, until it knows."""
    node = Told(slots)
    link = Cluster([("start", 1)], lambda *_: node)  # type: ignore[arg-type]
    for n in range(1, 3):
        with pytest.raises((RedisError, ValueError)):
            await link.run([("GET", "a")])
        assert node.asked == n
    await link.close()


async def test_a_part_that_nobody_keeps_is_a_failure_of_that_part() -> None:
    """And it is looked for again, once a second at the most, whoever asks."""
    node = Told([[0, 100, [b"h", 7, b"id"]]])
    link = Cluster([("start", 1)], lambda *_: node)  # type: ignore[arg-type]
    for _ in range(5):
        with pytest.raises(SlotNotCoveredError):
            await link.run([("GET", "foo")])
    assert node.asked == 1
    await link.close()
