"""Groups of real Redis servers: Sentinel and Cluster."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from redis.exceptions import ResponseError

from tests.redis_server import PASSWORD, RedisServer, redis_server, wait_until

__all__ = ["SERVICE", "Cluster", "Sentinels", "redis_cluster", "redis_sentinels"]

SERVICE = "replay"
SENTINELS = 3
MASTERS = 3
SLOTS = 16_384
# Shorter than in production, but long enough that a busy machine is not taken for a dead one.
DOWN_AFTER_MS = 1_000
HURRY = ("publish-period", "info-period", "ask-period", "ping-period")
HURRY_MS = 200
NODE_TIMEOUT_MS = 2_000


@dataclass(frozen=True, slots=True)
class Sentinels:
    """
    A master with its replicas, monitored by three Sentinels.

    Attributes:
        nodes: The first master, then its replicas.
        watching: The Sentinels.
    """

    nodes: Sequence[RedisServer]
    watching: Sequence[RedisServer]

    @property
    def url(self) -> str:
        """The address from which a client finds the master."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.watching)
        return f"redis+sentinel://{hosts}/{SERVICE}"

    @property
    def master(self) -> RedisServer:
        """The current master according to the first Sentinel."""
        _, port = self.watching[0].do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(node for node in self.nodes if node.port == int(port))

    def agree(self) -> bool:
        """Return whether every Sentinel sees the others and all replicas as healthy."""
        return all(map(self._knows_all, self.watching))

    def _knows_all(self, sentinel: RedisServer) -> bool:
        said = _pairs(sentinel.do("SENTINEL", "MASTER", SERVICE))
        replicas = map(_pairs, sentinel.do("SENTINEL", "REPLICAS", SERVICE))
        well = [one["flags"] == "slave" and one["master-link-status"] == "ok" for one in replicas]
        counts = (said["flags"], said["num-other-sentinels"], well)
        return counts == ("master", str(SENTINELS - 1), [True] * (len(self.nodes) - 1))


@contextlib.contextmanager
def redis_sentinels(
    *directives: str, replicas: int = 1, kind: str = "redis"
) -> Iterator[Sentinels]:
    """Run a master with replicas, all with these directives, and Sentinels; wait until healthy."""
    with contextlib.ExitStack() as stack:
        lines = ("repl-diskless-sync-delay 0", *directives)
        master = stack.enter_context(redis_server(*lines, kind=kind))
        follow = f"replicaof 127.0.0.1 {master.port}"
        nodes = [
            stack.enter_context(redis_server(follow, *lines, kind=kind)) for _ in range(replicas)
        ]
        watching = [
            stack.enter_context(redis_server(*_watch(master.port), kind=kind, words=["--sentinel"]))
            for _ in range(SENTINELS)
        ]
        for sentinel in watching:
            with contextlib.suppress(ResponseError):  # before Redis 7 these periods are fixed
                periods = [word for name in HURRY for word in (name, HURRY_MS)]
                sentinel.do("SENTINEL", "DEBUG", *periods, "tilt-trigger", 20_000)
        group = Sentinels([master, *nodes], watching)
        wait_until(group.agree)
        yield group


def _watch(port: int) -> list[str]:
    return [
        f"sentinel monitor {SERVICE} 127.0.0.1 {port} {SENTINELS // 2 + 1}",
        f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
        # An election without a winner is repeated after twice this time.
        f"sentinel failover-timeout {SERVICE} {2 * DOWN_AFTER_MS}",
    ]


