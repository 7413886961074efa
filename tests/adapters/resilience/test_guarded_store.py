"""A store that cannot hurt: bounded waits, failures swallowed, what keeps failing left alone."""

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest
from reasoning_replay.adapters.resilience import guarded_store, write_behind
from reasoning_replay.adapters.resilience.circuit_breaker import (
    FAILURES_TOLERATED,
    PAUSE_MAX_S,
    PAUSE_S,
)
from reasoning_replay.adapters.resilience.guarded_store import AT_ONCE, Budget, GuardedStore, Saved
from reasoning_replay.adapters.stores.base import Bounds, Page, StoreError
from reasoning_replay.adapters.stores.memory import MemoryStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import Lookup, LookupResult
from reasoning_replay.core.history.turns import Turn

from tests.adapters.stores.turns import SCOPE, asked, bytes_of, key, turn
from tests.web.world import eventually

FOUND = LookupResult((turn("a"),), frozenset({7}))
ASKED = asked(key("1"))
LONG_S = 30.0
SHORT_S = 0.03


class Inner:
    """
    A store that does what a test says, and notes what it was asked.

    Attributes:
        calls: How many operations began.
        under_way: How many have not ended.
        kept: Names of the turns saved, with their sizes and keys, in order.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.under_way = 0
        self.most_at_once = 0
        self.error: BaseException | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.takes_s = 0.0
        self.closed = False
        self.kept: list[tuple[bytes, int, list[bytes]]] = []

    async def _act(self) -> None:
        self.calls += 1
        self.under_way += 1
        self.most_at_once = max(self.most_at_once, self.under_way)
        try:
            await self.gate.wait()
            if self.takes_s:
                await asyncio.sleep(self.takes_s)
            if self.error is not None:
                raise self.error
        finally:
            self.under_way -= 1

    async def recall(self, _: bytes, __: Sequence[Lookup]) -> LookupResult:
        """Find the same, always."""
        await self._act()
        return FOUND

    async def save(self, _: bytes, turn: Turn, keys: Sequence[bytes]) -> None:
        """Note what is kept."""
        await self._act()
        self.kept.append((turn.id, len(turn.items[0].run[0].raw), list(keys)))

    async def survey(self, _: bytes | None, __: str, ___: int) -> Page:
        """Keep nothing."""
        await self._act()
        return Page(())

    async def forget(self, _: bytes, __: bytes) -> bool:
        """Forget anything."""
        await self._act()
        return True

    async def check(self) -> None:
        """Be well or not."""
        await self._act()

    async def close(self) -> None:
        """Be closed."""
        self.closed = True


class Guarded:
    """A guarded store with a clock that is moved by hand; its waits are real."""

    def __init__(self, timeout_s: float = LONG_S) -> None:
        self.inner = Inner()
        self.metrics = Metrics()
        self.written = io.StringIO()
        self.now_s = 0.0
        self.told: list[tuple[bytes, bool]] = []
        self.store = GuardedStore(
            self.inner, timeout_s, self.metrics, Log("info", "json", self.written), self._clock
        )
        self.store.tell = lambda _, turn, is_kept: self.told.append((turn.id, is_kept))

    def _clock(self) -> float:
        return self.now_s

    async def recalls(self, budget_s: float = LONG_S) -> bool:
        """Tell whether a recall works."""
        return await self.store.recall(SCOPE, ASKED, Budget(budget_s)) is not None

    async def saves(
        self, name: str = "a", *names: str, size: int = 10, budget_s: float = LONG_S
    ) -> Saved:
        """Save a turn under keys of these names."""
        keys = [key(name) for name in names]
        return await self.store.save(SCOPE, turn(name, size=size), keys, Budget(budget_s))

    async def fails_until_left_alone(self) -> None:
        """Let recalls and saves fail as often as is tolerated."""
        self.inner.error = StoreError("down")
        for _ in range(FAILURES_TOLERATED):
            assert not await self.recalls()
            assert await self.saves() is Saved.FAILED
        self.inner.calls = 0

    async def settles(self) -> None:
        """Wait until nothing is under way."""
        await eventually(lambda: not self.inner.under_way)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def counted(self, operation: str, outcome: str) -> float:
        """Return how often an operation ended like this."""
        name = "reasoning_replay_store_operations_total"
        labels = {"operation": operation, "outcome": outcome}
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    @property
    def up(self) -> float | None:
        """What operators are told."""
        return self.metrics.registry.get_sample_value("reasoning_replay_store_up")

    @property
    def events(self) -> list[str]:
        """What was logged."""
        return [json.loads(line)["event"] for line in self.written.getvalue().splitlines()]


OPERATIONS: dict[str, Callable[[GuardedStore], Awaitable[object]]] = {
    "recall": lambda store: store.recall(SCOPE, ASKED, Budget(LONG_S)),
    "save": lambda store: store.save(SCOPE, turn("a"), [key("1")], Budget(LONG_S)),
    "check": lambda store: store.check(),
}
WORKED = {"recall": FOUND, "save": Saved.DONE, "check": True}
FAILED = {"recall": None, "save": Saved.FAILED, "check": False}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_works_is_passed_on(operation: str) -> None:
    """And counted, and timed, and not worth a line."""
    g = Guarded()
    assert await OPERATIONS[operation](g.store) == WORKED[operation]
    assert (g.counted(operation, "ok"), g.up, g.events) == (1, 1, [])
    timed = "reasoning_replay_store_seconds_count"
    assert g.metrics.registry.get_sample_value(timed, {"operation": operation}) == 1


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "error",
    [
        StoreError("down"),
        OSError("no route"),
        KeyError("a bug"),
        AssertionError(),
        RecursionError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_no_failure_gets_out(operation: str, error: Exception) -> None:
    """Neither one that stores have, nor a bug in one: it is counted, and the exchange goes on."""
    g = Guarded()
    g.inner.error = error
    assert await OPERATIONS[operation](g.store) is FAILED[operation]
    assert (g.counted(operation, "error"), g.up, g.events) == (1, 0, ["store_failed"])
    assert g.store.is_degraded


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_that_hangs_fails_in_its_time(operation: str) -> None:
    """Even where the exchange would wait for longer."""
    g = Guarded(timeout_s=SHORT_S)
    g.inner.gate.clear()
    assert await OPERATIONS[operation](g.store) is FAILED[operation]
    assert g.counted(operation, "timeout") == 1


# What one exchange waits...


async def test_an_exchange_waits_for_its_budget_and_no_longer() -> None:
    """All in all: once it is used up, nothing of that exchange waits again."""
    g = Guarded()
    g.inner.gate.clear()
    budget = Budget(SHORT_S)
    started = time.monotonic()
    assert await g.store.recall(SCOPE, ASKED, budget) is None
    assert time.monotonic() - started >= SHORT_S * 0.9
    assert budget.left_s == 0
    assert await g.store.recall(SCOPE, ASKED, budget) is None
    assert await g.store.save(SCOPE, turn("a"), [], budget) is Saved.LATE
    assert time.monotonic() - started < LONG_S / 10
    assert g.counted("recall", "skipped") == 1  # not even begun: there was nothing to wait with
    g.inner.gate.set()
    await g.settles()


async def test_each_wait_takes_its_share_of_the_budget() -> None:
    """As long as it took, by the clock."""
    g = Guarded()
    budget = Budget(LONG_S)
    g.inner.gate.clear()
    waiting = asyncio.ensure_future(g.store.recall(SCOPE, ASKED, budget))
    await eventually(lambda: g.inner.under_way == 1)
    g.now_s += 4.0
    g.inner.gate.set()
    assert await waiting is FOUND
    assert budget.left_s == pytest.approx(LONG_S - 4.0)


async def test_a_late_operation_is_not_cancelled() -> None:
    """A command that is given up costs its connection: it goes on, and what it says is counted."""
    g = Guarded()
    g.inner.gate.clear()
    assert not await g.recalls(SHORT_S)
    assert await g.saves(budget_s=SHORT_S) is Saved.LATE
    assert g.inner.under_way == 2
    g.inner.gate.set()
    await g.settles()
    assert (g.counted("recall", "late"), g.counted("save", "late")) == (1, 1)
    assert [this for this, _, _ in g.inner.kept] == [bytes_of("a")]
    assert g.told == [(bytes_of("a"), True)]
    assert (g.up, g.events) == (1, [])  # late once is not down


async def test_a_client_that_leaves_cancels_nothing() -> None:
    """What it began is finished; it is no failure of the store's."""
    g = Guarded()
    g.inner.gate.clear()
    waiting = [asyncio.ensure_future(g.recalls()), asyncio.ensure_future(g.saves())]
    await eventually(lambda: g.inner.under_way == 2)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert g.inner.under_way == 2
    g.inner.gate.set()
    await g.settles()
    assert len(g.inner.kept) == 1
    assert not g.store.is_degraded
    assert await g.recalls()


