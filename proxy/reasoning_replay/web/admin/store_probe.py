"""
Store probe: checks a failed store without a request.

So its recovery is detected, and it gets what it did not take before.
"""

import asyncio
from typing import Final

from reasoning_replay.adapters.resilience.safe_store import SafeStore

__all__ = ["look_after"]

# How often a store is checked that has failed, or did not take everything.
LOOK_S: Final = 5.0


async def look_after(store: SafeStore) -> None:
    """Check the store every LOOK_S while it needs that; runs until it is cancelled."""
    while True:
        await asyncio.sleep(LOOK_S)
        if store.needs_check:
            await store.check()
