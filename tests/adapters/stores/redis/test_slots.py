"""The slot table: what a node tells, with and without hosts, and what redirections tell."""

from typing import Any

import pytest
from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.contract.turns import found, key, save, turn
from reasoning_replay.adapters.stores.redis.cluster import ClusterExecutor
from reasoning_replay.adapters.stores.redis.slots import SlotTable, host_of
from reasoning_replay.adapters.stores.redis.store import RedisStore
from redis.exceptions import InvalidResponse

from tests.adapters.stores.kinds import link_to
from tests.redis_groups import redis_cluster

ASKED = ("asked.test", 6379)
HALF = 8_191


@pytest.mark.parametrize(
    ("told", "host"),
    [(b"10.0.0.1", "10.0.0.1"), ("name", "name"), (None, "me"), (b"", "me"), (b"?", "me")],
)
def test_a_node_without_a_host_is_where_the_answer_came_from(
    told: bytes | str | None, host: str
) -> None:
    """NULL, an empty host and an unknown one mean the host that was asked."""
    assert host_of(told, "me") == host


def test_a_table_has_the_master_of_each_slot_and_all_nodes() -> None:
    """Replicas are known, too; a slot that no node has is not."""
    answer = [
        [0, HALF, [b"a", 1, b"id", []], [b"b", 2, b"id", []]],
        [HALF + 1, 16_382, [None, 3, b"id"]],
    ]
    table = SlotTable(answer, ASKED)
    assert (table.master(0), table.master(HALF), table.master(HALF + 1)) == (
        ("a", 1),
        ("a", 1),
        ("asked.test", 3),
    )
    assert table.master(16_383) is None
    assert not table.is_whole
    assert table.nodes == {("a", 1), ("b", 2), ("asked.test", 3)}
    table.move(5, ("c", 4))
    assert table.masters == {("a", 1), ("asked.test", 3), ("c", 4)}


@pytest.mark.parametrize(
    "answer",
    [b"OK", 5, [[0]], [[0, 1]], [["x", "y", [b"a", 1]]], [[0, 20_000, [b"a", 1]]], [[0, 1, 2]]],
)
def test_another_reply_is_no_table(answer: Any) -> None:
    """A server that answers something else is an error of the store."""
    with pytest.raises(InvalidResponse):
        SlotTable(answer, ASKED)


async def test_a_cluster_that_names_only_ports_is_used() -> None:
    """Every node is reached, and a redirection without a host is followed."""
    with redis_cluster("cluster-preferred-endpoint-type unknown-endpoint") as cluster:
        link = link_to(cluster.url)()
        assert isinstance(link, ClusterExecutor)
        store = RedisStore(link, Bounds(ttl_s=1000, max_turns=100, max_bytes=1 << 20))
        names = [f"{n}" for n in range(30)]
        for name in names:
            await save(store, turn(name, name), [key(name)])
        assert link._table is not None
        first = min(link._table.masters)
        for slot in range(0, 16_384, 7):  # as after slots have moved: redirections correct it
            link._table.move(slot, first)
        for name in names:
            assert await found(store, name) == [name]
        assert {host for host, _ in link._nodes} == {"127.0.0.1"}
        await store.close()