async def test_a_burst_waits_its_turn() -> None:
    """A few operations at once, and none fails for having waited."""
    g = Guarded()
    g.inner.takes_s = 0.002
    assert all(await asyncio.gather(*(g.recalls() for _ in range(100))))
    assert g.inner.most_at_once == AT_ONCE
    assert g.counted("recall", "timeout") == 0


async def test_waiting_for_its_turn_is_waiting_too() -> None:
    """An exchange that has none in time goes on, and nothing is asked for it afterwards."""
    g = Guarded()
    g.inner.gate.clear()
    before = [asyncio.ensure_future(g.recalls()) for _ in range(AT_ONCE)]
    await eventually(lambda: g.inner.under_way == AT_ONCE)
    assert not await g.recalls(SHORT_S)
    g.inner.gate.set()
    assert all(await asyncio.gather(*before))
    assert g.inner.calls == AT_ONCE
    assert await g.recalls()


async def test_that_we_are_busy_is_not_the_stores_fault() -> None:
    """However many have no turn in time, while others come back."""
    g = Guarded()
    assert await g.recalls()
    g.inner.gate.clear()
    before = [asyncio.ensure_future(g.recalls()) for _ in range(AT_ONCE)]
    await eventually(lambda: g.inner.under_way == AT_ONCE)
    for _ in range(2 * FAILURES_TOLERATED):
        assert not await g.recalls(SHORT_S)
    g.inner.gate.set()
    assert all(await asyncio.gather(*before))
    assert await g.recalls()
    assert g.events == []


