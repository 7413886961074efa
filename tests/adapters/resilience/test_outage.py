"""An outage of a real Redis: what two replicas could not save is there when Redis is back."""

import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from reasoning_replay.adapters.resilience import circuit_breaker
from reasoning_replay.adapters.resilience.conversation_cache import ConversationCache
from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore, Saved
from reasoning_replay.adapters.resilience.store_guard import StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.redis.store import RedisStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import keys_of_turn
from reasoning_replay.core.history.turns import Turn, records_of
from reasoning_replay.web.admin import store_probe

from tests.adapters.resilience.replicas import LONG_S, MIB, looked_up, said
from tests.adapters.stores.kinds import link_to
from tests.adapters.stores.turns import SCOPE
from tests.redis_server import RedisServer, redis_server

BOUNDS = Bounds(ttl_s=86_400, max_turns=1024, max_bytes=8 * MIB)
SOON_S = 0.05


@pytest.fixture(params=[True, False], ids=["keeps its data", "returns empty"])
def redis(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """Yield a Redis that is killed and started again."""
    with redis_server(keeps=request.param) as server:
        yield server


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a failed store soon."""
    monkeypatch.setattr(circuit_breaker, "PAUSE_S", SOON_S)
    monkeypatch.setattr(circuit_breaker, "PAUSE_MAX_S", SOON_S)
    monkeypatch.setattr(store_probe, "LOOK_S", SOON_S)


@contextlib.asynccontextmanager
async def replica(redis: RedisServer) -> AsyncIterator[SafeStore]:
    """Run the store of one replica, with the checks of a process."""
    metrics = Metrics()
    guard = StoreGuard(5.0, metrics, Log("info", "json", io.StringIO()), time.monotonic)
    inner = RedisStore(link_to(redis.url, timeout_s=5.0)(), BOUNDS)
    store = SafeStore(inner, guard, ConversationCache(MIB, metrics), Offloader())
    looking = asyncio.create_task(store_probe.look_after(store))
    try:
        yield store
    finally:
        looking.cancel()
        await store.close()


async def save(store: SafeStore, this: Turn) -> Saved:
    """Save a turn as an exchange does."""
    records, keys = records_of(this), keys_of_turn(this)
    return await store.save(SCOPE, this.conversation, records, keys, Budget(LONG_S))


async def ids(store: SafeStore, *turns: Turn) -> set[bytes]:
    """Return the ids of the turns that are found for a history."""
    found = await store.look_up(SCOPE, looked_up(*turns), Budget(LONG_S))
    return {turn.id for turn in found.turns} if found is not None else set()


async def test_what_is_said_in_an_outage_reaches_the_other_replica(redis: RedisServer) -> None:
    """A turn that was captured meanwhile is found elsewhere, without any further request here."""
    async with replica(redis) as one, replica(redis) as other:
        before = said("before")
        assert await save(one, before) is Saved.DONE
        redis.kill()
        assert await ids(one, before) == {before.id}
        during = [said(f"during {n}", created_ms=n) for n in range(20)]  # of new conversations
        during += [said(f"go on {n}", during[n], created_ms=100 + n) for n in range(20)]
        for this in during:
            assert await save(one, this) is not Saved.DONE
        redis.start()
        async with asyncio.timeout(LONG_S):
            while not all([await ids(other, this) for this in during]):  # noqa: ASYNC110
                await asyncio.sleep(SOON_S)
        for begun, went_on in zip(during[:20], during[20:], strict=True):
            assert await ids(other, begun, went_on) == {begun.id, went_on.id}


async def test_a_known_conversation_goes_on_in_an_outage() -> None:
    """The other replica finds it whole, with the turn that was captured meanwhile."""
    with redis_server(keeps=True) as redis:
        async with replica(redis) as one, replica(redis) as other:
            before = said("before")
            during = said("during", before, created_ms=2)
            assert await save(one, before) is Saved.DONE
            assert await ids(one, before) == {before.id}
            redis.kill()
            assert await save(one, during) is not Saved.DONE
            redis.start()
            async with asyncio.timeout(LONG_S):
                while during.id not in await ids(other, before, during):  # noqa: ASYNC110
                    await asyncio.sleep(SOON_S)
            assert await ids(other, before, during) == {before.id, during.id}
