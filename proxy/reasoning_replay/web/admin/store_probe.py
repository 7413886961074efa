"""Whoever has seen the store fail finds out when it is back, also where no request asks it."""

import asyncio
from typing import Final

from reasoning_replay.adapters.resilience.safe_store import SafeStore

__all__ = ["look_after"]

# How often a store that is away is asked for a sign of life.
LOOK_S: Final = 5.0


async def look_after(store: SafeStore) -> None:
    """
    Ask it again while it is away, until this is cancelled.

    What operators see is the worst that any process knows: one that is idle would stand by what it
    saw last.
    """
    while True:
        await asyncio.sleep(LOOK_S)
        if store.is_degraded:
            await store.check()
