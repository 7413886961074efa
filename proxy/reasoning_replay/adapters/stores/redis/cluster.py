"""
A Redis Cluster: which node keeps what, and commands sent to each node in one round trip.

redis-py's own client for this closes every connection to every node when one node fails, sleeps
a quarter of a second before each new try, and sends ASKING on whichever connection is free. Here
a node that fails fails what was asked of it, and nothing else; which node keeps what is looked up
again beside it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - redis-py's
    MovedError,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)

from reasoning_replay.adapters.stores.redis.executor import Command, ask, run_on, scan_on

__all__ = ["Cluster"]

Node = tuple[str, int]
Got = TypeVar("Got")

SLOTS = 16384
# A slot that moves redirects once; while a whole node is handed over it may do so again.
REDIRECTIONS = 3
# Nodes asked at once for who keeps what, besides those that the settings name.
ASKED = 3
LOOK_AGAIN_S = 1.0  # the least time between two looks, however much fails meanwhile
_FAILURES = (RedisError, OSError, TimeoutError, TypeError, ValueError)  # an odd answer is one too


class Cluster:
    """The way to all nodes of a Cluster; as `Link`."""

    def __init__(self, start: Sequence[Node], opens: Callable[[str, int], "Redis"]) -> None:
        """
        Connect on first use.

        Args:
            start: Some of its nodes.
            opens: Gives a client of one node.
        """
        self._start = tuple(start)
        self._opens = opens
        self._clients: dict[Node, Redis] = {}
        self._keeper: list[Node | None] = []  # by slot; [] until it is known
        self._looking: asyncio.Task[Exception | None] | None = None
        self._looked_at = float("-inf")
        self._is_closed = False

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """As `Link.run`; commands for different nodes run side by side."""
        await self._know()
        results: list[Any] = [None] * len(commands)
        to_do = {n: self._keeper_of(command[1]) for n, command in enumerate(commands)}
        asking: set[int] = set()
        for _ in range(1 + REDIRECTIONS):
            by_node: dict[Node, list[int]] = {}
            for n, node in to_do.items():
                by_node.setdefault(node, []).append(n)
            answers = await self._side_by_side(
                [
                    self._ask(node, [(commands[n], n in asking) for n in numbers])
                    for node, numbers in by_node.items()
                ]
            )
            to_do, asking = {}, set()
            for (node, numbers), answer in zip(by_node.items(), answers, strict=True):
                for n, result in zip(numbers, answer, strict=True):
                    results[n] = result
                    if isinstance(result, AskError):
                        to_do[n] = self._redirected(result, node)
                        if not isinstance(result, MovedError):
                            asking.add(n)
                    elif isinstance(result, ClusterDownError):
                        self._doubt()
            if not to_do:
                break
        return results

    async def get_all(self, names: Sequence[str]) -> list[Any]:
        """As `Link.get_all`; names lie in different slots, so each is a command."""
        answers = await self.run([("GET", name) for name in names])
        for n, answer in enumerate(answers):
            if isinstance(answer, ResponseError) and str(answer).startswith("WRONGTYPE"):
                answers[n] = None  # as MGET has it
            elif isinstance(answer, Exception):
                raise answer
        return answers

    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        """As `Link.scan`, node after node; while slots move, a name may be missed or come twice."""
        await self._know()
        nodes = self._nodes()
        number, _, at = (cursor or "0:0").partition(":")
        index, place = int(number), int(at or 0)
        if index not in range(len(nodes)):
            raise ValueError("no such node")
        (result,) = await self._side_by_side(
            [self._on(nodes[index], lambda client: scan_on(client, place, pattern, count))]
        )
        after, names = result
        if after:
            return f"{index}:{after}", names
        return (f"{index + 1}:0" if index + 1 < len(nodes) else ""), names

    async def check(self) -> None:
        """As `Link.check`: every node that keeps anything."""
        await self._know()
        pings = [self._on(node, lambda client: ask(client, "PING")) for node in self._nodes()]
        await self._side_by_side(pings)
        if None in self._keeper:
            self._doubt()
            raise SlotNotCoveredError("a part of the Cluster is gone")

    async def close(self) -> None:
        """As `Link.close`."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._let_go(self._clients)

    def _client(self, node: Node) -> "Redis":
        if node not in self._clients:
            self._clients[node] = self._opens(*node)
        return self._clients[node]

    def _nodes(self) -> list[Node]:
        return sorted({node for node in self._keeper if node is not None})

    def _keeper_of(self, name: str | bytes | int) -> Node:
        slot = key_slot(str(name).encode())
        node = self._keeper[slot]
        if node is None:
            self._doubt()
            raise SlotNotCoveredError("a part of the Cluster is gone")
        return node

    def _redirected(self, error: AskError, asked: Node) -> Node:
        """Return where to ask next: "" for a host means the one that said so."""
        node = (error.host or asked[0], error.port)
        if isinstance(error, MovedError):
            self._keeper[error.slot_id] = node
            self._doubt()
        return node

    async def _ask(self, node: Node, batch: Sequence[tuple[Command, bool]]) -> list[Any]:
        """Send commands to one node; ASKING goes directly ahead of the one that it is for."""
        commands: list[Command] = []
        wanted: list[int] = []
        for command, is_asking in batch:
            if is_asking:
                commands.append(("ASKING",))
            wanted.append(len(commands))
            commands.append(command)
        answers = await self._on(node, lambda client: run_on(client, commands))
        return [answers[n] for n in wanted]

    async def _on(self, node: Node, act: Callable[["Redis"], Awaitable[Got]]) -> Got:
        """Do something on one node; a client that was let go meanwhile may have connected anew."""
        client = self._client(node)
        try:
            return await act(client)
        finally:
            if self._is_closed or self._clients.get(node) is not client:
                await client.aclose()

    async def _side_by_side(self, asked: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Wait for all, then raise if any failed: half of the answers is none."""
        try:
            answers = await asyncio.gather(*asked, return_exceptions=True)
        except asyncio.CancelledError:
            self._doubt()  # it took too long, perhaps: that is how a node that hangs shows
            raise
        for answer in answers:
            if isinstance(answer, BaseException):
                self._doubt()
                raise answer
        return answers

    async def _know(self) -> None:
        """Find out who keeps what, if that is not known; for all who wait, once."""
        if self._keeper:
            return
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(delay_s=0))
        # Whoever cannot wait so long leaves; the look goes on, for the next.
        error = await asyncio.shield(self._looking)
        if error is not None:
            raise error

    def _doubt(self) -> None:
        """Look again, soon; nobody waits for that."""
        is_looking = self._looking is not None and not self._looking.done()
        if not is_looking and not self._is_closed:
            wait_s = self._looked_at + LOOK_AGAIN_S - time.monotonic()
            self._looking = asyncio.create_task(self._look(delay_s=max(0.0, wait_s)))

    async def _look(self, delay_s: float) -> Exception | None:
        """Ask several nodes at once who keeps what; the first that knows is believed."""
        await asyncio.sleep(delay_s)
        self._looked_at = time.monotonic()
        known = self._nodes()
        asked = {*random.sample(known, min(ASKED, len(known))), *self._start}
        tasks = [asyncio.create_task(self._keepers(node)) for node in asked]
        error: Exception = ConnectionError("no node of the Cluster answers")
        try:
            for answer in asyncio.as_completed(tasks):
                try:
                    self._keeper = await answer
                except _FAILURES as failure:
                    error = failure
                else:
                    break
            else:
                return error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        keep = set(self._nodes())
        gone = {node: client for node, client in self._clients.items() if node not in keep}
        self._clients = {node: self._clients[node] for node in self._clients if node in keep}
        await self._let_go(gone)
        return None

    async def _keepers(self, asked: Node) -> list[Node | None]:
        """Ask one node who keeps what."""
        keeper: list[Node | None] = [None] * SLOTS
        # In two words, so that redis-py hands over what came.
        slots = await self._on(asked, lambda client: ask(client, "CLUSTER", "SLOTS"))
        for first, last, master, *_ in slots:
            # No host means that of the node which was asked; "?" that nobody knows.
            host = (master[0] or b"").decode() or asked[0]
            if host != "?":
                keeper[first : last + 1] = [(host, int(master[1]))] * (last + 1 - first)
        if not any(keeper):
            raise ClusterDownError("it keeps no slots")
        return keeper

    async def _let_go(self, clients: dict[Node, "Redis"]) -> None:
        for client in list(clients.values()):
            await client.aclose()
