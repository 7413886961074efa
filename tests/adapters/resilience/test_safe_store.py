"""The safe store: waits are bounded, failures suppressed, and calls to a failing store skipped."""

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, cast

import pytest
from reasoning_replay.adapters.resilience import safe_store, writer
from reasoning_replay.adapters.resilience.circuit_breaker import (
    FAILURES_TOLERATED,
    PAUSE_MAX_S,
    PAUSE_S,
)
from reasoning_replay.adapters.resilience.local_table import LocalTable
from reasoning_replay.adapters.resilience.safe_store import Budget, SafeStore, Saved
from reasoning_replay.adapters.resilience.store_guard import AT_ONCE, LATE_S, StoreGuard
from reasoning_replay.adapters.resilience.writer import OVERDUE_AT_ONCE
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.stores.base import (
    Bounds,
    Codec,
    Page,
    Store,
    StoredConversation,
    StoreError,
    StoreResult,
    StoreUsage,
    VersionChange,
)
from reasoning_replay.adapters.stores.contract.turns import SCOPE, asked, bytes_of, key, turn
from reasoning_replay.adapters.stores.redis.store import RedisStore
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.records import records_of
from reasoning_replay.core.history.room import Room

from tests.adapters.stores.kinds import link_to
from tests.patience import LONG_S, SOON_S
from tests.redis_server import RedisServer
from tests.web.world import eventually

A = turn("a")
STORED = StoredConversation(A.conversation, 1, records_of(A))
FOUND = LookupResult([A], frozenset({7}))
ASKED = asked(key("1"))
SHORT_S = 0.03