async def test_what_would_be_late_is_not_begun() -> None:
    """Whoever waited for a turn until too little is left leaves it to the next."""
    g = Guarded()
    g.inner.gate.clear()
    before = [asyncio.ensure_future(g.recalls()) for _ in range(AT_ONCE)]
    await eventually(lambda: g.inner.under_way == AT_ONCE)
    g.now_s += LONG_S  # so long they take, by the clock
    late = asyncio.ensure_future(g.recalls(LONG_S / 100))
    next_one = asyncio.ensure_future(g.recalls(100 * LONG_S))
    await asyncio.sleep(0)
    g.inner.gate.set()
    assert all(await asyncio.gather(*before))
    assert not await late
    assert await next_one
    assert g.inner.calls == AT_ONCE + 1


async def test_an_embedded_store_is_asked_at_once() -> None:
    """It never waits, so no budget is too small for it, and no other task has a turn meanwhile."""
    g = Guarded()
    g.store.inner = MemoryStore(Bounds(1000, 10, 1 << 20), 1 << 20, lambda: 0.0)
    ran: list[str] = []
    asyncio.get_running_loop().call_soon(ran.append, "another")
    none = Budget(0.0)
    assert await g.store.save(SCOPE, turn("a"), [key("1")], none) is Saved.DONE
    recalled = await g.store.recall(SCOPE, ASKED, none)
    assert recalled is not None
    assert [found.id for found in recalled.turns] == [bytes_of("a")]
    assert ran == []


# Saves in the background...


