"""Faults of a Redis server: no request fails or waits for it, and replay resumes afterwards."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.faults.standalone import Store, standalone
from tests.faults.suffering import PATIENT_MS, WHOLE, Suffering, injected, suffering


@dataclass(frozen=True, slots=True)
class Fault:
    """
    One fault of the store.

    Attributes:
        hurts, repairs: Operations that begin and end the fault.
        fails: Operations that fail during the fault.
        keeps: Whether the store keeps its contents.
    """

    hurts: Callable[[Store], None]
    repairs: Callable[[Store], None]
    fails: tuple[str, ...] = ("recall", "save")
    keeps: bool = True


FAULTS = {
    "killed, and back empty": Fault(
        lambda store: store.server.kill(), lambda store: store.server.start(), keeps=False
    ),
    "hangs": Fault(lambda store: store.server.pause(), lambda store: store.server.resume()),
    "slower than the budget": Fault(
        lambda store: store.delays(0.4), lambda store: store.delays(0), fails=("recall",)
    ),
    "connections are reset": Fault(Store.breaks, Store.repairs),
    "read-only replica": Fault(
        lambda store: store.does("REPLICAOF 127.0.0.1 1"),
        lambda store: store.does("REPLICAOF NO ONE"),
        fails=("save",),
    ),
    "no right to write": Fault(
        lambda store: store.does("ACL SETUSER app -@write"),
        lambda store: store.does("ACL SETUSER app +@write"),
        fails=("save",),
    ),
    "password is another": Fault(
        lambda store: store.does("ACL SETUSER app resetpass >new", "CLIENT KILL TYPE normal"),
        lambda store: store.does("ACL SETUSER app resetpass >old"),
    ),
    "user is switched off": Fault(
        lambda store: store.does("ACL SETUSER app off", "CLIENT KILL TYPE normal"),
        lambda store: store.does("ACL SETUSER app on"),
    ),
    "takes no more clients": Fault(
        lambda store: store.does("CONFIG SET maxclients 1", "CLIENT KILL TYPE normal"),
        lambda store: store.does("CONFIG SET maxclients 1000"),
    ),
    "out of memory": Fault(
        lambda store: store.does("CONFIG SET maxmemory 1"),
        lambda store: store.does("CONFIG SET maxmemory 0"),
        fails=("save",),
    ),
}


ON_VALKEY = ("killed, and back empty", "out of memory")


@pytest.mark.parametrize(
    ("kind", "name"),
    [*(("redis", name) for name in FAULTS), *(("valkey", name) for name in ON_VALKEY)],
)
async def test_a_fault_is_not_noticed_and_passes(kind: str, name: str) -> None:
    """During a fault requests succeed in time, and after it everything works as before."""
    fault = FAULTS[name]
    works = "recall" not in fault.fails
    budget = {"store_budget_ms": PATIENT_MS} if works else {}
    async with standalone(kind=kind) as store, suffering(store.url, **budget) as one:
        one.assert_quick(await one.converse(during=lambda: fault.hurts(store)))
        before = {name: one.operations(name) for name in fault.fails}
        lines = await one.converse()
        one.assert_quick(lines)
        assert_left_alone(one, before)
        assert one.counted("store_up") == 0
        if works:  # stored reasoning is still injected
            assert injected(lines) >= WHOLE[-1]

        one.assert_quick(await one.converse(during=lambda: fault.repairs(store)))
        await one.resumes()
        await one.recovers()
        one.assert_told(has_failed=True)
        assert [is_closed(one, name) for name in ("recall", "save")] == [True, True]
        if fault.keeps:
            await one.remembers()


def assert_left_alone(one: Suffering, before: dict[str, Counter[str]]) -> None:
    """Check that the failing operations never work, and that most calls are skipped."""
    did = {name: one.operations(name) - then for name, then in before.items()}
    assert [name for name in did if did[name]["ok"]] == []
    name, first = next(iter(did.items()))
    assert first["skipped"] >= first.total() / 2
    assert not is_closed(one, name)


def is_closed(one: Suffering, operation: str) -> bool:
    """Return whether the breaker of an operation lets every call pass."""
    return one.counted("store_breakers", operation=operation, state="closed") == 1


PASSING = {
    "connections are closed": Store.kills_connections,
    "restarted, nothing lost": Store.restarts,
    "connections are reset": lambda store: store.line.cut(),
    "slow, but inside the budget": lambda store: store.delays(0.005),
}


@pytest.mark.parametrize("passes", PASSING.values(), ids=PASSING)
async def test_what_passes_at_once_costs_nothing(passes: Callable[[Store], None]) -> None:
    """After a brief fault all reasoning is injected, and the log does not mention it."""
    async with (
        standalone(keeps=True) as store,
        suffering(store.url, store_budget_ms=PATIENT_MS) as one,
    ):
        for _ in range(3):
            passes(store)
            await one.resumes(at_once=True)
        assert injected(await one.converse()) >= 3 * WHOLE[-1]
        assert one.operations("recall")["error"] == 0
        one.assert_told(has_failed=False)


async def test_all_is_deleted() -> None:
    """After FLUSHALL, new conversations are injected at once."""
    async with standalone() as store, suffering(store.url, store_budget_ms=PATIENT_MS) as one:
        for _ in range(3):
            await one.converse(during=lambda: store.does("FLUSHALL"))
            await one.resumes(at_once=True)
        one.assert_told(has_failed=False)
