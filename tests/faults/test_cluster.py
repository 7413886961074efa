"""Redis Cluster that loses a node while the proxy works."""

import time
from collections.abc import Callable

import pytest

from tests.faults.suffering import suffering
from tests.patience import SOON_S
from tests.redis_groups import redis_cluster
from tests.redis_server import RedisServer

HURTS: dict[str, tuple[Callable[[RedisServer], None], Callable[[RedisServer], None]]] = {
    "killed": (RedisServer.kill, RedisServer.start),
    "hangs": (RedisServer.pause, RedisServer.resume),
}


@pytest.mark.parametrize(("hurts", "returns"), HURTS.values(), ids=HURTS)
async def test_a_replica_takes_the_place_of_a_lost_node(
    hurts: Callable[[RedisServer], None], returns: Callable[[RedisServer], None]
) -> None:
    """A promoted replica is found without a restart, and the old master may return as a replica."""
    with redis_cluster(replicas=1) as cluster:
        async with suffering(cluster.url) as one:
            lost, heir = cluster.masters[0], cluster.replicas[0][0]
            one.assert_quick(await one.converse(during=lambda: hurts(lost)))
            deadline = time.monotonic() + SOON_S
            while heir.told("replication")["role"] != "master":
                assert time.monotonic() < deadline
                one.assert_quick(await one.converse())
            await one.resumes()

            returns(lost)
            one.assert_quick(await one.converse())
            await one.resumes()
            await one.recovers()
            one.assert_told(has_failed=True)
            await one.remembers()


@pytest.mark.parametrize(("hurts", "returns"), HURTS.values(), ids=HURTS)
async def test_a_lost_node_without_a_replica_may_return(
    hurts: Callable[[RedisServer], None], returns: Callable[[RedisServer], None]
) -> None:
    """Requests go on while the Cluster is down, and replay resumes when the node is back."""
    with redis_cluster() as cluster:
        async with suffering(cluster.url) as one:
            lost = cluster.masters[0]
            one.assert_quick(await one.converse(during=lambda: hurts(lost)))
            deadline = time.monotonic() + SOON_S
            while cluster.masters[1].told("CLUSTER INFO")["cluster_state"] == "ok":
                assert time.monotonic() < deadline
                one.assert_quick(await one.converse())
            one.assert_quick(await one.converse())
            assert one.counted("store_up") == 0

            returns(lost)
            await one.resumes()
            await one.recovers()
            one.assert_told(has_failed=True)
