"""Redis with full memory, under every eviction policy."""

import pytest

from tests.faults.standalone import standalone
from tests.faults.suffering import PATIENT_MS, WHOLE, injected, suffering

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