class Inner:
    """
    A store that behaves as a test sets it, and records its calls.

    Attributes:
        calls: Number of operations that began.
        under_way: Number of operations that have not ended.
        saved: Records and keys of each save, in order.
    """

    codec: Codec | None = None

    def __init__(self) -> None:
        self.calls = 0
        self.under_way = 0
        self.most_at_once = 0
        self.error: BaseException | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.takes_s = 0.0
        self.closed = False
        self.saved: list[tuple[dict[bytes, bytes], list[bytes]]] = []
        self.result = StoreResult([STORED], FOUND.crowded)

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

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return an operation of a store."""
        results = {
            "look_up": self.result,
            "survey": Page(()),
            "forget": True,
            "usage": StoreUsage(5, 10, 2, 3),
            "check": None,
        }

        async def operation(*given: Any, **_: Any) -> Any:
            await self._act()
            return results[name]

        return operation

    async def save(self, _: Any, records: Any, keys: Any, *__: Any, **___: Any) -> VersionChange:
        """Record the arguments."""
        await self._act()
        self.saved.append((dict(records), [*keys]))
        return VersionChange(len(self.saved) - 1, len(self.saved))

    async def close(self) -> None:
        """Record the call."""
        self.closed = True


class Guarded:
    """A safe store without a cache, with a clock that a test moves; its waits are real."""

    def __init__(
        self, timeout_s: float = LONG_S, store: Store | None = None, max_bytes: int = 32 << 20
    ) -> None:
        self.inner = cast("Any", store or Inner())
        self.metrics = Metrics()
        self.written = io.StringIO()
        self.now_s = 0.0
        log = Log("info", "json", self.written)
        guard = StoreGuard(timeout_s, self.metrics, log, lambda: self.now_s)
        room = Room(max_bytes)
        table = LocalTable(room, keeps_copies=False)
        self.store = SafeStore(self.inner, guard, table, room, Offloader())

    async def looks_up(self, budget_s: float = LONG_S) -> bool:
        """Return whether a lookup works."""
        return await self.store.look_up(SCOPE, ASKED, Budget(budget_s)) is not None

    async def saves(
        self,
        name: str = "a",
        *names: str,
        size: int = 10,
        budget_s: float = LONG_S,
        conversation: str = "c",
    ) -> Saved:
        """Save one record of a conversation with keys of these names."""
        record, keys = {key(name): b"x" * size}, {key(name): True for name in names}
        return await self.store.save(SCOPE, bytes_of(conversation), record, keys, Budget(budget_s))

    async def fails_until_open(self) -> None:
        """Fail lookups and saves until both breakers open."""
        self.inner.error = StoreError("down")
        for _ in range(FAILURES_TOLERATED):
            assert await self.saves() is Saved.FAILED
            assert not await self.looks_up()
        self.inner.calls = 0

    async def settles(self) -> None:
        """Wait until no operation is in flight."""
        await eventually(lambda: not self.store.tasks)

    def sample(self, name: str, **labels: str) -> float | None:
        """Return a sample of a metric, None if it does not exist."""
        return self.metrics.registry.get_sample_value(f"reasoning_replay_{name}", labels)

    def counted(self, operation: str, outcome: str) -> float:
        """Return the number of operations with this outcome."""
        name = "reasoning_replay_store_operations_total"
        labels = {"operation": operation, "outcome": outcome}
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    @property
    def up(self) -> float | None:
        """Value of the gauge that operators watch."""
        return self.metrics.registry.get_sample_value("reasoning_replay_store_up")

    @property
    def events(self) -> list[str]:
        """Names of the events that were logged."""
        return [json.loads(line)["event"] for line in self.written.getvalue().splitlines()]


RECORDS = {key("record"): b"value"}
KEYS = {key("1"): True}
OPERATIONS: dict[str, Callable[[SafeStore], Awaitable[object]]] = {
    "recall": lambda store: store.look_up(SCOPE, ASKED, Budget(LONG_S)),
    "save": lambda store: store.save(SCOPE, bytes_of("c"), RECORDS, KEYS, Budget(LONG_S)),
    "check": lambda store: store.check(),
}
WORKED = {"recall": FOUND, "save": Saved.DONE, "check": True}
FAILED = {"recall": None, "save": Saved.FAILED, "check": False}


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_a_result_is_passed_on(operation: str) -> None:
    """A successful operation is counted and timed, and not logged."""
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
        KeyError("sk-secret"),
        AssertionError(),
        RecursionError(),
        MemoryError(),
        StopAsyncIteration(),
        ExceptionGroup("many", [ValueError(), OSError()]),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_no_exception_reaches_an_exchange(operation: str, error: BaseException) -> None:
    """A failure of the store or a bug in it is counted, and the exchange continues."""
    g = Guarded()
    g.inner.error = error
    assert await OPERATIONS[operation](g.store) is FAILED[operation]
    assert (g.counted(operation, "error"), g.up, g.events) == (1, 0, ["store_failed"])
    assert g.store.is_degraded
    assert "sk-secret" not in g.written.getvalue()  # only the text of a StoreError is logged


async def test_a_store_that_failed_may_lack_turns_for_a_minute() -> None:
    """Other replicas save them late, so what it lacks then proves nothing."""
    g = Guarded()
    assert not g.store.has_failed_lately
    g.inner.error = OSError("no route")
    await g.looks_up()
    g.inner.error = None
    g.now_s += LATE_S - 1
    await g.looks_up()
    assert (g.store.is_degraded, g.store.has_failed_lately) == (False, True)
    g.now_s += 1
    assert not g.store.has_failed_lately


GARBAGE: dict[str, Any] = {
    "nothing": None,
    "a number": 7,
    "a list": [b"\xff", None],
    "no conversations": StoreResult(None, None),  # type: ignore[arg-type] # garbage
    "invalid conversations": StoreResult([b"x", {}, 5]),  # type: ignore[list-item] # garbage
    "invalid records": StoreResult([StoredConversation(b"c", 1, {b"x": 5})]),  # type: ignore[dict-item] # garbage
}


@pytest.mark.parametrize("result", GARBAGE.values(), ids=GARBAGE)
async def test_a_result_that_is_garbage_is_a_failure(result: Any) -> None:
    """A bug in a store may also be what it returns."""
    g = Guarded()
    g.inner.result = result
    assert not await g.looks_up()
    assert (g.counted("recall", "error"), g.events) == (1, ["store_failed"])


async def test_an_operation_that_hangs_times_out() -> None:
    """It ends by itself, although the exchange has stopped waiting for it, or was cancelled."""
    g = Guarded(timeout_s=SHORT_S)
    g.inner.gate.clear()
    assert not await g.looks_up(SHORT_S)
    assert await g.saves(budget_s=SHORT_S) is Saved.LATE
    assert not await g.store.check()
    leaving = asyncio.ensure_future(g.looks_up())
    await asyncio.sleep(0)
    leaving.cancel()
    await g.settles()
    outcomes = [g.counted(operation, "timeout") for operation in ("recall", "save", "check")]
    assert (outcomes, g.inner.under_way) == ([3, 1, 1], 0)  # the check tries a lookup as well


async def test_an_operation_on_redis_costs_one_task_and_one_timer(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While an exchange waits, its wait is the only timer; redis-py adds none."""
    shared_redis.do("FLUSHALL")
    g = Guarded(store=RedisStore(link_to(shared_redis.url)(), Bounds(60, 10, 1 << 20)))
    assert await g.looks_up()  # this connects
    loop = asyncio.get_running_loop()
    began: list[str] = []
    timer = loop.call_at

    def call_at(*given: Any, **more: Any) -> asyncio.TimerHandle:
        began.append("timer")
        return timer(*given, **more)

    def task(_: asyncio.AbstractEventLoop, work: Any, **more: Any) -> asyncio.Task[Any]:
        began.append("task")
        return asyncio.Task(work, **more)

    monkeypatch.setattr(loop, "call_at", call_at)
    loop.set_task_factory(task)
    for act in (g.looks_up, g.saves, g.looks_up):
        began.clear()
        assert await act()
        assert sorted(began) == ["task", "timer"]
    await g.store.close()


