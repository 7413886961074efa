"""Faults of a Redis server: no request fails or waits for it, and replay resumes afterwards."""

import asyncio
from collections.abc import Callable

import pytest
from reasoning_replay.web.app import running

from tests.faults.standalone import Store, standalone
from tests.faults.suffering import PATIENT_MS, WHOLE, Fault, injected, is_whole_at, suffering
from tests.patience import SOON_S

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
    async with standalone(kind=kind) as store, suffering(store.url, **fault.settings) as one:
        await fault.is_not_noticed(one, store)


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


# (policy, whether other users' keys expire, whether saves fail)
POLICIES = [
    ("noeviction", True, True),
    ("allkeys-lru", True, False),
    ("allkeys-lfu", True, False),
    ("allkeys-random", True, False),
    ("volatile-lru", True, False),
    ("volatile-lfu", True, False),
    ("volatile-random", True, False),
    ("volatile-ttl", True, False),
    # Only the proxy's own keys can be evicted, and then nothing is left:
    ("volatile-lru", False, True),
    ("volatile-ttl", False, True),
]


@pytest.mark.parametrize(("policy", "expires", "fails"), POLICIES)
async def test_memory_is_full(policy: str, expires: bool, fails: bool) -> None:
    """Requests succeed in time; saves go on if the policy evicts, and resume once there is room."""
    async with (
        standalone(f"maxmemory-policy {policy}") as store,
        suffering(store.url, store_budget_ms=PATIENT_MS) as one,
    ):
        store.tightens()
        store.fills(expires=expires)
        before = one.operations("save")
        lines = []
        for _ in range(2):
            lines += await one.converse(during=lambda: store.fills(expires=expires))
        one.assert_quick(lines)
        did = one.operations("save") - before
        assert bool(did["error"]) == fails
        if policy == "noeviction":  # and stored reasoning is still injected
            assert injected(lines) >= WHOLE[-1]
        else:
            assert int(store.server.told("stats")["evicted_keys"]) > 0
        if not fails:
            one.assert_told(has_failed=False)

        store.does("CONFIG SET maxmemory 0")
        await one.resumes()
        await one.recovers()
        one.assert_told(has_failed=fails)


# --- with local copies ---

CACHE_BYTES = 1 << 25
AWAY = ("killed, and back empty", "hangs", "password is another", "out of memory")


@pytest.mark.parametrize("name", AWAY)
async def test_conversations_go_on_and_are_kept_afterwards(name: str) -> None:
    """During an outage nothing is missed, and later another replica finds what was said then."""
    async with (
        standalone(keeps=True) as store,
        suffering(store.url, local_max_bytes=CACHE_BYTES) as one,
    ):
        FAULTS[name].hurts(store)
        for _ in range(2):
            lines = await one.converse()
            one.assert_quick(lines)
            assert [line["healed"] for line in lines if "healed" in line] == []
            await one.resumes(at_once=True)

        FAULTS[name].repairs(store)
        await one.recovers()
        one.assert_told(has_failed=None)  # a short hang is not a failure
        await one.converse(fresh=0)
        patient = one.app.settings.model_copy(update={"store_budget_ms": PATIENT_MS})
        async with asyncio.timeout(SOON_S):
            while True:  # saves finish after the responses
                async with running(patient) as other:
                    if await is_whole_at(one.old, other.url):
                        break