@dataclass
class Cluster:
    """
    Masters that share the slots, each with its replicas.

    Attributes:
        masters: The first masters; each has a third of the slots.
        replicas: The replicas of each master, in the same order.
        moving: Slots that are being moved: source and target.
    """

    masters: Sequence[RedisServer]
    replicas: Sequence[Sequence[RedisServer]]
    moving: dict[int, tuple[RedisServer, RedisServer]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[RedisServer]:
        """All masters and replicas."""
        return [*self.masters, *(one for some in self.replicas for one in some)]

    @property
    def url(self) -> str:
        """The address of all first masters."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{one.port}' for one in self.masters)}"

    def form(self) -> None:
        """Create one cluster of all nodes, and wait until every node reports it."""
        first, *others = self.nodes
        for epoch, node in enumerate(self.nodes, 1):
            node.do("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for index, master in enumerate(self.masters):
            share = range(SLOTS * index // MASTERS, SLOTS * (index + 1) // MASTERS)
            master.do("CLUSTER", "ADDSLOTS", *share)
        for node in others:
            first.do("CLUSTER", "MEET", "127.0.0.1", node.port)
        wait_until(lambda: all(self._knows(node, len(self.nodes)) for node in self.nodes))
        for master, some in zip(self.masters, self.replicas, strict=True):
            for node in some:
                node.do("CLUSTER", "REPLICATE", _id(master))
        wait_until(self.is_well)

    def is_well(self) -> bool:
        """Return whether every node accepts requests and every replica follows its master."""
        replicas = [one for some in self.replicas for one in some]
        return all(
            node.told("CLUSTER INFO")["cluster_state"] == "ok" for node in self.nodes
        ) and all(one.told("replication").get("master_link_status") == "up" for one in replicas)

    def owner(self, slot: int) -> RedisServer:
        """Return the first owner of a slot, before any move."""
        return self.masters[next(i for i in range(MASTERS) if slot < SLOTS * (i + 1) // MASTERS)]

    def begin_move(self, slot: int, to: RedisServer) -> None:
        """Start to move a slot: its owner now redirects for keys that it no longer has."""
        source = self.owner(slot)
        self.moving[slot] = (source, to)
        to.do("CLUSTER", "SETSLOT", slot, "IMPORTING", _id(source))
        source.do("CLUSTER", "SETSLOT", slot, "MIGRATING", _id(to))

    def carry(self, slot: int) -> int:
        """Move the keys that are in the slot now; return their number."""
        source, to = self.moving[slot]
        keys: list[bytes] = source.do("CLUSTER", "GETKEYSINSLOT", slot, 10_000)
        if keys:
            auth = ("AUTH2", "operator", PASSWORD)
            source.do("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, *auth, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot: int) -> None:
        """Move the remaining keys, and assign the slot to its new owner."""
        while self.carry(slot):
            pass
        source, to = self.moving.pop(slot)
        for node in (to, source, *(one for one in self.masters if one not in (to, source))):
            node.do("CLUSTER", "SETSLOT", slot, "NODE", _id(to))

    @staticmethod
    def _knows(node: RedisServer, count: int) -> bool:
        lines = node.do("CLUSTER", "NODES").decode().splitlines()
        return len(lines) == count and all(
            "handshake" not in line and " connected" in line for line in lines
        )


@contextlib.contextmanager
def redis_cluster(*directives: str, replicas: int = 0, kind: str = "redis") -> Iterator[Cluster]:
    """
    Run three masters, each with this number of replicas, all with these directives.

    If a master without a replica is lost, the whole cluster is down, which is Redis' default.
    """
    lines = (
        "cluster-enabled yes",
        f"cluster-node-timeout {NODE_TIMEOUT_MS}",
        "repl-diskless-sync-delay 0",
        *directives,
    )
    with contextlib.ExitStack() as stack:

        def node() -> RedisServer:
            return stack.enter_context(redis_server(*lines, kind=kind))

        masters = [node() for _ in range(MASTERS)]
        cluster = Cluster(masters, [[node() for _ in range(replicas)] for _ in masters])
        cluster.form()
        yield cluster


def _id(node: RedisServer) -> str:
    return str(node.do("CLUSTER", "MYID").decode())


def _pairs(answer: list[bytes]) -> dict[str, str]:
    words = [word.decode() for word in answer]
    return dict(zip(words[::2], words[1::2], strict=True))