# --- waits of one exchange ---


async def test_an_exchange_waits_no_longer_than_its_budget() -> None:
    """All operations of an exchange share its budget; once it is used up, none waits again."""
    g = Guarded()
    g.inner.gate.clear()
    budget = Budget(SHORT_S)
    started = time.monotonic()
    assert await g.store.look_up(SCOPE, ASKED, budget) is None
    assert time.monotonic() - started >= SHORT_S * 0.9
    assert budget.left_s == 0
    assert await g.store.look_up(SCOPE, ASKED, budget) is None
    assert await g.store.save(SCOPE, bytes_of("c"), RECORDS, {}, budget) is Saved.LATE
    assert time.monotonic() - started < LONG_S / 10
    assert g.counted("recall", "skipped") == 1  # it did not begin, as no budget was left
    g.inner.gate.set()
    await g.settles()


async def test_each_wait_reduces_the_budget() -> None:
    """A wait reduces the budget by its duration, by the clock."""
    g = Guarded()
    budget = Budget(LONG_S)
    g.inner.gate.clear()
    waiting = asyncio.ensure_future(g.store.look_up(SCOPE, ASKED, budget))
    await eventually(lambda: g.inner.under_way == 1)
    g.now_s += 4.0
    g.inner.gate.set()
    assert await waiting == FOUND
    assert budget.left_s == pytest.approx(LONG_S - 4.0)


async def test_a_late_operation_is_not_cancelled() -> None:
    """A cancelled command would cost its connection, so it continues, and its result is counted."""
    g = Guarded()
    g.inner.gate.clear()
    assert not await g.looks_up(SHORT_S)
    assert await g.saves(budget_s=SHORT_S) is Saved.LATE
    assert g.inner.under_way == 2
    g.inner.gate.set()
    await g.settles()
    assert (g.counted("recall", "late"), g.counted("save", "late")) == (1, 1)
    assert [list(records) for records, _ in g.inner.saved] == [[key("a")]]
    assert (g.up, g.events) == (1, [])  # late once is not down


