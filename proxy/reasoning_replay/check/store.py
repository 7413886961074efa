"""Store check: a test turn is saved, found and deleted, as serving would."""

import asyncio
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from reasoning_replay.adapters.stores.base import Store, StoreError
from reasoning_replay.check.report import Finding
from reasoning_replay.core.history.lookup_keys import Lookup, keys_of_turn
from reasoning_replay.core.history.turns import Context, Turn, records_of
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.store_url import read_store_url
from reasoning_replay.settings.urls import redacted
from reasoning_replay.web.wiring import bare_store

__all__ = ["of_store"]

PROBE_TIMEOUT_S: Final = 3.0
# How a failure is told, by us or by the system, and what to do then: the first that fits.
WAYS_OUT: Final = (
    (
        "refuses the user or the pass",
        "set REPLAY_STORE_PASSWORD, and REPLAY_STORE_USERNAME if need be",
    ),
    ("name resolution|not known|nodename", "is the host in store_url spelt right?"),
    (
        "CERTIFICATE_VERIFY",
        "name a PEM file with who signed it behind store_url: ?ssl_ca_certs=/path",
    ),
    ("SSL", "does it speak TLS? If not, write redis://, not rediss://"),
    ("names a master", "are these Sentinels, and do they call the master so?"),
    ("Connect call failed", "does it run, and are host and port in store_url right?"),
    ("connecting to .* No such file", "does it run, and is the path in store_url right?"),
    (r"refused a command \(DB\)", "is there a database of that number? Mostly 0 to 15"),
    ("it is a replica", "name its master, or Sentinels that do"),
    ("it is full", "raise its maxmemory, or set its maxmemory-policy to volatile-ttl"),
    ("not a database", "name another file, or one that is not there yet"),
    ("unable to open", "store_url must name a file that this user may write, and no folder"),
    ("ACL", "the README has the rights that it needs, under Redis: rights"),
)
SILENT: Final = "did not answer|reset by peer|closed by server"


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
        async for finding in _tried(store, place, settings):
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


async def _tried(store: Store, place: str, settings: Settings) -> AsyncIterator[Finding]:
    """Reach a store, then keep a turn of our own in it, find it, and delete it."""
    budget_ms = settings.store_budget_ms
    scope, name = secrets.token_bytes(16), secrets.token_bytes(16)
    turn = Turn(name, name, b"", (), False, 0, Context(), ())  # noqa: FBT003 - not stored upstream
    key, records = keys_of_turn(turn)[0], records_of(turn)
    took_ms = 0.0

    async def find() -> None:
        nonlocal took_ms
        began = time.perf_counter()
        result = await store.look_up(scope, [Lookup(0, [key])], {})
        took_ms = (time.perf_counter() - began) * 1000
        if [kept.records for kept in result.conversations] != [records]:
            raise StoreError("what was kept a moment ago is not found")

    if fault := await _fault(store.check()):
        said = f"{place} cannot be used: {fault.rstrip('.')}"
        words = "; ".join([said, *_way_out(settings, fault)])
        yield Finding("problem", "store", words)
        return
    yield Finding("ok", "store", f"{place} can be reached")
    if fault := await _fault(store.save(scope, name, records, [key])):
        words = f"nothing can be kept there: {fault}; what is there already may still be read"
        yield Finding("problem", "store", "; ".join([words, *_way_out(settings, fault)]))
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


def _way_out(settings: Settings, fault: str) -> list[str]:
    """Say what to do about a store that cannot be used, where that is known."""
    url = read_store_url(settings.store_url)
    if url.kind == "cluster" and "refused a command" in fault:
        return ["is it a Cluster? If not, write redis:// and not redis+cluster://"]
    if url.kind not in {"sqlite", "unix"} and re.search(SILENT, fault):
        other = "redis:// and not rediss" if url.tls else "rediss"
        return [f"is a Redis there, and may one reach it? If TLS is what differs, write {other}://"]
    return [way_out for words, way_out in WAYS_OUT if re.search(words, fault)][:1]


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
