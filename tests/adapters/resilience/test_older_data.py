"""A store that returns to older data: what it has is found, whatever copies the replicas hold."""

import asyncio
import contextlib
import io
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from reasoning_replay.adapters.resilience.local_table import LocalTable
from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore, Saved
from reasoning_replay.adapters.resilience.store_guard import StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import Bounds, Store
from reasoning_replay.adapters.stores.contract.turns import SCOPE, bytes_of
from reasoning_replay.adapters.stores.redis.store import RedisStore
from reasoning_replay.adapters.stores.sqlite.store import SqliteStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.records import records_of
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.history.turns import Turn

from tests.adapters.resilience.replicas import MIB, Shared, looked_up, said
from tests.adapters.stores.kinds import link_to
from tests.patience import LONG_S
from tests.redis_server import redis_server

BOUNDS = Bounds(ttl_s=86_400, max_turns=100, max_bytes=1 << 20)
ONE = said("1", created_ms=1)
Act = Callable[[], None]


class Agent:
    """A conversation, any turn of which may go through any replica."""

    def __init__(self, opens: Callable[[], Store]) -> None:
        self.replicas = {name: replica(opens()) for name in "AB"}
        self.history: list[Turn] = []

    async def turn(self, at: str) -> set[int]:
        """Continue at one replica; return the numbers of the turns that it finds."""
        store, number = self.replicas[at], len(self.history) + 1
        found: set[bytes] = set()
        if self.history:
            lookups = looked_up(*self.history)
            result = await store.look_up(SCOPE, lookups, Budget(LONG_S))
            assert result is not None
            found = {one.id for one in result.turns}
        new = said(f"{number}", self.history[-1] if self.history else None, created_ms=number)
        saved = await store.save(
            SCOPE, new.conversation, records_of(new), keys_of_turn(new), Budget(LONG_S)
        )
        assert saved is Saved.DONE
        self.history.append(new)
        return {n for n in range(1, number) if bytes_of(f"{n}") in found}


def replica(store: Store) -> SafeStore:
    """Return the safe store of one process, with local copies."""
    metrics = Metrics()
    guard = StoreGuard(LONG_S, metrics, Log("info", "json", io.StringIO()), time.monotonic)
    room = Room(MIB)
    return SafeStore(store, guard, LocalTable(room), room, Offloader())


Stored = tuple[Callable[[], Store], Act, Act]  # opens a store, notes its data, returns it to them


@contextlib.contextmanager
def on_memory(_: Path) -> Iterator[Stored]:
    """Yield a store in memory, which never returns to older data by itself."""
    shared, older = Shared(), {}

    def note() -> None:
        older.update({name: (one.version, {**one.records}) for name, one in shared.kept.items()})

    def put_back() -> None:
        for name, (version, records) in older.items():
            shared.kept[name].version, shared.kept[name].records = version, records

    yield lambda: shared, note, put_back


@contextlib.contextmanager
def on_sqlite(folder: Path) -> Iterator[Stored]:
    """Yield a file, and copies of it and of its log."""
    path = folder / "replay.db"

    def note() -> None:
        for file in folder.glob("replay.db*"):
            shutil.copy(file, folder / f"older-{file.name}")

    def put_back() -> None:
        for file in folder.glob("replay.db*"):
            file.unlink()
        (folder / "older-replay.db-wal").rename(folder / "replay.db-wal")
        (folder / "older-replay.db").rename(path)

    yield lambda: SqliteStore(str(path), BOUNDS, 1 << 30, LONG_S, time.time), note, put_back


@contextlib.contextmanager
def on_redis(_: Path) -> Iterator[Stored]:
    """Yield a Redis, and a dump of its keys."""
    with redis_server() as server, server.operator() as operator:
        dumped: dict[bytes, bytes] = {}

        def note() -> None:
            for key in server.do("KEYS", "*"):
                dumped[key] = server.do("DUMP", key, by=operator)

        def put_back() -> None:
            server.do("FLUSHALL")
            for key, value in dumped.items():
                server.do("RESTORE", key, 0, value, by=operator)

        yield lambda: RedisStore(link_to(server.url)(), BOUNDS), note, put_back


KINDS = {"memory": on_memory, "sqlite": on_sqlite, "redis": on_redis}


@contextlib.asynccontextmanager
async def stored(kind: str, folder: Path) -> AsyncIterator[Stored]:
    """Yield a store of this kind; at the end, close all that were opened."""
    opened: list[Store] = []
    with KINDS[kind](folder) as (opens, note, put_back):

        def noted() -> Store:
            opened.append(opens())
            return opened[-1]

        yield noted, note, put_back
        for store in opened:
            await store.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "redis"])
async def test_no_copy_of_lost_turns_is_valid(kind: str, tmp_path: Path) -> None:
    """Turn 2 is lost with the store's newer data; every other turn is found by both replicas."""
    async with stored(kind, tmp_path) as (opens, note, put_back):
        agent = Agent(opens)
        assert await agent.turn("A") == set()
        await asyncio.to_thread(note)
        assert await agent.turn("A") == {1}
        await asyncio.to_thread(put_back)
        assert await agent.turn("B") == {1}
        assert await agent.turn("A") == {1, 3}
        assert await agent.turn("B") == {1, 3, 4}
        assert await agent.turn("A") == {1, 3, 4, 5}


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
async def test_no_version_repeats(kind: str, tmp_path: Path) -> None:
    """A save after the return to older data has not the version of the one that was lost."""
    async with stored(kind, tmp_path) as (opens, note, put_back):
        store = opens()
        first = await store.save((SCOPE, ONE.conversation), records_of(ONE), keys_of_turn(ONE))
        await asyncio.to_thread(note)
        lost = await store.save((SCOPE, ONE.conversation), {}, [])
        await asyncio.to_thread(put_back)
        again = await store.save((SCOPE, ONE.conversation), {}, [])
        assert lost.before == again.before == first.after
        assert lost.after != again.after
