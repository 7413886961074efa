"""Store check: a test turn is saved, looked up and deleted, with the operations of `serve`."""

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
from reasoning_replay.core.history.records import records_of
from reasoning_replay.core.history.turns import Context, Turn
from reasoning_replay.settings import units
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.store_url import read_store_url
from reasoning_replay.settings.urls import redacted
from reasoning_replay.web.wiring import bare_store

__all__ = ["of_store"]

PROBE_TIMEOUT_S: Final = 3.0
# (pattern of an error message, the way out); the first match counts.
WAYS_OUT: Final = (
    (
        "refuses the user or the pass",
        "set REPLAY_STORE_PASSWORD, and a user as in redis://user@host if needed",
    ),
    ("name resolution|not known|nodename", "is the host in store_url spelt right?"),
    (
        "CERTIFICATE_VERIFY",
        "append ?ssl_ca_certs=/path to store_url: a PEM file with its CA certificate",
    ),
    ("SSL", "does it use TLS? If not, write redis://, not rediss://"),
    ("names a master", "are these Sentinels, and is the master's name right?"),
    ("Connect call failed", "is it running, and are host and port in store_url right?"),
    ("connecting to .* No such file", "is it running, and is the path in store_url right?"),
    (r"refused a command \(DB\)", "is there a database with that number? Usually 0 to 15"),
    ("it is a replica", "set store_url to its master, or to its Sentinels"),
    ("it is full", "raise its maxmemory, or set its maxmemory-policy to volatile-ttl"),
    ("not a database", "use another file, or a path that does not exist yet"),
    ("unable to open", "store_url must name a file, not a folder; this user needs write access"),
    ("ACL", "docs/stores.md lists the permissions that the user needs"),
)
SILENT: Final = "did not (answer|respond)|reset by peer|closed by server"


async def of_store(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Connect to the store, then save, look up and delete a test turn."""
    url = read_store_url(settings.store_url)
    if url.kind == "memory":
        room = f"up to {units.shown('store_max_bytes', settings.store_max_bytes)} in this process"
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
    """Return why SQLite cannot create its file and two more in a folder; "" if it can."""
    if not folder.is_dir():
        return f"there is no folder {folder}; create it, with write access for the proxy's user"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"this user has no write access to {folder}; SQLite creates three files there"
    return ""


async def _tried(store: Store, place: str, settings: Settings) -> AsyncIterator[Finding]:
    """Connect to a store, then save a test turn in it, look it up, and delete it."""
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
            raise StoreError("the turn that was just saved is not found")

    if fault := await _fault(store.check()):
        said = f"{place} cannot be used: {fault.rstrip('.')}"
        words = "; ".join([said, *_way_out(settings, fault)])
        yield Finding("problem", "store", words)
        return
    yield Finding("ok", "store", f"{place} can be reached")
    if fault := await _fault(store.save(scope, name, records, [key])):
        words = f"saving failed: {fault}; turns that are already there may still be readable"
        yield Finding("problem", "store", "; ".join([words, *_way_out(settings, fault)]))
        return
    if fault := await _fault(find()):
        yield Finding("problem", "store", f"lookups failed: {fault}")
    else:
        yield Finding("ok", "store", f"a test turn was saved, and found in {took_ms:.1f} ms")
    if took_ms > budget_ms:
        budget = units.shown("store_budget_ms", budget_ms)
        words = f"that is more than store_budget_ms {budget}, so requests would not wait for it"
        yield Finding("warning", "store", f"{words}: raise it")
    if fault := await _fault(store.forget(scope, name)):
        yield Finding("warning", "store", f"deleting failed: {fault}")


def _way_out(settings: Settings, fault: str) -> list[str]:
    """Return what to do about a store error, if that is known."""
    url = read_store_url(settings.store_url)
    if url.kind == "cluster" and "refused a command" in fault:
        return ["is it a Cluster? If not, write redis:// and not redis+cluster://"]
    if url.kind not in {"sqlite", "unix"} and re.search(SILENT, fault):
        other = "redis:// and not rediss" if url.tls else "rediss"
        return [f"is it a Redis, and is access allowed? If TLS is the difference, write {other}://"]
    return [way_out for words, way_out in WAYS_OUT if re.search(words, fault)][:1]


async def _fault(operation: Coroutine[Any, Any, object]) -> str:
    """Run a store operation; return why it failed, "" if it did not."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await operation
    except TimeoutError:
        return f"it did not respond within {PROBE_TIMEOUT_S:g} s"
    except StoreError as error:
        return str(error)
    return ""
