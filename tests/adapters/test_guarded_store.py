"""A store that cannot hurt: deadlines, failures swallowed and counted, a pause after failures."""

import asyncio
import io
import json
import time
from collections.abc import Awaitable, Callable, Sequence

import pytest

from proxy.adapters.guarded_store import FAILURES_TOLERATED, PAUSE_S, GuardedStore
from proxy.adapters.logs import Log
from proxy.adapters.metrics import Metrics
from proxy.adapters.store import StoreError
from proxy.core.keys import Asked, Recalled
from proxy.core.turns import Turn
from tests.adapters.turns import SCOPE, asked, key, turn

FOUND = Recalled((turn("a"),), frozenset({7}))
ASKED = asked(key("1"))


class Inner:
    """A store that does what a test says, and counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self.hangs = False
        self.takes_s = 0.0
        self.closed = False

    async def _act(self) -> None:
        self.calls += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.takes_s:
            await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error

    async def recall(self, _: bytes, __: Sequence[Asked]) -> Recalled:
        """Find the same, always."""
        await self._act()
        return FOUND

    async def save(self, _: bytes, __: Turn, ___: Sequence[bytes]) -> None:
        """Keep nothing."""
        await self._act()

    async def check(self) -> None:
        """Be well or not."""
        await self._act()

    async def close(self) -> None:
        """Be closed."""
        self.closed = True


class Guarded:
    """A guarded store with a clock that is moved by hand."""

    def __init__(self, timeout_s: float = 5.0) -> None:
        self.inner = Inner()
        self.metrics = Metrics()
        self.written = io.StringIO()
        self.now_s = 0.0
        self.store = GuardedStore(
            self.inner, timeout_s, self.metrics, Log("info", "json", self.written), self._clock
        )

    def _clock(self) -> float:
        return self.now_s

    async def recalls(self) -> bool:
        """Tell whether a recall works."""
        return await self.store.recall(SCOPE, ASKED) is not None

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
    "recall": lambda store: store.recall(SCOPE, ASKED),
    "save": lambda store: store.save(SCOPE, turn("a"), [key("1")]),
    "check": lambda store: store.check(),
}
WORKED = {"recall": FOUND, "save": True, "check": True}
FAILED = {"recall": None, "save": False, "check": False}


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
async def test_a_store_that_hangs_is_not_waited_for(operation: str) -> None:
    """Beyond the deadline nothing is held up."""
    g = Guarded(timeout_s=0.03)
    g.inner.hangs = True
    started = time.monotonic()
    assert await OPERATIONS[operation](g.store) is FAILED[operation]
    assert 0.02 < time.monotonic() - started < 0.5
    assert g.counted(operation, "timeout") == 1


async def test_a_store_that_keeps_failing_is_left_alone() -> None:
    """After three failures in a row, for a second: skipped, counted, and not a word in the log."""
    g = Guarded()
    g.inner.error = StoreError("down")
    for _ in range(FAILURES_TOLERATED + 5):
        assert not await g.recalls()
    assert g.inner.calls == FAILURES_TOLERATED
    assert g.counted("recall", "skipped") == 5
    assert g.events == ["store_failed"]


async def test_a_store_that_cannot_be_written_is_still_read() -> None:
    """One that is full or a replica fails at saves alone, and recalls go on."""
    g = Guarded()
    for _ in range(FAILURES_TOLERATED + 5):
        g.inner.error = StoreError("full")
        assert await g.store.save(SCOPE, turn("a"), []) is False
        g.inner.error = None
        assert await g.recalls()
    assert g.counted("save", "skipped") == 5
    assert g.counted("recall", "ok") == FAILURES_TOLERATED + 5


async def test_one_bad_key_is_no_failure_of_the_store() -> None:
    """What is wrong with one conversation costs no other its reasoning."""
    g = Guarded()
    g.inner.error = StoreError("a key of another type", is_local=True)
    for _ in range(FAILURES_TOLERATED + 5):
        assert not await g.recalls()
    g.inner.error = None
    assert await g.recalls()


async def test_a_burst_is_no_failure_of_the_store() -> None:
    """Deadlines begin when it is an operation's turn, not while it waits for the others."""
    g = Guarded(timeout_s=0.05)
    g.inner.takes_s = 0.005
    assert all(await asyncio.gather(*(g.recalls() for _ in range(100))))
    assert g.counted("recall", "timeout") == 0


async def test_failures_with_successes_between_them_are_no_row() -> None:
    """A store that mostly works is not left alone."""
    g = Guarded()
    for n in range(20):
        g.inner.error = StoreError("now and then") if n % 3 else None
        await g.recalls()
    assert g.inner.calls == 20


async def test_after_the_pause_one_tries_for_all() -> None:
    """If it fails the pause begins anew; the others do not queue up behind it."""
    g = Guarded(timeout_s=0.2)
    g.inner.error = StoreError("down")
    for _ in range(FAILURES_TOLERATED):
        await g.recalls()
    g.now_s += PAUSE_S
    g.inner.hangs = True
    results = await asyncio.gather(*(g.recalls() for _ in range(10)))
    assert not any(results)
    assert g.inner.calls == FAILURES_TOLERATED + 1
    assert not await g.recalls()
    assert g.inner.calls == FAILURES_TOLERATED + 1


async def test_when_it_is_back_everybody_uses_it_again() -> None:
    """One line when it failed, one when it is back, however much happened between."""
    g = Guarded()
    for _ in range(2):
        g.inner.error = StoreError("down")
        for _ in range(10):
            await g.recalls()
        g.inner.error = None
        g.now_s += PAUSE_S
        assert await g.recalls()
        assert (await g.recalls(), g.store.is_degraded, g.up) == (True, False, 1)
    assert g.events == ["store_failed", "store_recovered"] * 2


async def test_a_check_finds_out_that_it_is_back() -> None:
    """Where nobody asks for anything, readiness still says so."""
    g = Guarded()
    g.inner.error = StoreError("down")
    for _ in range(FAILURES_TOLERATED):
        await g.recalls()
    g.inner.error = None
    g.now_s += PAUSE_S
    assert await g.store.check()
    assert not g.store.is_degraded


async def test_a_sign_of_life_does_not_end_a_pause() -> None:
    """A store that answers a PING while it fails at its work is not well."""
    g = Guarded()
    g.inner.error = StoreError("slow")
    for _ in range(FAILURES_TOLERATED):
        await g.recalls()
    g.inner.error = None
    assert not await g.store.check()
    assert g.store.is_degraded
    assert not await g.recalls()


async def test_a_client_that_leaves_is_not_the_stores_failure() -> None:
    """Cancelling goes through, and counts for nothing; nor does it keep the store shut."""
    g = Guarded()
    g.inner.hangs = True
    waiting = asyncio.ensure_future(g.recalls())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    g.inner.hangs = False
    assert not g.store.is_degraded
    assert await g.recalls()


async def test_a_log_line_holds_no_secret() -> None:
    """What a bug says may be anything; what a store says is kept."""
    g = Guarded()
    g.inner.error = KeyError("sk-secret")
    await g.recalls()
    assert "sk-secret" not in g.written.getvalue()


async def test_closing_closes_the_store() -> None:
    """It is owned."""
    g = Guarded()
    await g.store.close()
    assert g.inner.closed
