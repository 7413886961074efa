"""Store probe: checks a store that has failed, so that its recovery needs no request."""

import asyncio
from typing import Final

from reasoning_replay.adapters.resilience.safe_store import SafeStore

__all__ = ["look_after"]

# How often a store that has failed is checked.
LOOK_S: Final = 5.0


async def look_after(store: SafeStore) -> None:
    """Check the store while it is degraded, until this is cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        if store.is_degraded:
            await store.check()
