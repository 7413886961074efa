"""Redis Cluster that moves slots or loses a node while the proxy works."""

import time
from collections.abc import Callable

import pytest

from tests.faults.suffering import PATIENT_MS, suffering
from tests.redis_groups import redis_cluster
from tests.redis_server import RedisServer

FAILS_OVER_S = 60.0
LEAST_SLOTS = 5
HURTS: dict[str, tuple[Callable[[RedisServer], None], Callable[[RedisServer], None]]] = {
    "killed": (RedisServer.kill, RedisServer.start),
    "hangs": (RedisServer.pause, RedisServer.resume),
}


def used_slots(node: RedisServer) -> set[int]:
    """Return the slots in which a node has keys."""
    return {node.do("CLUSTER", "KEYSLOT", name) for name in node.do("KEYS", "*")}


async def test_slots_move_under_traffic() -> None:
    """While slots move to another node, every request still gets all of its reasoning."""
    with redis_cluster() as cluster:
        async with suffering(cluster.url, store_budget_ms=PATIENT_MS) as one:

            async def nothing_is_missed() -> None:
                lines = await one.converse()
                assert [line["healed"] for line in lines if "healed" in line] == []
                await one.resumes(at_once=True)

            # All to one node: if several nodes take slots from each other at once, a Cluster may
            # become inconsistent and lose keys.
            source, to, _ = cluster.masters
            slots = used_slots(source)
            assert len(slots) > LEAST_SLOTS
            for slot in slots:
                cluster.begin_move(slot, to)
            await nothing_is_missed()
            assert sum(map(cluster.carry, slots)) >= len(slots)
            await nothing_is_missed()
            for slot in slots:
                cluster.end_move(slot)
            await nothing_is_missed()
            assert one.operations("recall")["error"] == one.operations("save")["error"] == 0
            one.assert_told(has_failed=False)


@pytest.mark.parametrize(("hurts", "returns"), HURTS.values(), ids=HURTS)
async def test_a_replica_takes_the_place_of_a_lost_node(
    hurts: Callable[[RedisServer], None], returns: Callable[[RedisServer], None]
) -> None:
    """A promoted replica is found without a restart, and the old master may return as a replica."""
    with redis_cluster(replicas=1) as cluster:
        async with suffering(cluster.url) as one:
            lost, heir = cluster.masters[0], cluster.replicas[0][0]
            one.assert_quick(await one.converse(during=lambda: hurts(lost)))
            deadline = time.monotonic() + FAILS_OVER_S
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
            deadline = time.monotonic() + FAILS_OVER_S
            while cluster.masters[1].told("CLUSTER INFO")["cluster_state"] == "ok":
                assert time.monotonic() < deadline
                one.assert_quick(await one.converse())
            one.assert_quick(await one.converse())
            assert one.counted("store_up") == 0

            returns(lost)
            await one.resumes()
            await one.recovers()
            one.assert_told(has_failed=True)
