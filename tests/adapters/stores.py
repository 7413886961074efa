"""The stores that keep one contract, each with a way to let its time pass."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from fakeredis import FakeAsyncRedis, FakeServer
from redis.asyncio import Redis

from proxy.adapters.memory_store import MemoryStore
from proxy.adapters.redis_store import RedisStore
from proxy.adapters.store import Bounds, Store

__all__ = ["KINDS", "Kept", "on_fake_redis", "on_memory", "on_real_redis"]

KINDS = ("memory", "fakeredis", "redis")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Kept:
    """
    One store under test.

    Attributes:
        opens: Gives a client of it, with bounds; all clients see the same data.
        passes: Lets so many seconds pass.
        redis: What it is kept in; None for memory.
    """

    opens: Callable[[Bounds], Store]
    passes: Callable[[float], Awaitable[None]]
    redis: "Redis | None" = None


@contextlib.asynccontextmanager
async def on_memory() -> AsyncIterator[Kept]:
    """Keep in this process; its clock stands still until it is moved."""
    now = 1000.0
    stores: dict[Bounds, MemoryStore] = {}

    async def passes(seconds: float) -> None:
        nonlocal now
        now += seconds

    def opens(bounds: Bounds) -> Store:
        return stores.setdefault(bounds, MemoryStore(bounds, 64 * MIB, lambda: now))

    yield Kept(opens, passes)


async def _really(seconds: float) -> None:
    await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def on_fake_redis() -> AsyncIterator[Kept]:
    """Keep in a Redis of this process."""
    server = FakeServer()
    redis = FakeAsyncRedis(server=server)
    opened: list[RedisStore] = []

    def opens(bounds: Bounds) -> Store:
        opened.append(RedisStore(FakeAsyncRedis(server=server), bounds))
        return opened[-1]

    try:
        yield Kept(opens, _really, redis)
    finally:
        for store in opened:
            await store.close()
        await redis.aclose()


@contextlib.asynccontextmanager
async def on_real_redis(url: str) -> AsyncIterator[Kept]:
    """Keep in a real one, which is emptied."""
    redis = Redis.from_url(url)
    await redis.flushall()
    opened: list[RedisStore] = []

    def opens(bounds: Bounds) -> Store:
        opened.append(RedisStore.from_url(url, bounds, 5.0, 16))
        return opened[-1]

    try:
        yield Kept(opens, _really, redis)
    finally:
        for store in opened:
            await store.close()
        await redis.aclose()
