"""Store probe: checks a failed store, so that its recovery is detected without a request."""

import asyncio
from typing import Final

from reasoning_replay.adapters.resilience.safe_store import SafeStore

__all__ = ["look_after"]

# How often a store that has failed is checked.
LOOK_S: Final = 5.0


async def look_after(store: SafeStore) -> None:
    """Check the store every LOOK_S while it is degraded; runs until it is cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        if store.is_degraded:
            await store.check()