async def test_saves_of_one_turn_never_overtake_one_another() -> None:
    """One is under way and the newest waits, with the keys of all that it stands for."""
    g = Guarded()
    g.inner.gate.clear()
    sizes = [1, 2, 3, 4]
    for size in sizes:
        saved = await g.saves("a", f"k{size}", size=size, budget_s=0.001)
        assert saved is Saved.LATE
    await g.saves("b", budget_s=0.001)
    assert g.inner.under_way == 2  # another turn's save waits for none of these
    g.inner.gate.set()
    await eventually(lambda: len(g.inner.kept) == 3)
    ours = [(size, keys) for this, size, keys in g.inner.kept if this == bytes_of("a")]
    assert ours == [(1, [key("k1")]), (4, [key("k2"), key("k3"), key("k4")])]


async def test_who_waits_for_the_newest_form_is_told_of_that() -> None:
    """The later of two saves is done when what it gave is kept, and not before."""
    g = Guarded()
    g.inner.gate.clear()
    assert await g.saves(size=1, budget_s=0.001) is Saved.LATE
    second = asyncio.ensure_future(g.saves(size=2))
    await asyncio.sleep(0.01)
    assert not second.done()
    g.inner.gate.set()
    assert await second is Saved.DONE
    assert [size for _, size, _ in g.inner.kept] == [1, 2]


@pytest.mark.parametrize("is_waiting", [True, False], ids=["behind-it", "afterwards"])
async def test_the_keys_of_a_failed_save_go_with_the_next(*, is_waiting: bool) -> None:
    """Who was told that it is late gives them only once."""
    g = Guarded()
    g.inner.gate.clear()
    assert await g.saves("a", "first", budget_s=0.001) is Saved.LATE
    if is_waiting:
        assert await g.saves("a", "second", budget_s=0.001) is Saved.LATE
    g.inner.error = StoreError("down")
    g.inner.gate.set()
    await eventually(lambda: g.inner.calls == 1 + is_waiting)
    await g.settles()
    g.inner.error = None
    assert await g.saves("a", "third") is Saved.DONE
    names = ["first", "second", "third"] if is_waiting else ["first", "third"]
    assert sorted(g.inner.kept[-1][2]) == sorted(key(name) for name in names)


async def test_a_turn_of_which_a_save_was_given_up_is_saved_twice() -> None:
    """What was given up may reach the store behind the newer form; only then is that kept."""
    g = Guarded(timeout_s=SHORT_S)
    g.inner.gate.clear()
    assert await g.saves(size=1) is Saved.FAILED
    g.inner.gate.set()
    assert await g.saves(size=2) is Saved.DONE
    g.inner.kept.append((bytes_of("a"), 1, []))  # late
    assert g.told == [(bytes_of("a"), False)]
    await eventually(lambda: g.told[1:] == [(bytes_of("a"), True)])
    await asyncio.sleep(3 * SHORT_S)
    assert [size for _, size, _ in g.inner.kept] == [2, 1, 2]


async def test_the_newest_form_is_the_one_that_is_saved_twice() -> None:
    """However many come before it is time."""
    g = Guarded(timeout_s=1.0)
    g.inner.error = StoreError("reset")
    assert await g.saves(size=1) is Saved.FAILED
    g.inner.error = None
    for size in (2, 3, 4):
        assert await g.saves(size=size) is Saved.DONE
    await eventually(lambda: g.told[1:] == [(bytes_of("a"), True)])
    assert [size for _, size, _ in g.inner.kept] == [2, 3, 4, 4]


@pytest.mark.parametrize("ends", ["forgotten", "forgotten elsewhere", "closed"])
async def test_what_is_to_be_saved_twice_does_not_outlive_its_conversation_or_us(ends: str) -> None:
    """What is forgotten is not saved again; what is closed does it at once."""
    g = Guarded()
    g.inner.error = StoreError("reset")
    assert await g.saves(size=1) is Saved.FAILED
    g.inner.error = None
    assert await g.saves(size=2) is Saved.DONE
    if ends == "forgotten":
        assert await g.store.forget(SCOPE, bytes_of("c"))
    elif ends == "forgotten elsewhere":
        g.store.drop(SCOPE, bytes_of("c"))
    await g.store.close()
    assert len(g.inner.kept) == (2 if ends == "closed" else 1)


