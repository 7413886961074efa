"""
Redis Cluster: sends commands to each node in one round trip, through redis-py's Cluster client.

When a node fails, that client would close its connections to all nodes, sleep, and retry several
times. Here, an operation on a lost connection is retried once, immediately and on new connections,
and then fails. In parallel, the slot table is refreshed, so that a replica that takes over is
found. ASKING is sent directly before its command on one connection; that client may use two.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from redis.asyncio.cluster import ClusterNode, PipelineCommand, RedisCluster
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's
    MovedError,
    ResponseError,
    SlotNotCoveredError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError
from typing_extensions import override

from reasoning_replay.adapters.stores.base import BadCursor
from reasoning_replay.adapters.stores.redis.executor import FAILURES, Command, RedisExecutor, key_of

SLOTS = 16384
LOOK_AGAIN_S = 1.0  # shortest time between two refreshes of the slot table
_LOST = (ConnectionError, RedisTimeoutError)


class ClusterExecutor(RedisExecutor):
    """
    Executor of commands on all nodes of a Cluster; it connects on first use.

    Each of the operations `at_once` needs a connection to each node.
    """

    def __init__(self, cluster: RedisCluster, at_once: int) -> None:
        self._cluster = cluster
        self._start = dict(cluster.nodes_manager.startup_nodes)
        self._turn = asyncio.Semaphore(at_once)
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._is_closed = False

    @override
    async def run(self, commands: Sequence[Command]) -> list[Any]:
        # Commands for different nodes run in parallel.
        async with self._turn:
            try:
                try:
                    results = await self._run(commands)
                except ConnectionError:  # perhaps of a stale connection
                    nodes = self._cluster.get_nodes()
                    await asyncio.gather(*(node.disconnect_free_connections() for node in nodes))
                    results = await self._run(commands)
            except (*FAILURES, asyncio.CancelledError):
                self._look_again()  # a hanging node shows up as a cancelled operation
                raise
        if any(isinstance(result, ClusterDownError) for result in results):
            self._look_again()
        return results

    @override
    async def read(
        self, names: Sequence[str], commands: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        # One GET per name, as names are in different slots.
        results = await self.run([*(("GET", name) for name in names), *commands])
        strings, others = results[: len(names)], results[len(names) :]
        for n, string in enumerate(strings):
            if isinstance(string, ResponseError) and str(string).startswith("WRONGTYPE"):
                strings[n] = None  # as MGET returns it
            elif isinstance(string, Exception):
                raise string
        return strings, others

    @override
    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        # Node by node; it may miss a name while slots move.
        number, _, at = (cursor or "0:0").partition(":")
        index, place = int(number), int(at or 0)
        await self._cluster.initialize()
        nodes = self._primaries()
        if index not in range(len(nodes)):
            raise BadCursor
        words = ("SCAN", place, "MATCH", pattern, "COUNT", count)
        after, names = await self._ask(nodes[index], *words)
        if int(after):
            return f"{index}:{int(after)}", names
        return (f"{index + 1}:0" if index + 1 < len(nodes) else ""), names

    @override
    async def check(self) -> None:
        # For every primary node and every slot.
        await self._cluster.initialize()
        await asyncio.gather(*(self._ask(node, "PING") for node in self._primaries()))
        if len(self._cluster.nodes_manager.slots_cache) < SLOTS:
            self._look_again()
            raise SlotNotCoveredError("some slots of the Cluster have no node")

    @override
    async def close(self) -> None:
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._cluster.aclose()

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        await self._cluster.initialize()
        pipe = self._cluster.pipeline()
        for command in commands:
            node = self._cluster.get_node_from_key(key_of(command))
            pipe.execute_command(*command, target_nodes=node)
        results = await pipe.execute(raise_on_error=False, allow_redirections=False)
        for n, result in enumerate(results):
            if isinstance(result, AskError):  # or its subclass MovedError
                results[n] = await self._redirected(commands[n], result)
        for result in results:
            if isinstance(result, _LOST):
                raise result  # partial results are not used
        return results

    async def _redirected(self, command: Command, error: AskError) -> Any:  # noqa: ANN401
        """Run a command on the node to which its slot has moved or is moving; return its result."""
        if isinstance(error, MovedError):
            await self._cluster.nodes_manager.move_slot(error)
            try:
                return await self._cluster.execute_command(*command)
            except ResponseError as refused:
                return refused
        node = self._cluster.get_node(error.host, error.port)
        if node is None:
            raise error
        asking = [PipelineCommand(0, "ASKING"), PipelineCommand(1, *command)]
        await node.execute_pipeline(asking)
        return asking[1].result

    def _primaries(self) -> list[ClusterNode]:
        return sorted(self._cluster.get_primaries(), key=lambda node: node.name)

    async def _ask(self, node: ClusterNode, *command: str | int) -> Any:  # noqa: ANN401 - as it answers
        """Send one command to one node."""
        async with self._turn:
            try:
                return await node.execute_command(*command)
            except (*_LOST, asyncio.CancelledError):
                self._look_again()
                raise

    def _look_again(self) -> None:
        """Schedule a refresh of the slot table; no operation waits for it."""
        is_looking = self._looking is not None and not self._looking.done()
        if not is_looking and not self._is_closed:
            wait_s = self._looked_at + LOOK_AGAIN_S - time.monotonic()
            self._looking = asyncio.create_task(self._look(max(0.0, wait_s)))

    async def _look(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self._looked_at = time.monotonic()
        nodes = self._cluster.nodes_manager
        # Host names in the settings may lead to other nodes by now.
        nodes.startup_nodes = self._start | nodes.startup_nodes
        try:
            await nodes.initialize()
        except FAILURES:
            return  # the next operation that fails schedules a refresh
