"""
Redis Cluster: sends commands to each node in one round trip, and follows slots that move.

Each node is a `SingleServer` with its own pool. An operation fails if one of its nodes fails. The
slot table is then read again, so that a replica that takes over is found; no operation waits for
that. redis-py's Cluster client closes its connections to all nodes when one fails, sleeps, and
retries several times; ASKING may go on another connection than its command.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    ResponseError,
    SlotNotCoveredError,
)
from typing_extensions import override

from reasoning_replay.adapters.stores.base import BadCursor
from reasoning_replay.adapters.stores.redis.errors import (
    FAILURES,
    SilentError,
    closed_error,
    code_of,
)
from reasoning_replay.adapters.stores.redis.executor import (
    Command,
    RedisExecutor,
    SingleServer,
    key_of,
)
from reasoning_replay.adapters.stores.redis.slots import Address, SlotTable, host_of

LOOK_AGAIN_S = 1.0  # shortest time from one refresh of the slot table to the next
# Most nodes that are asked for the slot table at once, in addition to those of the settings.
ASKED = 3
# Most nodes that a command is sent to, one after another: a slot has moved, and moves again.
HOPS = 4

# Where a command goes: a node, and whether ASKING precedes it.
_Place = tuple[Address, bool]
_Got = TypeVar("_Got")


class ClusterExecutor(RedisExecutor):
    """Executor of commands on all nodes of a Cluster; it connects on first use."""

    is_in_order = False

    def __init__(
        self, seeds: Sequence[Address], opens: Callable[[str, int], SingleServer], timeout_s: float
    ) -> None:
        """
        Start without a connection.

        Args:
            seeds: Some of the Cluster's nodes. They are asked at each refresh of the slot table:
                their names may lead to other nodes by then.
            opens: Returns a node.
            timeout_s: Timeout of each node's part of an operation, and of a refresh.
        """
        self._seeds = list(seeds)
        self._opens = opens
        self._timeout_s = timeout_s
        self._nodes: dict[Address, SingleServer] = {}
        self._table: SlotTable | None = None
        self._is_in_doubt = asyncio.Event()  # the table
        self._refreshing: asyncio.Task[None] | None = None
        self._told: asyncio.Future[SlotTable | Exception] | None = None  # of the next refresh
        self._is_closed = False

    @override
    async def run(self, commands: Sequence[Command]) -> list[Any]:
        # Commands for different nodes run in parallel.
        try:
            results = await self._run(commands)
        except (*FAILURES, asyncio.CancelledError):
            self._is_in_doubt.set()  # a hanging node shows up as a cancelled operation
            raise
        if any(isinstance(result, ClusterDownError) for result in results):
            self._is_in_doubt.set()
        return results

    @override
    async def read(
        self, names: Sequence[str], commands: Sequence[Command]
    ) -> tuple[list[Any], list[Any]]:
        # One GET per name, as names are in different slots.
        results = await self.run([*(("GET", name) for name in names), *commands])
        strings, others = results[: len(names)], results[len(names) :]
        for n, string in enumerate(strings):
            if isinstance(string, ResponseError) and code_of(string) == "WRONGTYPE":
                strings[n] = None  # as MGET returns it
            elif isinstance(string, Exception):
                raise string
        return strings, others

    @override
    async def scan(self, cursor: str, pattern: str, count: int) -> tuple[str, list[bytes]]:
        # Node by node; it may miss a name while slots move.
        index, _, at = (cursor or "0:").partition(":")
        nodes = sorted((await self._known()).masters)
        if int(index) not in range(len(nodes)):
            raise BadCursor
        address = nodes[int(index)]
        act = self._in_time(address, partial(self._node(address).scan, at, pattern, count))
        ((after, names),) = await self._each([act])
        if after:
            return f"{index}:{after}", names
        following = int(index) + 1
        return (f"{following}:" if following < len(nodes) else ""), names

    @override
    async def check(self) -> None:
        # For every primary node and every slot.
        table = await self._known()
        await self._each(
            [self._in_time(address, self._node(address).check) for address in table.masters]
        )
        if not table.is_whole:
            self._is_in_doubt.set()
            raise SlotNotCoveredError("some slots of the Cluster have no node")

    @override
    async def close(self) -> None:
        # First what cannot be cancelled, so that no connection stays open.
        self._is_closed = True
        for node in [*self._nodes.values()]:
            await node.close()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    async def _run(self, commands: Sequence[Command]) -> list[Any]:
        table = await self._known()
        places: dict[int, _Place] = {}
        for n, command in enumerate(commands):
            master = table.master(key_slot(key_of(command).encode()))
            if master is None:
                raise SlotNotCoveredError("some slots of the Cluster have no node")
            places[n] = (master, False)
        results: list[Any] = [None] * len(commands)
        for _ in range(HOPS):
            for n, result in await self._sent(commands, places):
                results[n] = result
            places = {
                n: self._redirected(results[n], places[n][0])
                for n in places
                if isinstance(results[n], AskError)  # or its subclass MovedError
            }
            if not places:
                break
        return results

    async def _sent(
        self, commands: Sequence[Command], places: Mapping[int, _Place]
    ) -> list[tuple[int, Any]]:
        """Send each command to its place; return the results with the numbers of the commands."""
        groups: defaultdict[_Place, list[int]] = defaultdict(list)
        for n, place in places.items():
            groups[place].append(n)

        async def send(place: _Place, numbers: Sequence[int]) -> list[tuple[int, Any]]:
            address, asks = place
            sent = [commands[n] for n in numbers]
            if asks:
                sent = [word for command in sent for word in (("ASKING",), command)]
            results = await self._in_time(address, partial(self._node(address).run, sent))
            return list(zip(numbers, results[1::2] if asks else results, strict=True))

        some = [send(place, numbers) for place, numbers in groups.items()]
        return [one for group in await self._each(some) for one in group]

    async def _in_time(self, address: Address, act: Callable[[], Awaitable[_Got]]) -> _Got:
        """Limit the time of a node's part: one that hangs costs no connection to another node."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await act()
        except TimeoutError:
            raise SilentError(f"{address[0]}:{address[1]}") from None

    async def _each(self, acts: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
        """Run actions on nodes in parallel, each to its end; raise if any failed."""
        results: list[Any] = await asyncio.gather(*acts, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                self._is_in_doubt.set()
                raise result
        return results

    def _redirected(self, error: AskError, asked: Address) -> _Place:
        """Return the place to which a node redirects a command."""
        address = (host_of(error.host, asked[0]), error.port)
        if not isinstance(error, MovedError):
            return address, True
        if self._table is not None:
            self._table.move(error.slot_id, address)
        self._is_in_doubt.set()  # other slots have perhaps moved, too
        return address, False

    def _node(self, address: Address) -> SingleServer:
        if self._is_closed:
            raise closed_error()
        if address not in self._nodes:
            self._nodes[address] = self._opens(*address)
        return self._nodes[address]

    async def _known(self) -> SlotTable:
        """Return the slot table; read it first if there is none."""
        if self._is_closed:
            raise closed_error()
        if self._refreshing is None:  # in no context: it outlives the request that it begins with
            self._refreshing = asyncio.create_task(self._refresh(), context=Context())
            self._refreshing.add_done_callback(self._refreshes_no_more)
        if self._table is not None:
            return self._table
        if self._told is None:
            self._told = asyncio.get_running_loop().create_future()
        self._is_in_doubt.set()
        told = await asyncio.shield(self._told)
        if isinstance(told, Exception):
            raise told
        return told

    async def _refresh(self) -> None:
        """
        Refresh the slot table whenever it is in doubt; only the first operations wait for that.

        This task begins with an operation, and never because one ends. A loop that ends cancels
        its tasks once: one that began then would be left, with the connections that it opens.
        """
        while True:
            await self._is_in_doubt.wait()
            told = await self._look()
            self._is_in_doubt.clear()
            self._tell(told)
            if self._table is not None:
                await asyncio.sleep(LOOK_AGAIN_S)

    def _refreshes_no_more(self, _: asyncio.Task[None]) -> None:
        self._refreshing = None
        self._tell(closed_error())

    def _tell(self, told: SlotTable | Exception) -> None:
        """Pass the result of a refresh to the operations that wait for it."""
        waited, self._told = self._told, None
        if waited is not None:
            waited.set_result(told)

    async def _look(self) -> SlotTable | Exception:
        """Read the slot table; return it, or why that failed."""
        known = sorted(self._table.nodes) if self._table is not None else []
        some = random.sample(known, min(ASKED, len(known)))
        asked = list(dict.fromkeys([*self._seeds, *some]))
        tasks = [asyncio.ensure_future(self._told_by(address)) for address in asked]
        told: SlotTable | Exception = SilentError("asking for the slots of the Cluster")
        try:
            async with asyncio.timeout(self._timeout_s):
                for task in asyncio.as_completed(tasks):
                    try:
                        table = await task
                    except Exception as error:  # noqa: BLE001 (others may answer)
                        told = told if isinstance(told, SlotTable) else error
                        continue
                    if table.is_whole or isinstance(told, Exception):
                        told = table
                    if table.is_whole:
                        break
        except TimeoutError:
            pass  # of those that did not answer
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(told, SlotTable):
            self._table = told
            for address in set(self._nodes) - told.masters:
                self._nodes.pop(address).pool.retire()
        return told

    async def _told_by(self, address: Address) -> SlotTable:
        """Return the slot table as one node tells it."""
        return SlotTable(await self._node(address).ask("CLUSTER", "SLOTS"), address)
