"""
Redis Cluster: commands sent to each node in one round trip, by redis-py's client for Clusters.

When a node fails, that client would close its connections to all nodes, sleep, and try again
several times. Here an operation is tried once more at once, on new connections, and then fails.
Which node keeps what is looked up again beside it, so that a replica that takes over is found.
ASKING goes directly ahead of the command that it is for; that client may use two connections.
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

from reasoning_replay.adapters.stores.redis.errors import FAILURES
from reasoning_replay.adapters.stores.redis.executor import Command

__all__ = ["ClusterExecutor"]

SLOTS = 16384
LOOK_AGAIN_S = 1.0  # the least time between two looks, however much fails meanwhile
_LOST = (ConnectionError, RedisTimeoutError)


class ClusterExecutor:
    """All nodes of a Cluster; as `RedisExecutor`."""

    def __init__(self, cluster: RedisCluster, at_once: int) -> None:
        """
        Connect on first use.

        Args:
            cluster: Closed by `close`. It retries nothing, and returns bytes.
            at_once: Operations at a time; each needs a connection to each node.
        """
        self._cluster = cluster
        self._start = dict(cluster.nodes_manager.startup_nodes)
        self._turn = asyncio.Semaphore(at_once)
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._is_closed = False

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """As `RedisExecutor.run`; commands for different nodes run side by side."""
        async with self._turn:
            try:
                try:
                    results = await self._run(commands)
                except ConnectionError:  # of a connection that went stale, perhaps
                    nodes = self._cluster.get_nodes()
                    await asyncio.gather(*(node.disconnect_free_connections() for node in nodes))
                    results = await self._run(commands)
            except (*FAILURES, asyncio.CancelledError):
                self._look_again()  # a node that hangs shows as an operation that is cancelled
                raise
        if any(isinstance(result, ClusterDownError) for result in results):
            self._look_again()
        return results

    async def read(
        self, names: Sequence[str], commands: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        """As `RedisExecutor.read`; names lie in different slots, so each is a command."""
        results = await self.run([*(("GET", name) for name in names), *commands])
        strings, others = results[: len(names)], results[len(names) :]
        for n, string in enumerate(strings):
            if isinstance(string, ResponseError) and str(string).startswith("WRONGTYPE"):
                strings[n] = None  # as MGET has it
            elif isinstance(string, Exception):
                raise string
        return strings, others

    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        """As `RedisExecutor.scan`, node after node; while slots move, it may miss a name."""
        number, _, at = (cursor or "0:0").partition(":")
        index, place = int(number), int(at or 0)
        await self._cluster.initialize()
        nodes = self._primaries()
        if index not in range(len(nodes)):
            raise ValueError("no such node")
        words = ("SCAN", place, "MATCH", pattern, "COUNT", count)
        after, names = await self._ask(nodes[index], *words)
        if int(after):
            return f"{index}:{int(after)}", names
        return (f"{index + 1}:0" if index + 1 < len(nodes) else ""), names

    async def check(self) -> None:
        """As `RedisExecutor.check`: every node that keeps anything."""
        await self._cluster.initialize()
        await asyncio.gather(*(self._ask(node, "PING") for node in self._primaries()))
        if len(self._cluster.nodes_manager.slots_cache) < SLOTS:
            self._look_again()
            raise SlotNotCoveredError("a part of the Cluster is gone")

    async def close(self) -> None:
        """As `RedisExecutor.close`."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._cluster.aclose()

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        await self._cluster.initialize()
        pipe = self._cluster.pipeline()
        for command in commands:
            node = self._cluster.get_node_from_key(str(command[1]))
            pipe.execute_command(*command, target_nodes=node)
        results = await pipe.execute(raise_on_error=False, allow_redirections=False)
        for n, result in enumerate(results):
            if isinstance(result, AskError):  # or one that is derived from it
                results[n] = await self._redirected(commands[n], result)
        for result in results:
            if isinstance(result, _LOST):
                raise result  # half of the results is none
        return results

    async def _redirected(self, command: Command, error: AskError) -> Any:  # noqa: ANN401
        """Run a command where its slot has moved, or is moving to; return its result."""
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
        """Look up again which node keeps what, soon; no operation waits for that."""
        is_looking = self._looking is not None and not self._looking.done()
        if not is_looking and not self._is_closed:
            wait_s = self._looked_at + LOOK_AGAIN_S - time.monotonic()
            self._looking = asyncio.create_task(self._look(max(0.0, wait_s)))

    async def _look(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        self._looked_at = time.monotonic()
        nodes = self._cluster.nodes_manager
        # Those of the settings have names, perhaps, that lead to others by now.
        nodes.startup_nodes = self._start | nodes.startup_nodes
        try:
            await nodes.initialize()
        except FAILURES:
            return  # the next operation that fails looks again
