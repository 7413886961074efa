"""The fair semaphore: bounded waits, and turns that go round between tenants."""

import asyncio

import pytest
from reasoning_replay.adapters.runtime import fair_semaphore
from reasoning_replay.adapters.runtime.fair_semaphore import FairSemaphore

from tests.patience import LONG_S, SOON_S

A, B, C = b"a", b"b", b"c"


class Takers:
    """Callers that wait, and the order in which they got their units."""

    def __init__(self, semaphore: FairSemaphore) -> None:
        self.semaphore = semaphore
        self.order: list[str] = []

    async def take(
        self, tenant: bytes, name: str, units: int = 1, within_s: float = SOON_S
    ) -> "asyncio.Task[bool]":
        """Begin to wait."""

        async def take() -> bool:
            has_got = await self.semaphore.acquire(tenant, units, within_s)
            self.order.append(name if has_got else f"not {name}")
            return has_got

        task = asyncio.ensure_future(take())
        await settled()
        return task


async def settled() -> None:
    """Let all that can run do so."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_turns_go_round_between_tenants_and_in_order_within_one() -> None:
    """A tenant with one caller is next after one of the others, however many wait there."""
    takers = Takers(FairSemaphore(1))
    await takers.take(A, "a1")
    for tenant, name in ((A, "a2"), (A, "a3"), (A, "a4"), (B, "b1"), (C, "c1"), (B, "b2")):
        await takers.take(tenant, name)
    for tenant in (A, A, B, C, A, B, A):
        takers.semaphore.release(tenant, 1)
        await settled()
    assert takers.order == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]
    assert takers.semaphore.used == 0
    assert not takers.semaphore.is_contended


async def test_a_tenant_over_its_share_waits_for_the_others() -> None:
    """A tenant may hold all units, but no more than its share while another one waits."""
    takers = Takers(FairSemaphore(4))
    for n in range(4):
        await takers.take(A, f"a{n}")
    await takers.take(A, "a4")
    await takers.take(B, "b1")
    await takers.take(B, "b2")
    takers.semaphore.release(A, 1)
    await settled()
    assert takers.order[4:] == ["b1"], "it holds three quarters, so the other one is next"
    takers.semaphore.release(A, 1)
    await settled()
    assert takers.order[5:] == ["a4"]


async def test_a_large_caller_is_not_starved_by_small_ones() -> None:
    """Who is next waits until enough is free, and those after it wait, too."""
    takers = Takers(FairSemaphore(4))
    await takers.take(A, "a1", 3)
    await takers.take(B, "large", 4)
    await takers.take(C, "small")
    assert takers.order == ["a1"], "one unit is free, but it is not the turn of the small one"
    takers.semaphore.release(A, 3)
    await settled()
    assert takers.order == ["a1", "large"]
    assert not takers.semaphore.try_acquire(C, 1)


async def test_a_wait_is_bounded_and_frees_the_turn() -> None:
    """Who waited in vain gets False, and the one after it is next at once if its units are free."""
    takers = Takers(FairSemaphore(4))
    await takers.take(A, "a1", 3)
    in_vain = await takers.take(B, "large", 4, within_s=0.01)
    await takers.take(C, "small")
    assert not await in_vain
    await settled()
    assert takers.order[0] == "a1"
    assert set(takers.order[1:]) == {"small", "not large"}
    assert takers.semaphore.used == 4


@pytest.mark.parametrize("is_granted", [True, False])
async def test_a_cancelled_caller_holds_nothing(is_granted: bool) -> None:
    """A caller that is cancelled while it waits, or just when it was granted, holds no unit."""
    takers = Takers(FairSemaphore(1))
    await takers.take(A, "a1")
    leaving = await takers.take(B, "b1")
    if is_granted:
        takers.semaphore.release(A, 1)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    if not is_granted:
        takers.semaphore.release(A, 1)
    assert takers.order == ["a1"]
    assert takers.semaphore.used == 0
    assert not takers.semaphore.is_contended


async def test_the_spare_units_are_for_those_that_cannot_wait() -> None:
    """`try_acquire` takes units also while others wait, and from the spare part."""
    takers = Takers(FairSemaphore(8, spare=2))
    assert takers.semaphore.waitable == 6
    await takers.take(A, "a1", 6)
    await takers.take(B, "b1", 1)
    assert takers.order == ["a1"]
    assert takers.semaphore.try_acquire(C, 2)
    assert not takers.semaphore.try_acquire(C, 1)
    await takers.take(C, "never", 7)
    assert takers.order == ["a1", "not never"], "more than can be had is refused at once"


async def test_the_number_of_waiters_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant with too many waiters is refused at once; another one still waits."""
    monkeypatch.setattr(fair_semaphore, "WAITING_MAX", 2)
    takers = Takers(FairSemaphore(1))
    for name in ("a1", "a2", "a3", "a4"):
        await takers.take(A, name)
    await takers.take(B, "b1")
    assert takers.order == ["a1", "not a4"]
    for tenant in (A, A, B):
        takers.semaphore.release(tenant, 1)
        await settled()
    assert takers.order == ["a1", "not a4", "a2", "b1", "a3"]


async def test_a_caller_waits_longer_while_the_queue_moves() -> None:
    """Its wait ends once no other caller has got units for a while, and after a longest time."""
    semaphore = FairSemaphore(1)
    assert semaphore.try_acquire(A, 1)
    stuck = asyncio.ensure_future(semaphore.acquire(C, 1, 0.05, LONG_S))
    assert not await stuck

    last = asyncio.ensure_future(semaphore.acquire(C, 2, 0.2, 0.2))
    assert not await last, "more than can be had"
    many = [asyncio.ensure_future(semaphore.acquire(A, 1, SOON_S)) for _ in range(10)]
    patient = asyncio.ensure_future(semaphore.acquire(A, 1, 0.5, LONG_S))
    hasty = asyncio.ensure_future(semaphore.acquire(A, 1, 0.5))
    await settled()
    for one in many:
        await asyncio.sleep(0.1)
        semaphore.release(A, 1)
        assert await one
    assert not await hasty
    semaphore.release(A, 1)
    assert await patient
