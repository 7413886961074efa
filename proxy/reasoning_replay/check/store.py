"""Store check: a test turn is saved, looked up and deleted, with the operations of `serve`."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import Final

from reasoning_replay.adapters.stores.base import Store, StoreError
from reasoning_replay.adapters.stores.registry import read_store_url, sentence
from reasoning_replay.adapters.stores.trial import Trial
from reasoning_replay.check.local import Finding
from reasoning_replay.settings import units
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import redacted
from reasoning_replay.web.wiring import bare_store

PROBE_TIMEOUT_S: Final = 3.0


async def of_store(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Connect to the store, then save, look up and delete a test turn."""
    room = units.shown("store_max_bytes", settings.store_max_bytes)
    for grade, words in read_store_url(settings.store_url).findings(room, environ):
        yield Finding(grade, words)
    store = bare_store(settings)
    if store is None:
        return
    place = redacted(settings.store_url)
    try:
        async for finding in _tried(store, place, settings):
            yield finding
    finally:
        await store.close()


async def _tried(store: Store, place: str, settings: Settings) -> AsyncIterator[Finding]:
    """Connect to a store, then save a test turn in it, look it up, and delete it."""
    budget_ms = settings.store_budget_ms
    trial = Trial(store)
    took_ms = 0.0
    said = {
        "check": f"{place} cannot be used",
        "save": "saving failed, and turns that are already there may still be readable",
        "recall": "lookups failed",
    }
    for operation, act in trial.steps.items():
        began = time.perf_counter()
        if fault := await _fault(settings, act()):
            yield Finding("problem", f"{said[operation]}: {fault}")
            if operation != "recall":
                return
        elif operation == "check":
            yield Finding("ok", f"{place} can be reached")
        elif operation == "recall":
            took_ms = (time.perf_counter() - began) * 1000
            yield Finding("ok", f"a test turn was saved, and found in {took_ms:.1f} ms")
    if took_ms > budget_ms:
        budget = units.shown("store_budget_ms", budget_ms)
        words = f"that is more than store_budget_ms {budget}, so requests would not wait for it"
        yield Finding("warning", f"{words}: raise it")
    if fault := await _fault(settings, trial.delete()):
        yield Finding("warning", f"deleting failed: {fault}")
    async for finding in _when_full(store):
        yield finding


async def _when_full(store: Store) -> AsyncIterator[Finding]:
    """Tell whether saves will fail once the store is full."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            fault = await store.when_full()
    except (StoreError, TimeoutError):
        words = "what it does when it is full is not known: this user may not ask (+info)"
        yield Finding("ok", words)
    else:
        if fault:
            yield Finding("problem", fault)


async def _fault(settings: Settings, operation: Awaitable[object]) -> str:
    """Run a store operation; return why it failed and what to do, "" if it did not fail."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await operation
    except TimeoutError:
        fault = f"it did not respond within {PROBE_TIMEOUT_S:g} s"
    except StoreError as error:
        fault = str(error)
    else:
        return ""
    return sentence(settings.store_url, fault)