@pytest.mark.parametrize("bound", ["UNFINISHED_MAX", "UNFINISHED_MAX_BYTES"])
async def test_what_waits_is_bounded(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In number and in bytes: beyond, a save fails at once, and that is counted."""
    one = write_behind.size_of(turn("x", size=1000))
    monkeypatch.setattr(write_behind, bound, 3 if bound == "UNFINISHED_MAX" else 3 * one)
    g = Guarded()
    g.inner.gate.clear()
    outcomes = [await g.saves(f"{n}", size=1000, budget_s=0.001) for n in range(5)]
    assert outcomes == [Saved.LATE] * 3 + [Saved.FAILED] * 2
    assert g.counted("save", "skipped") == 2
    assert g.told == [(bytes_of("3"), False), (bytes_of("4"), False)]
    g.inner.gate.set()
    await eventually(lambda: len(g.inner.kept) == 3)
    assert [await g.saves(f"{n}", size=1000) for n in range(5)] == [Saved.DONE] * 5


# What keeps failing...


async def test_a_store_that_keeps_failing_is_left_alone() -> None:
    """After three failures in a row, for a second: skipped, counted, and not a word in the log."""
    g = Guarded()
    await g.fails_until_left_alone()
    for _ in range(5):
        assert not await g.recalls()
        assert await g.saves() is Saved.FAILED
    assert g.inner.calls == 0
    assert (g.counted("recall", "skipped"), g.counted("save", "skipped")) == (5, 5)
    assert g.events == ["store_failed"]


async def test_a_store_that_is_always_late_is_left_alone() -> None:
    """A recall that always comes too late only costs; a late save was worth its while."""
    g = Guarded()
    g.inner.gate.clear()
    for _ in range(FAILURES_TOLERATED):
        assert await g.saves(budget_s=0.001) is Saved.LATE
        assert not await g.recalls(0.001)
    assert (g.events, g.up) == (["store_failed"], 0)
    assert json.loads(g.written.getvalue())["reason"] == "late"
    calls = g.inner.calls
    assert not await g.recalls()
    assert g.inner.calls == calls
    g.inner.gate.set()
    await g.settles()
    assert await g.saves() is Saved.DONE
    assert not await g.recalls()  # that they came after all is what was known already


async def test_a_burst_that_is_late_is_late_once() -> None:
    """What stalls this process for a moment is no fault of the store's."""
    g = Guarded()
    g.inner.gate.clear()

    async def is_late() -> None:
        waiting = [asyncio.ensure_future(g.recalls(SHORT_S)) for _ in range(3 * AT_ONCE)]
        await asyncio.sleep(0)
        g.now_s += SHORT_S
        assert not any(await asyncio.gather(*waiting))
        g.now_s += SHORT_S

    for _ in range(FAILURES_TOLERATED - 1):
        await is_late()
    g.inner.gate.set()
    await g.settles()
    assert (g.up, g.events) == (1, [])
    g.inner.gate.clear()
    await is_late()
    assert g.events == ["store_failed"]
    g.inner.gate.set()
    await g.settles()


async def test_what_is_late_behind_other_waits_is_not_the_stores_fault() -> None:
    """Half a budget may be too little for a store that is well."""
    g = Guarded()
    g.inner.gate.clear()
    for _ in range(2 * FAILURES_TOLERATED):
        budget = Budget(LONG_S)
        budget.left_s = 0.001
        assert await g.store.recall(SCOPE, ASKED, budget) is None
    g.inner.gate.set()
    await g.settles()
    assert (g.up, g.events) == (1, [])
    assert await g.recalls()


async def test_a_store_that_cannot_be_written_is_still_read() -> None:
    """One that is full or a replica fails at saves alone, and recalls go on."""
    g = Guarded()
    for _ in range(FAILURES_TOLERATED + 5):
        g.inner.error = StoreError("full")
        assert await g.saves() is Saved.FAILED
        g.inner.error = None
        assert await g.recalls()
    assert g.counted("save", "skipped") == 5
    assert g.counted("recall", "ok") == FAILURES_TOLERATED + 5


async def test_that_reads_work_is_no_news_while_writes_do_not() -> None:
    """One line for each change of state, and a store that is full stays degraded."""
    g = Guarded()
    g.inner.error = StoreError("full")
    for _ in range(FAILURES_TOLERATED):
        await g.saves()
    g.inner.error = None
    for _ in range(20):
        g.now_s += PAUSE_S
        assert await g.recalls()
    assert (g.store.is_degraded, g.up, g.events) == (True, 0, ["store_failed"])


async def test_one_bad_key_is_no_failure_of_the_store() -> None:
    """What is wrong with one conversation costs no other its reasoning."""
    g = Guarded()
    g.inner.error = StoreError("a key of another type", is_local=True)
    for _ in range(FAILURES_TOLERATED + 5):
        assert not await g.recalls()
    g.inner.error = None
    assert await g.recalls()


async def test_failures_with_successes_between_them_are_no_row() -> None:
    """A store that mostly works is not left alone."""
    g = Guarded()
    for n in range(20):
        g.inner.error = StoreError("now and then") if n % 3 else None
        await g.recalls()
    assert g.inner.calls == 20


@pytest.mark.parametrize("operation", ["recall", "save"])
async def test_after_the_pause_one_tries_for_all(operation: str) -> None:
    """Nobody waits for it, not even who brought it; the others are skipped meanwhile."""
    g = Guarded()
    await g.fails_until_left_alone()
    g.now_s += PAUSE_S
    g.inner.gate.clear()

    async def tries() -> bool:
        return await (g.recalls() if operation == "recall" else g.saves()) in (True, Saved.DONE)

    started = time.monotonic()
    assert not any(await asyncio.gather(*(tries() for _ in range(10))))
    assert time.monotonic() - started < LONG_S / 10
    assert g.inner.calls == 1
    g.inner.error = None
    g.inner.gate.set()
    await g.settles()
    assert await tries()


async def test_pauses_grow_while_it_keeps_failing() -> None:
    """From one second, doubling, to ten; and from one again once it has worked."""
    g = Guarded()
    for _ in range(2):
        await g.fails_until_left_alone()
        for pause_s in (PAUSE_S, 2.0, 4.0, 8.0, PAUSE_MAX_S, PAUSE_MAX_S):
            calls = g.inner.calls
            g.now_s += pause_s * 0.99
            await g.recalls()
            assert g.inner.calls == calls
            g.now_s += pause_s * 0.02
            await g.recalls()
            await g.settles()
            assert g.inner.calls == calls + 1
        g.inner.error = None
        g.now_s += PAUSE_MAX_S
        await g.recalls()
        await g.saves()
        await g.settles()
        assert await g.recalls()


async def test_a_try_that_is_too_late_for_anybody_has_failed() -> None:
    """Else each pause would end in three exchanges that wait for nothing."""
    g = Guarded()
    g.inner.gate.clear()
    for _ in range(FAILURES_TOLERATED):
        assert not await g.recalls(0.001)
    g.inner.gate.set()
    await g.settles()
    g.now_s += PAUSE_S
    g.inner.gate.clear()
    assert not await g.recalls(0.001)
    await eventually(lambda: g.inner.under_way == 1)
    g.now_s += 1.0
    g.inner.gate.set()
    await g.settles()
    calls = g.inner.calls
    assert not await g.recalls()
    assert g.inner.calls == calls


async def test_when_it_is_back_everybody_uses_it_again() -> None:
    """One line when it failed, one when it is back, however much happened between."""
    g = Guarded()
    for _ in range(2):
        await g.fails_until_left_alone()
        for _ in range(10):
            await g.recalls()
        g.inner.error = None
        g.now_s += PAUSE_S
        await g.recalls()
        await g.saves()
        await g.settles()
        assert await g.recalls()
        assert await g.saves() is Saved.DONE
        assert (g.store.is_degraded, g.up) == (False, 1)
    assert g.events == ["store_failed", "store_recovered"] * 2


async def test_a_check_finds_out_that_it_is_back() -> None:
    """Where nobody asks for anything, readiness still says so."""
    g = Guarded()
    await g.fails_until_left_alone()
    g.now_s += PAUSE_S
    assert not await g.store.check()
    g.inner.error = None
    g.now_s += 2 * PAUSE_S
    assert await g.store.check()
    assert not g.store.is_degraded
    assert await g.recalls()  # it was tried already


async def test_a_sign_of_life_does_not_end_a_pause() -> None:
    """A store that answers a PING while it fails at its work is not well."""
    g = Guarded()
    await g.fails_until_left_alone()
    g.inner.error = None
    assert not await g.store.check()
    assert g.store.is_degraded
    assert not await g.recalls()


async def test_a_log_line_holds_no_secret() -> None:
    """What a bug says may be anything; what a store says is kept."""
    g = Guarded()
    g.inner.error = KeyError("sk-secret")
    await g.recalls()
    assert "sk-secret" not in g.written.getvalue()


# Operators, and the end...


async def test_operators_are_told_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They asked, so they hear of it; also while the store is left alone, and when it hangs."""
    monkeypatch.setattr(guarded_store, "OPERATOR_WAITS_S", SHORT_S)
    g = Guarded()
    await g.fails_until_left_alone()
    for error, words in ((StoreError("down"), "down"), (KeyError("sk-secret"), "KeyError")):
        g.inner.error = error
        with pytest.raises(StoreError, match=f"^{words}$"):
            await g.store.survey(None, "", 10)
        with pytest.raises(StoreError, match=f"^{words}$"):
            await g.store.forget(SCOPE, bytes_of("c"))
    g.inner.gate.clear()
    with pytest.raises(StoreError, match="no answer"):
        await g.store.survey(None, "", 10)
    with pytest.raises(StoreError, match="no answer"):
        await g.store.forget(SCOPE, bytes_of("c"))
    g.inner.gate.set()
    g.inner.error = None
    assert await g.store.survey(None, "", 10) == Page(())
    assert await g.store.forget(SCOPE, bytes_of("c"))


async def test_what_is_forgotten_is_not_saved_behind_it() -> None:
    """What waits is withdrawn, what is under way is waited for; other conversations go on."""
    g = Guarded()
    g.inner.gate.clear()
    for size in (1, 2):
        await g.saves("a", size=size, budget_s=0.001)
    other = turn("b", conversation="other")
    await g.store.save(SCOPE, other, [], Budget(0.001))
    forgetting = asyncio.ensure_future(g.store.forget(SCOPE, bytes_of("c")))
    await asyncio.sleep(0.01)
    assert not forgetting.done()
    g.inner.gate.set()
    assert await forgetting
    await g.settles()
    assert sorted(size for _, size, _ in g.inner.kept) == [1, 10]
    assert g.told.count((bytes_of("a"), False)) == 1


async def test_closing_finishes_what_is_under_way() -> None:
    """What is saved in the background is kept when the process ends; then the store is closed."""
    g = Guarded()
    g.inner.gate.clear()
    for size in (1, 2):
        await g.saves(size=size, budget_s=0.001)
    closing = asyncio.ensure_future(g.store.close())
    await asyncio.sleep(0.01)
    assert [closing.done(), g.inner.closed] == [False, False]
    g.inner.gate.set()
    await closing
    assert ([size for _, size, _ in g.inner.kept], g.inner.closed) == ([1, 2], True)


async def test_closing_waits_for_no_longer_than_one_operation_may_take() -> None:
    """What hangs is cancelled, and nothing is left behind."""
    g = Guarded(timeout_s=SHORT_S)
    g.inner.gate.clear()
    for size in (1, 2):
        await g.saves(size=size, budget_s=0.001)
    await g.recalls(0.001)
    started = time.monotonic()
    await g.store.close()
    assert time.monotonic() - started < LONG_S / 10
    assert (g.inner.under_way, g.inner.closed) == (0, True)
