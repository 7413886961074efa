"""Whether the store can be used: by doing there what serving does."""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from proxy.adapters.store import Store, StoreError
from proxy.addresses import redacted
from proxy.check.finding import Finding
from proxy.core.keys import Asked, keys_of_turn
from proxy.core.turns import Context, Turn
from proxy.settings import Settings
from proxy.store_urls import read_store_url
from proxy.web.parts import bare_store

__all__ = ["of_store"]

PROBE_TIMEOUT_S: Final = 3.0


async def of_store(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Reach it, and keep, find and delete a turn of our own there."""
    url = read_store_url(settings.store_url)
    if url.kind == "memory":
        room = f"up to {settings.memory_max_bytes:,} bytes in this process"
        words = f"memory: {room}, lost at a restart and not shared: run one replica"
        if "KUBERNETES_SERVICE_HOST" in environ:
            words += ", or set store_url to a Redis"
            yield Finding("warning", "store", words)
        else:
            yield Finding("ok", "store", words)
        return
    place = redacted(settings.store_url)
    if url.kind == "sqlite" and (fault := _folder_fault(Path(url.path).parent)):
        yield Finding("problem", "store", f"{place} cannot be used: {fault}")
        return
    store = bare_store(settings)
    try:
        async for finding in _tried(store, place, settings.store_budget_ms):
            yield finding
    finally:
        await store.close()


def _folder_fault(folder: Path) -> str:
    """Say what keeps a file, and the two beside it, from being made there; "" for nothing."""
    if not folder.is_dir():
        return f"there is no folder {folder}; make it, for the user that runs the proxy"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user may not write in {folder}; a file and two beside it must be made there"
    return ""


async def _tried(store: Store, place: str, budget_ms: int) -> AsyncIterator[Finding]:
    """Reach a store, then keep a turn of our own in it, find it, and delete it."""
    scope, name = secrets.token_bytes(16), secrets.token_bytes(16)
    turn = Turn(name, name, b"", (), False, 0, Context(), ())  # noqa: FBT003 - not stored upstream
    key = keys_of_turn(turn)[0]
    took_ms = 0.0

    async def find() -> None:
        nonlocal took_ms
        began = time.perf_counter()
        recalled = await store.recall(scope, [Asked(0, [key])])
        took_ms = (time.perf_counter() - began) * 1000
        if not recalled.turns:
            raise StoreError("what was kept a moment ago is not found")

    if fault := await _fault(store.check()):
        yield Finding("problem", "store", f"{place} cannot be used: {fault}")
        return
    yield Finding("ok", "store", f"{place} can be reached")
    if fault := await _fault(store.save(scope, turn, [key])):
        words = f"nothing can be kept there: {fault}; what is there already may still be read"
        yield Finding("problem", "store", words)
        return
    if fault := await _fault(find()):
        yield Finding("problem", "store", f"nothing can be found there: {fault}")
    else:
        yield Finding("ok", "store", f"a turn was kept, and found again in {took_ms:.1f} ms")
    if took_ms > budget_ms:
        words = f"that is more than store_budget_ms {budget_ms}, and would not be waited for"
        yield Finding("warning", "store", f"{words}: raise it")
    if fault := await _fault(store.forget(scope, name)):
        yield Finding("warning", "store", f"nothing can be deleted there on demand: {fault}")


async def _fault(operation: Coroutine[Any, Any, object]) -> str:
    """Say why an operation of the store failed; "" when it did not."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await operation
    except TimeoutError:
        return f"it did not answer within {PROBE_TIMEOUT_S:g} s"
    except StoreError as error:
        return str(error)
    return ""
