"""Store check: a test turn is saved, looked up and deleted, with the operations of `serve`."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any, Final

from reasoning_replay.adapters.stores.base import Store, StoreError
from reasoning_replay.check.local import Finding
from reasoning_replay.core.history.lookup_keys import Lookup, certain_keys_of_turn
from reasoning_replay.core.history.records import records_of
from reasoning_replay.core.history.turns import Context, Turn
from reasoning_replay.settings import units
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import redacted
from reasoning_replay.web.store_advice import store_advice
from reasoning_replay.web.wiring import bare_store

PROBE_TIMEOUT_S: Final = 3.0


async def of_store(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Connect to the store, then save, look up and delete a test turn."""
    if settings.store_url == "memory://":
        room = f"up to {units.shown('store_max_bytes', settings.store_max_bytes)} in this process"
        words = f"memory: {room}, lost at a restart and not shared: run one replica"
        if "KUBERNETES_SERVICE_HOST" in environ:
            words += ", or set store_url to a Redis"
            yield Finding("warning", words)
        else:
            yield Finding("ok", words)
        return
    place = redacted(settings.store_url)
    store = bare_store(settings)
    try:
        async for finding in _tried(store, place, settings):
            yield finding
    finally:
        await store.close()


async def _tried(store: Store, place: str, settings: Settings) -> AsyncIterator[Finding]:
    """Connect to a store, then save a test turn in it, look it up, and delete it."""
    budget_ms = settings.store_budget_ms
    scope, name = secrets.token_bytes(16), secrets.token_bytes(16)
    turn = Turn(name, name, b"", (), False, 0, Context(), ())  # noqa: FBT003 - not stored upstream
    key, records = certain_keys_of_turn(turn)[0], records_of(turn)
    took_ms = 0.0

    async def find() -> None:
        nonlocal took_ms
        began = time.perf_counter()
        result = await store.look_up(scope, [Lookup(0, [key])], {})
        took_ms = (time.perf_counter() - began) * 1000
        if [kept.records for kept in result.conversations] != [records]:
            raise StoreError("the turn that was just saved is not found")

    if fault := await _fault(settings, store.check()):
        yield Finding("problem", f"{place} cannot be used: {fault}")
        return
    yield Finding("ok", f"{place} can be reached")
    if fault := await _fault(settings, store.save((scope, name), records, [key])):
        words = "saving failed, and turns that are already there may still be readable"
        yield Finding("problem", f"{words}: {fault}")
        return
    if fault := await _fault(settings, find()):
        yield Finding("problem", f"lookups failed: {fault}")
    else:
        yield Finding("ok", f"a test turn was saved, and found in {took_ms:.1f} ms")
    if took_ms > budget_ms:
        budget = units.shown("store_budget_ms", budget_ms)
        words = f"that is more than store_budget_ms {budget}, so requests would not wait for it"
        yield Finding("warning", f"{words}: raise it")
    if fault := await _fault(settings, store.forget(scope, name)):
        yield Finding("warning", f"deleting failed: {fault}")


async def _fault(settings: Settings, operation: Coroutine[Any, Any, object]) -> str:
    """Run a store operation; return why it failed and what to do, "" if it did not fail."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await operation
    except TimeoutError:
        fault = f"it did not respond within {PROBE_TIMEOUT_S:g} s"
    except StoreError as error:
        fault = str(error).rstrip(".")
    else:
        return ""
    advice = store_advice(settings.store_url, fault)
    return f"{fault}; {advice}" if advice else fault
