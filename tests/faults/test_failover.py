"""Failover: the proxy follows to the promoted replica, and no request fails meanwhile."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.suffering import Suffering, suffering
from tests.patience import SOON_S
from tests.redis_groups import SERVICE, Sentinels, redis_cluster, redis_sentinels
from tests.redis_server import RedisServer

Act = Callable[[Any], None]
LOST: dict[str, tuple[Act, Act]] = {
    "killed": (RedisServer.kill, RedisServer.start),
    "hangs": (RedisServer.pause, RedisServer.resume),
}


async def converse_until(one: Suffering, is_so: Callable[[], bool]) -> None:
    """Go on with conversations until the servers have noticed a fault."""
    deadline = time.monotonic() + SOON_S
    while not is_so():
        assert time.monotonic() < deadline
        one.assert_quick(await one.converse())


async def is_followed(
    one: Suffering,
    heir: RedisServer,
    hurts: Callable[[], None],
    returns: Callable[[], None],
    *,
    has_failed: bool | None,
) -> None:
    """Check that the promoted replica is used, also when the old master returns as a replica."""
    one.assert_quick(await one.converse(during=hurts))
    await converse_until(one, lambda: heir.told("replication")["role"] == "master")
    await one.resumes()

    returns()
    one.assert_quick(await one.converse())
    await one.resumes()
    await one.recovers()
    one.assert_told(has_failed=has_failed)
    await one.remembers()


@pytest.mark.parametrize(("hurts", "returns"), LOST.values(), ids=LOST)
async def test_a_replica_takes_the_place_of_a_lost_node(hurts: Act, returns: Act) -> None:
    """A promoted replica of a Cluster is found without a restart."""
    with redis_cluster(replicas=1) as cluster:
        async with suffering(cluster.url) as one:
            lost, heir = cluster.masters[0], cluster.replicas[0][0]
            await is_followed(
                one, heir, lambda: hurts(lost), lambda: returns(lost), has_failed=True
            )


@pytest.mark.parametrize(("hurts", "returns"), LOST.values(), ids=LOST)
async def test_a_lost_node_without_a_replica_may_return(hurts: Act, returns: Act) -> None:
    """Requests go on while the Cluster is down, and replay resumes when the node is back."""
    with redis_cluster() as cluster:
        async with suffering(cluster.url) as one:
            lost, other = cluster.masters[:2]
            one.assert_quick(await one.converse(during=lambda: hurts(lost)))
            await converse_until(one, lambda: other.told("CLUSTER INFO")["cluster_state"] != "ok")
            one.assert_quick(await one.converse())
            assert one.counted("store_up") == 0

            returns(lost)
            await one.resumes()
            await one.recovers()
            one.assert_told(has_failed=True)


def kill_two(group: Sentinels) -> None:
    """Kill the master, and the Sentinel that is asked first."""
    group.watching[0].kill()
    group.nodes[0].kill()


REPLACED: dict[str, tuple[Act, Act]] = {
    "killed": (lambda group: group.nodes[0].kill(), lambda group: group.nodes[0].start()),
    "hangs": (lambda group: group.nodes[0].pause(), lambda group: group.nodes[0].resume()),
    "handed over": (
        lambda group: group.watching[0].do("SENTINEL", "FAILOVER", SERVICE),
        lambda _: None,
    ),
    "a sentinel is killed, too": (
        kill_two,
        lambda group: group.nodes[0].start(),
    ),
}


@pytest.mark.parametrize(("hurts", "returns"), REPLACED.values(), ids=REPLACED)
async def test_the_replica_that_sentinels_promote_is_used(hurts: Act, returns: Act) -> None:
    """A planned failover may cause no failure."""
    with redis_sentinels() as group:
        async with suffering(group.url) as one:
            heir = group.nodes[1]
            await is_followed(
                one, heir, lambda: hurts(group), lambda: returns(group), has_failed=None
            )
