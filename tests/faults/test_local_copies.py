"""Conversations with local copies: they go on while the store is away."""

import asyncio
from collections.abc import Callable

import pytest
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.app import running

from tests.faults.standalone import Store, standalone
from tests.faults.suffering import PATIENT_MS, WHOLE, Suffering, suffering
from tests.patience import SOON_S

CACHE_BYTES = 1 << 25

# How the fault begins, and how it ends.
AWAY: dict[str, tuple[Callable[[Store], None], Callable[[Store], None]]] = {
    "killed": (lambda store: store.server.kill(), lambda store: store.server.start()),
    "hangs": (lambda store: store.server.pause(), lambda store: store.server.resume()),
    "password is another": (
        lambda store: store.does("ACL SETUSER app resetpass >new", "CLIENT KILL TYPE normal"),
        lambda store: store.does("ACL SETUSER app resetpass >old"),
    ),
    "out of memory": (
        lambda store: store.does("CONFIG SET maxmemory 1"),
        lambda store: store.does("CONFIG SET maxmemory 0"),
    ),
}


@pytest.mark.parametrize(("hurts", "repairs"), AWAY.values(), ids=AWAY)
async def test_conversations_go_on_and_are_kept_afterwards(
    hurts: Callable[[Store], None], repairs: Callable[[Store], None]
) -> None:
    """During an outage nothing is missed, and later another replica finds what was said then."""
    async with (
        standalone(keeps=True) as store,
        suffering(store.url, recent_max_bytes=CACHE_BYTES) as one,
    ):
        hurts(store)
        for _ in range(2):
            lines = await one.converse()
            one.assert_quick(lines)
            assert [line["healed"] for line in lines if "healed" in line] == []
            await one.resumes(at_once=True)

        repairs(store)
        await one.recovers()
        one.assert_told(has_failed=None)  # a short hang is not a failure
        await one.converse(fresh=0)
        patient = one.app.settings.model_copy(update={"store_budget_ms": PATIENT_MS})
        async with asyncio.timeout(SOON_S):
            while not await is_whole_elsewhere(one, patient):
                pass  # saves finish after the responses


async def is_whole_elsewhere(one: Suffering, settings: Settings) -> bool:
    """Return whether a new replica injects all of the old agent's reasoning."""
    async with running(settings) as other:
        one.old.say("And what was all that?")
        await one.old.step(f"{other.url}/v1")
    last = one.old.steps[-1]
    dropped = sum(item.get("type") == "reasoning" for item in last.whole)
    return dropped > WHOLE[-1] and last.mark == f"injected={dropped}"
