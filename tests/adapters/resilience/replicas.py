"""Replicas that share one store and keep what they served near them, and who talks to them."""

import asyncio
import io
from collections.abc import Sequence

from msgspec import structs
from reasoning_replay.adapters.resilience.cached_store import CachedStore
from reasoning_replay.adapters.resilience.guarded_store import GuardedStore
from reasoning_replay.adapters.resilience.safe_store import Budget, Saved
from reasoning_replay.adapters.stores.base import Bounds, Page, StoreError
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import (
    Lookup,
    LookupResult,
    keys_of_name,
    keys_of_turn,
)
from reasoning_replay.core.history.turns import Turn

from tests.adapters.stores.turns import SCOPE, bytes_of, turn

__all__ = ["NEAR_TTL_S", "STORE_TTL_S", "Replica", "Shared", "asked_for", "rest", "said", "text_of"]

LONG_S = 30.0
MIB = 1 << 20
NEAR_TTL_S = 50
STORE_TTL_S = 100
BOUNDS = Bounds(STORE_TTL_S, 40, MIB)


class Shared:
    """
    The store of all replicas, which may be away; it is no embedded one to them.

    Attributes:
        kept: What it keeps, also while it is away.
        recalls, saves: How often it was asked.
        is_away, is_full: For everybody; one that is full can be read.
        answers: Set: it does; else what it has seen or shall keep waits for that.
    """

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.kept = MemoryStore(BOUNDS, 64 * MIB, lambda: self.now_s)
        self.recalls = self.saves = 0
        self.is_away = self.is_full = False
        self.answers = asyncio.Event()
        self.answers.set()

    async def recall(self, scope: bytes, asked: Sequence[Lookup]) -> LookupResult:
        """As the store, unless it is away."""
        self.recalls += 1
        if self.is_away:
            raise StoreError("away")
        found = await self.kept.recall(scope, asked)
        await self.answers.wait()
        return found

    async def save(self, scope: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """As the store, unless it is away or full."""
        self.saves += 1
        if self.is_away or self.is_full:
            raise StoreError("away")
        await self.answers.wait()
        await self.kept.save(scope, turn, keys)

    async def survey(self, scope: bytes | None, cursor: str, limit: int) -> Page:
        """As the store."""
        return await self.kept.survey(scope, cursor, limit)

    async def forget(self, scope: bytes, conversation: bytes) -> bool:
        """As the store, unless it is away."""
        if self.is_away:
            raise StoreError("away")
        return await self.kept.forget(scope, conversation)

    async def check(self) -> None:
        """As the store."""

    async def close(self) -> None:
        """As the store."""


class Replica:
    """
    One process's view of the shared store.

    Attributes:
        owed: Ids of turns whose last save failed here.
    """

    def __init__(self, shared: Shared, max_bytes: int = MIB, bounds: Bounds = BOUNDS) -> None:
        self._shared = shared
        self.metrics = Metrics()
        log = Log("info", "json", io.StringIO())
        guarded = GuardedStore(shared, LONG_S, self.metrics, log, lambda: shared.now_s)
        near = _bounded(bounds, NEAR_TTL_S)
        self.store = CachedStore(guarded, near, max_bytes, self.metrics, lambda: shared.now_s)
        self.owed: set[bytes] = set()
        told = guarded.tell

        def tell(scope: bytes, turn: Turn, is_kept: bool) -> None:
            (self.owed.discard if is_kept else self.owed.add)(turn.id)
            told(scope, turn, is_kept)

        guarded.tell = tell

    async def recall(
        self, *turns: Turn, scope: bytes = SCOPE, also: Sequence[Lookup] = ()
    ) -> LookupResult | None:
        """Look a history up by the ids of its items, newest first."""
        return await self.store.recall(scope, [*also, *asked_for(*turns)], Budget(LONG_S))

    async def ids(self, *turns: Turn, scope: bytes = SCOPE) -> set[bytes] | None:
        """Tell which turns are found for a history."""
        found = await self.recall(*turns, scope=scope)
        return None if found is None else {turn.id for turn in found.turns}

    async def save(self, this: Turn, scope: bytes = SCOPE, budget_s: float = LONG_S) -> Saved:
        """Save a turn, and let what that sets off happen."""
        saved = await self.store.save(scope, this, keys_of_turn(this), Budget(budget_s))
        await rest()
        return saved

    def near(self, reason: str) -> float:
        """Tell how many recalls were answered near, for a reason."""
        name = "reasoning_replay_near_recalls_total"
        return self.metrics.registry.get_sample_value(name, {"reason": reason}) or 0.0


def _bounded(bounds: Bounds, ttl_s: int) -> Bounds:
    """Return the same bounds with another time."""
    return Bounds(ttl_s, bounds.max_turns, bounds.max_bytes)


async def rest() -> None:
    """Let what is under way in the background end."""
    for _ in range(30):
        await asyncio.sleep(0)


def said(name: str, behind: Turn | None = None, size: int = 10, created_ms: int = 0) -> Turn:
    """Return a turn with ids that only it has, behind another one or at the head."""
    this, parent = bytes_of(name), b"" if behind is None else behind.id
    bare = turn(name, size=size, created_ms=created_ms)
    call = structs.replace(
        bare.items[0], id=f"fc_{this.hex()}", call_id=f"call_{this.hex()}", content=this
    )
    conversation = this if behind is None else behind.conversation
    return structs.replace(bare, id=this, conversation=conversation, parent=parent, items=(call,))


def asked_for(*turns: Turn) -> list[Lookup]:
    """Ask for the items of a history by their ids, newest first."""
    return [
        Lookup(place, [*keys_of_name(item.id), *keys_of_name(item.call_id)], [b"t" + item.content])
        for place, item in reversed([*enumerate(turn.items[0] for turn in turns)])
    ]


def text_of(place: int, this: Turn) -> Lookup:
    """Ask for an item by what it says alone."""
    return Lookup(place, [], [keys_of_turn(this)[-1]])
