"""Replicas that share one store, each with a local cache, and the histories that they look up."""

import asyncio
import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import structs
from reasoning_replay.adapters.resilience.local_table import LocalTable
from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore, Saved
from reasoning_replay.adapters.resilience.store_guard import StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import (
    Bounds,
    Name,
    StoreError,
    StoreResult,
    VersionChange,
)
from reasoning_replay.adapters.stores.contract.turns import SCOPE, bytes_of, turn
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    keys_of_name,
    keys_of_turn,
)
from reasoning_replay.core.history.records import records_of, turns_of
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.history.turns import Turn
from typing_extensions import override

from tests.adapters.stores.dictionary import DictStore
from tests.patience import LONG_S

MIB = 1 << 20


class Shared(DictStore):
    """
    The store of all replicas, which waits and fails as a test says.

    Attributes:
        now_s: Time of all replicas.
        lookups, saves: Number of calls.
        is_away, is_full: Whether the store is unreachable, or full. A full store can be read.
        reads: While it is cleared, lookups wait before they read.
        answers: While it is cleared, lookups and saves wait before they end.
    """

    def __init__(self) -> None:
        super().__init__(Bounds(1 << 30, 1 << 20, 1 << 30), lambda: self.now_s)
        self.now_s = 1000.0
        self.lookups = self.saves = 0
        self.is_away = self.is_full = False
        self.reads, self.answers = asyncio.Event(), asyncio.Event()
        self.reads.set()
        self.answers.set()

    @property
    def kept(self) -> Mapping[tuple[bytes, bytes], Any]:
        """Conversations by scope and id, also while the store is unreachable."""
        return self._conversations

    @override
    async def look_up(
        self, scope: bytes, lookups: Sequence[Lookup], held: Mapping[bytes, int]
    ) -> StoreResult:
        self.lookups += 1
        before = dict(held)
        await self.reads.wait()
        self._fail_if(self.is_away)
        now = {one: kept.version for (of, one), kept in self.kept.items() if of == scope}
        valid = {one: now.get(one, -1) for one in held if now.get(one) in (before[one], held[one])}
        found = await super().look_up(scope, lookups, dict.fromkeys(held, -1) | valid)
        await self.answers.wait()
        return found

    @override
    async def save(
        self,
        name: Name,
        records: Mapping[bytes, bytes],
        keys: Collection[bytes],
        mark: bytes | None = None,
        *,
        is_stored: bool = True,
    ) -> VersionChange:
        self.saves += 1
        self._fail_if(self.is_away or self.is_full)
        await self.answers.wait()
        return await super().save(name, records, keys, mark, is_stored=is_stored)

    @override
    async def forget(self, scope: bytes, conversation: bytes, *, is_final: bool = False) -> bool:
        self._fail_if(self.is_away)
        return await super().forget(scope, conversation, is_final=is_final)

    @override
    async def mark(self, scope: bytes) -> bytes:
        self._fail_if(self.is_away)
        return await super().mark(scope)

    @override
    async def check(self) -> None:
        self._fail_if(self.is_away)

    def turns(self, scope: bytes, conversation: bytes) -> list[Turn]:
        """Return the turns of a conversation."""
        kept = self.kept.get((scope, conversation))
        return turns_of(conversation, kept.records) if kept is not None else []

    def _fail_if(self, fails: bool) -> None:
        if fails:
            raise StoreError("away")


class Replica:
    """The safe store of one process, on the shared store."""

    def __init__(self, shared: Shared, max_bytes: int = MIB) -> None:
        self.metrics = Metrics()
        log = Log("info", "json", io.StringIO())
        guard = StoreGuard(LONG_S, self.metrics, log, lambda: shared.now_s)
        room = Room(max_bytes or MIB)
        table = LocalTable(room, keeps_copies=max_bytes > 0)
        self.store = SafeStore(shared, guard, table, room, Offloader())

    async def look_up(
        self, *turns: Turn, scope: bytes = SCOPE, also: Sequence[Lookup] = ()
    ) -> LookupResult | None:
        """Look up a history by the ids of its items, newest first."""
        lookups = [*also, *looked_up(*turns)]
        return await self.store.look_up(scope, lookups, Budget(LONG_S))

    async def ids(self, *turns: Turn, scope: bytes = SCOPE) -> set[bytes] | None:
        """Return the ids of the turns that are found for a history."""
        found = await self.look_up(*turns, scope=scope)
        return None if found is None else {turn.id for turn in found.turns}

    async def save(
        self,
        this: Turn,
        scope: bytes = SCOPE,
        budget_s: float = LONG_S,
        known: frozenset[bytes] = frozenset(),
    ) -> Saved:
        """Save a turn, without the records in `known`."""
        records = {name: one for name, one in records_of(this).items() if name not in known}
        keys = keys_of_turn(this)
        return await self.store.save(scope, this.conversation, records, keys, Budget(budget_s))

    def counted(self, result: str) -> float:
        """Return the number of lookups with this result."""
        name = "reasoning_replay_cache_lookups_total"
        return self.metrics.registry.get_sample_value(name, {"result": result}) or 0.0


def said(
    name: str, behind: Turn | None = None, size: int = 10, created_ms: int = 1, items: int = 1
) -> Turn:
    """Return a turn with ids of its own, after another one or as the first."""
    this, parent = bytes_of(name), b"" if behind is None else behind.id
    bare = turn(name, size=size, created_ms=created_ms)
    calls = tuple(
        structs.replace(
            bare.items[0],
            id=f"fc_{this.hex()}{n}",
            call_id=f"call_{this.hex()}{n}",
            content=bytes_of(f"{name} {n}"),
        )
        for n in range(items)
    )
    conversation = this if behind is None else behind.conversation
    return structs.replace(bare, id=this, conversation=conversation, parent=parent, items=calls)


def looked_up(*turns: Turn) -> list[Lookup]:
    """Return lookups of the items of a history by their ids, newest first."""
    return [
        Lookup(place, [*keys_of_name(item.id), *keys_of_name(item.call_id)], [b"t" + item.content])
        for place, item in reversed([*enumerate(turn.items[0] for turn in turns)])
    ]


def text_of(place: int, this: Turn) -> Lookup:
    """Return the lookup of an item by its text only."""
    return Lookup(place, [], [[*keys_of_turn(this)][-1]])
