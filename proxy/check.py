"""
Tell in plain words whether the proxy could serve with these settings.

Every probe is bounded in time, and no line holds a key or a password.
"""

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from proxy.adapters.logs import Log
from proxy.adapters.response import UpstreamError
from proxy.adapters.store import Store, StoreError
from proxy.adapters.upstream import Upstream
from proxy.addresses import redacted
from proxy.core.keys import Asked, keys_of_turn
from proxy.core.turns import Context, Turn
from proxy.settings import Settings
from proxy.store_urls import read_store_url
from proxy.web.parts import bare_store, profile, tls, upstream

__all__ = ["check"]

ANSWER_TIMEOUT_S: Final = 10.0
PROBE_TIMEOUT_S: Final = 3.0


class Finding(NamedTuple):
    """One line of the report."""

    grade: Literal["ok", "warning", "problem"]
    subject: Literal["settings", "upstream", "store"]
    words: str


async def check(settings: Settings, api_key: str) -> int:
    """
    Print one line for each thing looked at, as soon as it is known.

    Args:
        settings: What `serve` would run with; that they could be loaded is the first finding.
        api_key: Sent to the upstream as a bearer token; "" asks nothing of the upstream.

    Returns:
        The exit code: 1 when anything is a problem, else 0; warnings do not count.

    Cost: one connection and at most one GET upstream; one turn of our own is kept in the store,
    found and deleted, under a name that nobody else has.
    """
    worst = 0
    for probe in (_settings(settings), _upstream(settings, api_key), _store(settings)):
        async for finding in probe:
            print(f"{finding.grade:<8} {finding.subject:<9} {finding.words}", flush=True)
            worst = max(worst, finding.grade == "problem")
    return int(worst)


async def _settings(settings: Settings) -> AsyncIterator[Finding]:
    where = f"clients at {settings.listen}, health and metrics at {settings.admin_listen}"
    words = f"valid: mode {settings.mode}, upstream profile {profile(settings).name}, {where}"
    yield Finding("ok", "settings", words)
    try:
        tls(settings, Log("error", "text"))
    except OSError as error:
        yield Finding("problem", "settings", str(error))
    if settings.mode == "off":
        yield Finding("warning", "settings", "mode is off: nothing is captured or given back")
    if settings.mode == "shadow":
        yield Finding("warning", "settings", "mode is shadow: no request is changed, only counted")
    if not settings.scope_secret.get_secret_value() and settings.store_url != "memory://":
        words = "scope_secret is empty: who reads the store can test guesses of a client's key"
        yield Finding("warning", "settings", words)


async def _upstream(settings: Settings, api_key: str) -> AsyncIterator[Finding]:
    parts = urlsplit(settings.upstream_url)
    is_tls = parts.scheme == "https"
    place = f"{parts.hostname} port {parts.port or (443 if is_tls else 80)}"
    try:
        way = upstream(settings)
    except OSError as error:
        yield Finding("problem", "upstream", str(error))
        return
    place += way.via
    try:
        await way.reach(settings.upstream_url)
        yield Finding("ok", "upstream", f"{place} can be reached{' with TLS' if is_tls else ''}")
        if api_key:
            yield await _models(way, settings.upstream_url, api_key)
    except UpstreamError as error:
        if error.setting:
            words = f"{place} did not answer within {error.setting} {settings.connect_timeout_s:g}"
        else:  # a refused certificate is among them
            words = f"{place} cannot be reached: {error}"
        yield Finding("problem", "upstream", words)
    finally:
        await way.close()


async def _models(way: Upstream, upstream_url: str, api_key: str) -> Finding:
    """Ask for the list of models, the one thing that every such API gives for nothing."""
    url = f"{upstream_url}/models"
    headers = [(b"Authorization", f"Bearer {api_key}".encode())]
    if not api_key.isprintable():
        return Finding("warning", "upstream", "OPENAI_API_KEY cannot be sent: not a header value")
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            response = await way.send("GET", url, headers, None)
    except (UpstreamError, TimeoutError) as error:
        reason = str(error) or f"no answer within {ANSWER_TIMEOUT_S:g} s"
        return Finding("problem", "upstream", f"GET {url} failed: {reason}")
    status = response.status
    response.close()
    said = f"GET {url} with OPENAI_API_KEY answered {status}"
    match status:
        case HTTPStatus.OK:
            return Finding("ok", "upstream", said)
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return Finding("warning", "upstream", f"{said}: it does not accept this key")
        case HTTPStatus.NOT_FOUND:
            return Finding("warning", "upstream", f"{said}: is the path of upstream_url right?")
        case _:
            return Finding("warning", "upstream", f"{said}: not what a healthy upstream says")


async def _store(settings: Settings) -> AsyncIterator[Finding]:
    url = read_store_url(settings.store_url)
    if url.kind == "memory":
        room = f"up to {settings.memory_max_bytes:,} bytes in this process"
        words = f"memory: {room}, lost at a restart and not shared: run one replica"
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
