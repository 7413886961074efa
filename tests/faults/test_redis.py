"""Whatever happens to a Redis: no request fails or waits for it, and replay resumes by itself."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.standalone import Store, standalone
from tests.faults.suffering import PATIENT_MS, WHOLE, Suffering, given_back, suffering


@dataclass(frozen=True, slots=True)
class Fault:
    """
    One way to suffer.

    Attributes:
        hurts, mends: What is done to the store.
        fails: What does not work meanwhile.
        keeps: Whether the store still has afterwards what it had before.
    """

    hurts: Callable[[Store], None]
    mends: Callable[[Store], None]
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
    "connections are reset": Fault(Store.breaks, Store.mends),
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
    """Requests succeed in time; what works still works; afterwards all is as it was."""
    fault = FAULTS[name]
    works = "recall" not in fault.fails
    budget = {"store_budget_ms": PATIENT_MS} if works else {}
    async with standalone(kind=kind) as store, suffering(store.url, **budget) as one:
        one.assert_quick(await one.converse(amid=lambda: fault.hurts(store)))
        before = {name: one.operations(name) for name in fault.fails}
        lines = await one.converse()
        one.assert_quick(lines)
        assert_left_alone(one, before)
        assert one.counted("store_up") == 0
        if works:  # what it keeps is still given back
            assert given_back(lines) >= WHOLE[-1]

        one.assert_quick(await one.converse(amid=lambda: fault.mends(store)))
        await one.resumes()
        await one.recovers()
        one.assert_told(has_failed=True)
        assert [is_closed(one, name) for name in ("recall", "save")] == [True, True]
        if fault.keeps:
            await one.remembers()


def assert_left_alone(one: Suffering, before: dict[str, Counter[str]]) -> None:
    """What fails does not work for anybody, and for most that wait it is not even tried."""
    did = {name: one.operations(name) - then for name, then in before.items()}
    assert [name for name in did if did[name]["ok"]] == []
    name, first = next(iter(did.items()))
    assert first["skipped"] >= first.total() / 2
    assert not is_closed(one, name)


def is_closed(one: Suffering, operation: str) -> bool:
    """Tell whether the breaker of an operation lets every call pass."""
    return one.counted("store_breakers", operation=operation, state="closed") == 1


PASSING = {
    "connections are closed": Store.kills_connections,
    "restarted, nothing lost": Store.restarts,
    "connections are reset": lambda store: store.line.cut(),
    "slow, but inside the budget": lambda store: store.delays(0.005),
}


@pytest.mark.parametrize("passes", PASSING.values(), ids=PASSING)
async def test_what_passes_at_once_costs_nothing(passes: Callable[[Store], None]) -> None:
    """All is given back as if nothing had been, and nothing is said of it."""
    async with (
        standalone(keeps=True) as store,
        suffering(store.url, store_budget_ms=PATIENT_MS) as one,
    ):
        for _ in range(3):
            passes(store)
            await one.resumes(at_once=True)
        assert given_back(await one.converse()) >= 3 * WHOLE[-1]
        assert one.operations("recall")["error"] == 0
        one.assert_told(has_failed=False)


async def test_all_is_deleted() -> None:
    """What was kept is gone, what is said from then on is given back at once."""
    async with standalone() as store, suffering(store.url, store_budget_ms=PATIENT_MS) as one:
        for _ in range(3):
            await one.converse(amid=lambda: store.does("FLUSHALL"))
            await one.resumes(at_once=True)
        one.assert_told(has_failed=False)


async def test_a_password_is_rotated(tmp_path: Path) -> None:
    """The new one is read from its file; nobody restarts the proxy."""
    file = tmp_path / "password"
    file.write_text("old\n")
    async with (
        standalone() as store,
        suffering(store.line.url, store_username="app", store_password_file=str(file)) as one,
    ):
        store.does("ACL SETUSER app resetpass >new", "CLIENT KILL TYPE normal")
        one.assert_quick(await one.converse())
        assert one.counted("store_up") == 0
        file.write_text("new\n")
        await one.resumes()
        await one.recovers()
        one.assert_told(has_failed=True)