async def test_a_client_that_disconnects_cancels_nothing() -> None:
    """Operations of a cancelled exchange finish, and do not count as failures of the store."""
    g = Guarded()
    g.inner.gate.clear()
    asking = [g.looks_up() for _ in range(AT_ONCE + 1)]
    waiting = [asyncio.ensure_future(one) for one in (*asking, g.saves())]
    await eventually(lambda: g.inner.under_way == AT_ONCE + 1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert g.inner.under_way == AT_ONCE + 1
    g.inner.gate.set()
    await g.settles()
    assert (g.inner.calls, len(g.inner.saved)) == (AT_ONCE + 1, 1)
    assert not g.store.is_degraded
    assert await g.looks_up()


async def test_a_burst_waits_for_slots() -> None:
    """Few operations run in parallel, and none fails because it waited."""
    g = Guarded()
    g.inner.takes_s = 0.002
    assert all(await asyncio.gather(*(g.looks_up() for _ in range(100))))
    assert g.inner.most_at_once == AT_ONCE
    g.inner.most_at_once = 0
    saves = (g.saves(conversation=f"{n}") for n in range(100))
    assert {*await asyncio.gather(*saves)} == {Saved.DONE}
    assert g.inner.most_at_once == AT_ONCE
    assert g.counted("recall", "timeout") == 0


async def test_a_busy_process_is_not_a_failure_of_the_store() -> None:
    """Lookups that find no slot in time do not count as failures while others succeed."""
    g = Guarded()
    assert await g.looks_up()
    g.inner.gate.clear()
    before = [asyncio.ensure_future(g.looks_up()) for _ in range(AT_ONCE)]
    await eventually(lambda: g.inner.under_way == AT_ONCE)
    for _ in range(2 * FAILURES_TOLERATED):
        assert not await g.looks_up(SHORT_S)
    g.inner.gate.set()
    assert all(await asyncio.gather(*before))
    assert g.inner.calls == 1 + AT_ONCE  # a lookup without a slot never begins
    assert await g.looks_up()
    assert g.events == []


async def test_a_lookup_that_would_be_late_does_not_begin() -> None:
    """If too little of the budget is left, the slot goes to the next lookup."""
    g = Guarded()
    g.inner.gate.clear()
    before = [asyncio.ensure_future(g.looks_up()) for _ in range(AT_ONCE)]
    await eventually(lambda: g.inner.under_way == AT_ONCE)
    g.now_s += LONG_S  # their duration, by the clock
    late = asyncio.ensure_future(g.looks_up(LONG_S / 100))
    next_one = asyncio.ensure_future(g.looks_up(100 * LONG_S))
    await asyncio.sleep(0)
    g.inner.gate.set()
    assert all(await asyncio.gather(*before))
    assert not await late
    assert await next_one
    assert g.inner.calls == AT_ONCE + 1


# --- saves in the background ---


async def test_a_conversation_has_one_save_in_flight() -> None:
    """Records that are added in the meantime are saved together, once, by the next save."""
    g = Guarded()
    g.inner.gate.clear()
    for name in "abcd":
        assert await g.saves(name, f"k{name}", budget_s=0.001) is Saved.LATE
    assert await g.saves(conversation="another", budget_s=0.001) is Saved.LATE
    assert g.inner.under_way == 2
    g.inner.gate.set()
    await g.settles()
    saved = sorted(([*records], keys) for records, keys in g.inner.saved)
    assert saved == sorted(
        [
            ([key("a")], [key("ka")]),
            ([key("a")], []),
            ([key(name) for name in "bcd"], [key(f"k{name}") for name in "bcd"]),
        ]
    )


async def test_an_exchange_waits_for_the_save_of_its_own_records() -> None:
    """It waits for the batch that its records joined, and not only for the save before it."""
    g = Guarded()
    g.inner.gate.clear()
    assert await g.saves("a", budget_s=0.001) is Saved.LATE
    assert await g.saves("b", budget_s=0.001) is Saved.LATE
    joined = asyncio.ensure_future(g.saves("c"))
    await asyncio.sleep(0.01)
    assert not joined.done()
    g.inner.gate.set()
    assert await joined is Saved.DONE
    assert [[*records] for records, _ in g.inner.saved] == [[key("a")], [key("b"), key("c")]]
    assert (g.counted("save", "late"), g.counted("save", "ok")) == (1, 1)


async def test_failed_saves_are_repeated_when_the_store_is_back() -> None:
    """A check begins them: few conversations at once, and each of them in one save."""
    g = Guarded()
    g.inner.error = StoreError("down")
    for n in range(30):
        await g.saves(f"{n}", f"k{n}", conversation=f"{n % 10}")
    await g.settles()
    g.inner.error = None
    g.now_s += PAUSE_MAX_S
    g.inner.takes_s = 0.001
    g.inner.most_at_once = 0
    assert not await g.store.check()  # only a save shows that saves work
    await g.settles()
    assert await g.store.check()
    assert g.inner.most_at_once <= OVERDUE_AT_ONCE
    assert not g.store.needs_check
    assert sorted(map(sorted, ([*records] for records, _ in g.inner.saved))) == sorted(
        sorted(key(f"{m}") for m in range(n, 30, 10)) for n in range(10)
    )
    assert {name for _, keys in g.inner.saved for name in keys} == {key(f"k{n}") for n in range(30)}


async def test_a_probe_that_works_begins_the_failed_saves() -> None:
    """Without a check, the first save of another conversation does it."""
    g = Guarded()
    await g.fails_until_open()
    g.inner.error = None
    g.now_s += PAUSE_S
    assert await g.saves("b", conversation="another") is Saved.LATE
    await g.settles()
    assert [[*records] for records, _ in g.inner.saved] == [[key("b")], [key("a")]]


@pytest.mark.parametrize("bound", ["SAVES_MAX", "SAVES_MAX_BYTES"])
async def test_saves_in_flight_are_bounded(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit in number or bytes, a save fails at once and counts as skipped."""
    monkeypatch.setattr(writer, bound, 3 if bound == "SAVES_MAX" else 3000)
    g = Guarded()
    g.inner.gate.clear()
    outcomes = [
        await g.saves(f"{n}", size=1000, budget_s=0.001, conversation=f"{n}") for n in range(4)
    ]
    assert outcomes == [Saved.LATE] * 3 + [Saved.FAILED]
    assert g.counted("save", "skipped") == 1
    g.inner.gate.set()
    await g.settles()
    assert await g.saves("5", size=1000, conversation="3") is Saved.DONE
    assert {name for records, _ in g.inner.saved for name in records} == set(map(key, "01235"))


@pytest.mark.parametrize("seed", range(20))
async def test_no_record_is_lost_while_a_store_fails_and_recovers(seed: int) -> None:
    """Saves that overlap, are late, fail or are skipped all reach the store in the end."""
    dice = Random(seed)  # noqa: S311 - a test, not a secret
    g = Guarded()
    added: list[bytes] = []

    async def comes_and_goes() -> None:
        while True:
            g.inner.error = StoreError("down") if dice.random() < 0.5 else None
            g.inner.takes_s = dice.choice((0.0, 0.002))
            g.now_s += PAUSE_S * dice.random()
            await asyncio.sleep(0.001)

    async def talks(conversation: str) -> None:
        for n in range(20):
            name = f"{conversation} {n}"
            added.append(key(name))
            budget_s = dice.choice((0.0005, LONG_S))
            await g.saves(name, name, budget_s=budget_s, conversation=conversation)

    weather = asyncio.ensure_future(comes_and_goes())
    conversations = [f"{n}" for n in range(30)]
    await asyncio.gather(*map(talks, conversations))
    weather.cancel()
    await g.settles()
    g.inner.error, g.inner.takes_s = None, 0.0
    g.now_s += PAUSE_MAX_S
    await g.saves("a probe")
    await g.settles()
    for one in conversations:
        assert await g.saves(f"{one} end", conversation=one) is Saved.DONE
    records = {name for saved, _ in g.inner.saved for name in saved}
    keys = {name for _, keys in g.inner.saved for name in keys}
    assert records.issuperset(added)
    assert keys.issuperset(added)
    assert (g.store._writer._unsaved_bytes, g.store.room.size_bytes) == (0, 0)


# --- a store that keeps failing ---


async def test_a_store_that_keeps_failing_is_not_called() -> None:
    """After three failures in a row, calls are skipped for 1 s, counted, and not logged."""
    g = Guarded()
    await g.fails_until_open()
    for _ in range(5):
        assert not await g.looks_up()
        assert await g.saves() is Saved.FAILED
    assert g.inner.calls == 0
    assert (g.counted("recall", "skipped"), g.counted("save", "skipped")) == (5, 5)
    assert g.events == ["store_failed"]


async def test_a_store_that_is_always_late_is_not_called() -> None:
    """Late lookups open the breaker; late saves do not, because they still store records."""
    g = Guarded()
    g.inner.gate.clear()
    for _ in range(FAILURES_TOLERATED):
        assert await g.saves(budget_s=0.001) is Saved.LATE
        assert not await g.looks_up(0.001)
    assert (g.events, g.up) == (["store_failed"], 0)
    assert json.loads(g.written.getvalue())["reason"] == "late"
    calls = g.inner.calls
    assert not await g.looks_up()
    assert g.inner.calls == calls
    g.inner.gate.set()
    await g.settles()
    g.inner.saved.clear()
    assert await g.saves() is Saved.LATE  # nor does it wait for one
    await g.settles()
    assert len(g.inner.saved) == 1
    assert not await g.looks_up()  # the end of the late lookups does not close the breaker


async def test_no_exchange_waits_for_a_save_while_lookups_fail() -> None:
    """A store that hangs costs each exchange its budget until three lookups have failed."""
    g = Guarded()
    g.inner.gate.clear()
    for _ in range(FAILURES_TOLERATED):
        assert not await g.looks_up(SHORT_S)
        g.now_s += 1
    budget = Budget(LONG_S)
    assert await g.store.save(SCOPE, bytes_of("c"), RECORDS, {}, budget) is Saved.LATE
    assert budget.left_s == LONG_S
    g.inner.gate.set()
    await g.settles()
    assert [records for records, _ in g.inner.saved] == [RECORDS]


async def test_a_late_burst_counts_once() -> None:
    """A short stall of this process does not count as a failure of the store."""
    g = Guarded()
    g.inner.gate.clear()

    async def is_late() -> None:
        waiting = [asyncio.ensure_future(g.looks_up(SHORT_S)) for _ in range(3 * AT_ONCE)]
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


async def test_a_timeout_of_a_partly_used_budget_is_not_a_failure() -> None:
    """A part of the budget may be too short for a store that works."""
    g = Guarded()
    g.inner.gate.clear()
    for _ in range(2 * FAILURES_TOLERATED):
        budget = Budget(LONG_S)
        budget.left_s = 0.001
        assert await g.store.look_up(SCOPE, ASKED, budget) is None
    g.inner.gate.set()
    await g.settles()
    assert (g.up, g.events) == (1, [])
    assert await g.looks_up()


async def test_a_store_that_cannot_be_written_is_still_read() -> None:
    """A full or read-only store fails saves only; lookups continue, and do not end the outage."""
    g = Guarded()
    for _ in range(FAILURES_TOLERATED + 5):
        g.inner.error = StoreError("full")
        assert await g.saves() is Saved.FAILED
        g.inner.error = None
        assert await g.looks_up()
    assert g.counted("save", "skipped") == 5
    assert g.counted("recall", "ok") == FAILURES_TOLERATED + 5
    g.now_s += 20 * PAUSE_S
    assert await g.looks_up()
    assert (g.store.is_degraded, g.up, g.events) == (True, 0, ["store_failed"])


async def test_one_bad_key_is_not_a_failure_of_the_store() -> None:
    """An error that is local to one conversation does not affect any other."""
    g = Guarded()
    g.inner.error = StoreError("a key of another type", is_local=True)
    for _ in range(FAILURES_TOLERATED + 5):
        assert not await g.looks_up()
    g.inner.error = None
    assert await g.looks_up()


@pytest.mark.parametrize("operation", ["recall", "save"])
async def test_after_the_pause_one_probe_passes(operation: str) -> None:
    """No exchange waits for the probe, not even its own; all other calls are skipped."""
    g = Guarded()
    await g.fails_until_open()
    g.now_s += PAUSE_S
    g.inner.gate.clear()

    async def tries() -> bool:
        return await (g.looks_up() if operation == "recall" else g.saves()) in (True, Saved.DONE)

    started = time.monotonic()
    assert not any(await asyncio.gather(*(tries() for _ in range(10))))
    assert time.monotonic() - started < LONG_S / 10
    assert g.inner.calls == 1
    g.inner.error = None
    g.inner.gate.set()
    await g.settles()
    await g.looks_up()  # saves are waited for only while lookups work
    await g.settles()
    assert await tries()


async def test_a_probe_that_is_too_late_has_failed() -> None:
    """Otherwise, three exchanges would wait in vain after each pause."""
    g = Guarded()
    g.inner.gate.clear()
    for _ in range(FAILURES_TOLERATED):
        assert not await g.looks_up(0.001)
    g.inner.gate.set()
    await g.settles()
    g.now_s += PAUSE_S
    g.inner.gate.clear()
    assert not await g.looks_up(0.001)
    await eventually(lambda: g.inner.under_way == 1)
    g.now_s += 1.0
    g.inner.gate.set()
    await g.settles()
    calls = g.inner.calls
    assert not await g.looks_up()
    assert g.inner.calls == calls


async def test_a_store_that_recovers_is_used_again() -> None:
    """The outage is one log line and the recovery another one, with any calls between them."""
    g = Guarded()
    for _ in range(2):
        await g.fails_until_open()
        for _ in range(10):
            await g.looks_up()
        g.inner.error = None
        g.now_s += PAUSE_MAX_S
        await g.looks_up()
        await g.saves()
        await g.settles()
        assert await g.looks_up()
        assert await g.saves() is Saved.DONE
        assert (g.store.is_degraded, g.up) == (False, 1)
    assert g.events == ["store_failed", "store_recovered"] * 2


async def test_a_check_detects_the_recovery() -> None:
    """Readiness recovers also if no exchange uses the store."""
    g = Guarded()
    await g.fails_until_open()
    g.now_s += PAUSE_S
    assert not await g.store.check()
    g.inner.error = None
    g.now_s += 2 * PAUSE_S
    await g.store.check()
    await g.settles()
    assert await g.store.check()
    assert not g.store.is_degraded
    assert await g.looks_up()  # the check has probed it


@pytest.mark.parametrize("failures", [1, 2, 10])
@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_check_does_not_end_an_outage_of_saves(failures: int, is_kept: bool) -> None:
    """Lookups and checks work all the time; the outage ends with the first save that works."""
    g = Guarded()
    is_full = True
    save = g.inner.save

    async def saves(*given: Any, **more: Any) -> VersionChange:
        if is_full:
            raise StoreError("full")
        return cast("VersionChange", await save(*given, **more))

    g.inner.save = saves
    for n in range(failures):
        await g.saves(conversation=f"{n}")
        if not is_kept:  # as if the cache had evicted it
            await g.store.forget(SCOPE, bytes_of(f"{n}"))
    for _ in range(50):
        g.now_s += PAUSE_MAX_S
        assert not await g.store.check()
        assert await g.looks_up()
        await g.settles()
        assert (g.store.is_degraded, g.up, g.events) == (True, 0, ["store_failed"])
    is_full = False
    async with asyncio.timeout(SOON_S):
        while g.store.is_degraded:
            g.now_s += PAUSE_MAX_S
            await g.store.check()
            await g.settles()
    assert (g.up, g.events) == (1, ["store_failed", "store_recovered"])


async def test_a_successful_ping_does_not_end_a_pause() -> None:
    """A store that answers a PING may still fail its operations."""
    g = Guarded()
    await g.fails_until_open()
    g.inner.error = None
    assert not await g.store.check()
    assert g.store.is_degraded
    assert not await g.looks_up()


# --- operators, and the end ---


async def test_operators_get_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators get the store's message also while breakers are open; a hang is a timeout."""
    monkeypatch.setattr(safe_store, "OPERATOR_WAITS_S", SHORT_S)
    g = Guarded()
    await g.fails_until_open()
    for error, words in ((StoreError("down"), "down"), (KeyError("sk-secret"), "KeyError")):
        g.inner.error = error
        with pytest.raises(StoreError, match=f"^{words}$"):
            await g.store.survey(None, "", 10)
        with pytest.raises(StoreError, match=f"^{words}$"):
            await g.store.forget(SCOPE, bytes_of("c"))
    g.inner.gate.clear()
    with pytest.raises(StoreError, match="no response"):
        await g.store.survey(None, "", 10)
    with pytest.raises(StoreError, match="no response"):
        await g.store.forget(SCOPE, bytes_of("c"))
    g.inner.gate.set()
    g.inner.error = None
    assert await g.store.survey(None, "", 10) == Page(())
    assert await g.store.forget(SCOPE, bytes_of("c"))


async def test_no_save_follows_a_deletion() -> None:
    """A deletion waits for saves in flight and drops the failed ones, for its conversation only."""
    g = Guarded()
    g.inner.error = StoreError("down")
    assert await g.saves("failed") is Saved.FAILED
    g.inner.error = None
    g.inner.gate.clear()
    await g.saves("late", budget_s=0.001)
    await g.store.save(SCOPE, bytes_of("other"), RECORDS, {}, Budget(0.001))
    forgetting = asyncio.ensure_future(g.store.forget(SCOPE, bytes_of("c")))
    await asyncio.sleep(0.01)
    assert (forgetting.done(), g.inner.under_way) == (False, 2)
    g.inner.gate.set()
    assert await forgetting
    await g.settles()
    g.inner.saved.clear()
    assert await g.saves("next") is Saved.DONE
    assert [[*records] for records, _ in g.inner.saved] == [[key("next")]]


async def test_a_deletion_waits_for_a_save_that_an_exchange_waited_for() -> None:
    """Its timeout begins when the exchange stops waiting, so it lasts longer than the timeout."""
    g = Guarded(timeout_s=0.2)
    under_way_at: list[int] = []

    async def forget(*_: Any, **__: Any) -> bool:
        under_way_at.append(g.inner.under_way)
        return True

    g.inner.forget = forget
    g.inner.takes_s = 0.3
    saving = asyncio.ensure_future(g.saves(budget_s=0.2))
    await asyncio.sleep(0)
    await g.store.forget(SCOPE, bytes_of("c"))
    assert (await saving, under_way_at) == (Saved.LATE, [0])


async def test_closing_finishes_the_saves_in_flight() -> None:
    """The store is closed after the saves in the background have ended."""
    g = Guarded()
    g.inner.gate.clear()
    for name in "ab":
        await g.saves(name, budget_s=0.001)
    closing = asyncio.ensure_future(g.store.close())
    await asyncio.sleep(0.01)
    assert [closing.done(), g.inner.closed] == [False, False]
    g.inner.gate.set()
    await closing
    assert ([[*records] for records, _ in g.inner.saved], g.inner.closed) == (
        [[key("a")], [key("b")]],
        True,
    )


async def test_closing_saves_what_was_not_saved() -> None:
    """Closing is the last chance, so it also tries while the breaker is open."""
    g = Guarded()
    await g.fails_until_open()
    for n in range(20):
        await g.saves(f"{n}", conversation=f"{n}")
    g.inner.error = None
    await g.store.close()
    assert g.inner.closed
    assert {name for records, _ in g.inner.saved for name in records} == {
        key("a"),
        *(key(f"{n}") for n in range(20)),
    }


async def test_a_long_outage_leaves_nothing_of_evicted_conversations() -> None:
    """What waits for the store is bounded by the cache, however many conversations there are."""
    g = Guarded(max_bytes=100_000)
    await g.fails_until_open()
    for n in range(1000):
        await g.saves(conversation=f"{n}")
    assert len(g.store._table._rows) < 100
    assert len(g.store._writer._overdue) < 100


async def test_closing_a_store_that_fails_is_short() -> None:
    """A store that is still away is tried for a few conversations only."""
    g = Guarded()
    await g.fails_until_open()
    for n in range(20):
        await g.saves(f"{n}", conversation=f"{n}")
    g.inner.calls = 0
    await g.store.close()
    assert (g.inner.calls, g.inner.closed) == (OVERDUE_AT_ONCE, True)


async def test_closing_is_bounded_by_the_timeout() -> None:
    """An operation that hangs is cancelled, and no task is left."""
    g = Guarded(timeout_s=SHORT_S)
    g.inner.gate.clear()
    for name in "ab":
        await g.saves(name, budget_s=0.001)
    await g.looks_up(0.001)
    started = time.monotonic()
    await g.store.close()
    assert time.monotonic() - started < LONG_S / 10
    assert (g.inner.under_way, g.inner.closed, g.store.tasks) == (0, True, [])


USAGE_METRICS = ("store_bytes", "store_max_bytes", "store_conversations", "store_evicted_total")


async def test_the_use_of_the_store_is_published() -> None:
    """Once it was read, the four metrics have its numbers; without a use, they are absent."""
    g = Guarded()
    assert [g.sample(name) for name in USAGE_METRICS] == [None] * 4
    await g.store.measure()

    assert [g.sample(name) for name in USAGE_METRICS] == [5, 10, 2, 3]
    g.inner.error = StoreError("down")
    await g.store.measure()
    assert [g.sample(name) for name in USAGE_METRICS] == [None] * 4
    assert (g.up, g.events) == (1, [])  # it is no operation of an exchange
