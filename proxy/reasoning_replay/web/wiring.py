"""Wiring: the composition root, which creates each part from the settings."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from reasoning_replay.adapters.resilience.local_table import Alone, LocalTable
from reasoning_replay.adapters.resilience.safe_store import SafeStore
from reasoning_replay.adapters.resilience.store_guard import StoreGuard
from reasoning_replay.adapters.runtime.offload import Offloader
from reasoning_replay.adapters.runtime.tcp import raise_file_limit
from reasoning_replay.adapters.stores.address import Opening
from reasoning_replay.adapters.stores.base import Bounds, Codec, Store
from reasoning_replay.adapters.stores.encryption_keys import parse_keys
from reasoning_replay.adapters.stores.registry import read_store_url
from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.adapters.telemetry.metrics import Metrics
from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.adapters.upstream.connection import Timeouts
from reasoning_replay.adapters.upstream.egress import egress
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.known_state import Prefixes
from reasoning_replay.core.dialects.path_faults import client_settings
from reasoning_replay.core.dialects.registry import DIALECTS, RESPONSES
from reasoning_replay.core.dialects.routes import DialectEntry
from reasoning_replay.core.dialects.vendors import GENERIC, Upstream, UpstreamProfile
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.room import Room
from reasoning_replay.core.tenancy.scope import Scoping, read_parts, read_secrets
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.upstreams import path_of
from reasoning_replay.web.exchange import Limits
from reasoning_replay.web.http.client_connection import ConnectionLimits
from reasoning_replay.web.http.tls import Certificate
from reasoning_replay.web.pipeline.replay import Replay, Replays
from reasoning_replay.web.tracing import Tracer
from reasoning_replay.web.upstreams import UpstreamParts, Upstreams

# Timeout of a store operation, connecting included. An exchange waits for it within its own budget;
# a longer budget also extends the timeout.
STORE_TIMEOUT_S = 1.0
# Limit on records that could not be saved yet, where nothing else is kept (`local_max_bytes: 0`).
UNSAVED_MAX_BYTES = 32 << 20
# Open files other than connections: the store's, the admin port's, and rejected connections.
OTHER_FILES = 192


def profiles(settings: Settings) -> dict[str, UpstreamProfile]:
    """Return the profile of the upstream by dialect; `generic` where one knows nothing of it."""
    name, url = settings.upstream_profile, settings.upstream_url
    return {entry.name: entry.profile_of(name, url) for entry in DIALECTS}


def profile(settings: Settings, dialect: str = RESPONSES) -> Upstream:
    """Return the facts about the upstream, of this dialect if it knows the upstream."""
    found = profiles(settings)
    own = found[dialect]
    known = (one for one in (own, *found.values()) if one.name != GENERIC)
    return next(known, own).vendor


def upstream(settings: Settings) -> UpstreamClient:
    """
    Return the connection pool of the upstream; needs a running event loop.

    Raises:
        OSError: `upstream_ca_file` or the environment's proxy is invalid.
    """
    timeouts = Timeouts(
        settings.connect_timeout_s, settings.first_byte_timeout_s, settings.read_timeout_s
    )
    return UpstreamClient(
        timeouts, egress(settings.upstream_url, settings.upstream_ca_file, settings.upstream_proxy)
    )


def upstreams(
    settings: Settings,
    clients: Mapping[str, UpstreamClient],
    store: SafeStore,
    offloader: Offloader,
) -> Upstreams:
    """Return the parts of each upstream, over one store; `clients` are its connection pools."""
    return {
        name: UpstreamParts(
            own.upstream_url,
            clients[name],
            replays(own, store, offloader),
            scoping(own).of,
            own.foreign_keys == "refuse" and own.mode == "on",
        )
        for name, own in settings.by_upstream.items()
    }


def base_urls(url: str, settings: Settings) -> dict[str, list[DialectEntry]]:
    """
    Return the variable of each sort of client, with its base URL -> the dialects that it is for.

    `url` is the proxy's own, without a path.
    """
    return {
        place: entries
        for name, own in settings.by_upstream.items()
        for place, entries in client_settings(url + path_of(name), own.upstream_url).items()
    }


def limits(settings: Settings) -> Limits:
    """Return the limits on exchanges."""
    return Limits(
        inspect_max_bytes=settings.inspect_max_bytes,
        inspect_total_max_bytes=settings.inspect_total_max_bytes,
        body_max_bytes=settings.body_max_bytes,
        max_exchanges=settings.max_exchanges,
        tenant_max_exchanges=settings.tenant_max_exchanges,
        client_timeout_s=settings.client_timeout_s,
        total_timeout_s=settings.total_timeout_s,
    )


def connection_limits(settings: Settings, log: Log) -> ConnectionLimits:
    """Return the limits on client connections, lowered to the limit on open files."""
    most = settings.max_connections
    files = raise_file_limit()
    if files is not None and most > (fits := (files - min(OTHER_FILES, files // 4)) // 2):
        hint = f"{files} open files are allowed, and each connection needs two; raise ulimit -n"
        log.warning("max_connections_lowered", max_connections=fits, wanted=most, hint=hint)
        most = fits
    return ConnectionLimits(
        max_connections=most,
        idle_timeout_s=settings.idle_timeout_s,
        client_timeout_s=settings.client_timeout_s,
        max_age_s=settings.connection_max_age_s,
    )


def certificate(settings: Settings, log: Log) -> Certificate | None:
    """
    Return the certificate of the clients' port; None if it serves plain HTTP.

    Raises:
        OSError: The two files cannot be read, or do not match.
    """
    if not settings.tls_cert_file:
        return None
    return Certificate(settings.tls_cert_file, settings.tls_key_file, log)


def scoping(settings: Settings) -> Scoping:
    """Return the rule that tells tenants apart."""
    upstream_url, parts = settings.upstream_url, read_parts(settings.scope_from)
    secret, *others = read_secrets(settings.scope_secret.get_secret_value())
    former = Scoping(upstream_url, others[0], parts) if others else None
    return Scoping(upstream_url, secret, parts, former)


def scopings(settings: Settings) -> dict[str, Scoping]:
    """Return the rule of each upstream, by its name."""
    return {name: scoping(own) for name, own in settings.by_upstream.items()}


def replays(settings: Settings, store: SafeStore, offloader: Offloader) -> Replays:
    """Return the parts that capture and inject reasoning, by route; none if the mode is off."""
    if settings.mode == "off":
        return {}
    is_shadow = settings.mode == "shadow"
    known = profiles(settings)
    prefixes: Prefixes = PrefixCache(
        store.room if settings.local_max_bytes else Room(0, threading.RLock())
    )

    def replay_of(entry: DialectEntry) -> Replay:
        vendor, limit = profile(settings, entry.name), settings.inspect_max_bytes
        engine = Engine(
            entry.make(
                known[entry.name], {name: getattr(settings, name) for name in entry.settings}
            ),
            time.monotonic,
            prefixes,
            limit,
            epoch_ms=_epoch_ms,
            is_shadow=is_shadow,
            adds_cache_keys=settings.prompt_cache_key == "conversation"
            and entry.name in vendor.cache_keys,
            compares_prompts=settings.cache_diagnosis == "on"
            and entry.name in vendor.cache_diagnoses,
        )
        return Replay(
            engine,
            scoping(settings),
            store,
            offloader,
            _epoch_ms,
            is_shadow=is_shadow,
            heals=settings.heal == "on" and not is_shadow,
            store_budget_s=settings.store_budget_ms / 1000,
        )

    of_dialect = [(entry, replay_of(entry)) for entry in DIALECTS]
    return {route: replay for entry, replay in of_dialect for route in entry.routes}


def _epoch_ms() -> int:
    return time.time_ns() // 1_000_000


def tracer(settings: Settings, log: Log) -> Tracer:
    """
    Return the tracer of exchanges; needs a running event loop.

    Raises:
        OSError: OpenTelemetry rejects the value of an OTEL_ variable.
    """
    if settings.tracing == "off":
        return Tracer(None, {})
    try:
        from reasoning_replay.adapters.telemetry.tracing import Tracing  # noqa: PLC0415 (imports OpenTelemetry)
    except ValueError as error:  # some variables are read on import
        raise OSError(f"tracing cannot start: {error}; check the OTEL_ variables") from error
    each = settings.by_upstream.items()
    return Tracer(Tracing(log), {name: (own.upstream_url, profile(own)) for name, own in each})


def safe_store(settings: Settings, metrics: Metrics, log: Log, offloader: Offloader) -> SafeStore:
    """Return the local table with the configured store, which connects on first use."""
    address = read_store_url(settings.store_url)

    def advice(fault: str, has_worked: bool) -> str:  # noqa: FBT001 - as the guard calls it
        return address.advice(fault, has_worked=has_worked).way_out

    guard = StoreGuard(_store_timeout_s(settings), metrics, log, time.monotonic, advice)
    room = Room(settings.local_max_bytes or UNSAVED_MAX_BYTES, threading.RLock())
    metrics.watch(room)

    def on_aside(aside: Path, reason: str) -> None:
        log.warning("store_set_aside", renamed_to=aside.name, reason=reason)

    store = bare_store(settings, on_aside)
    if store is None:
        # Turns have a room of their own: a decision can be made again, they cannot.
        kept, alone = Room(settings.store_max_bytes), Alone(_bounds(settings), time.monotonic)
        return SafeStore(
            None, guard, LocalTable(kept, alone=alone, decisions=room), room, offloader
        )
    table = LocalTable(room, keeps_copies=settings.local_max_bytes > 0)
    return SafeStore(store, guard, table, room, offloader)


def bare_store(
    settings: Settings, on_aside: Callable[[Path, str], None] | None = None
) -> Store | None:
    """
    Return the store without a guard: it may raise, and connects on first use.

    Without `on_aside`, a malformed file stays where it is, and is an error. None: there is no
    store, and the local table is all there is.

    The packages of a store are imported only for that store: the Redis client, SQLite and the
    encryption would take a fifth of a process's idle memory, and of its start time.
    """
    return read_store_url(settings.store_url).open(
        Opening(
            bounds=_bounds(settings),
            timeout_s=_store_timeout_s(settings),
            max_bytes=settings.store_max_bytes,
            password=settings.store_password.get_secret_value(),
            password_file=settings.store_password_file,
            codec=codec(settings),
            on_aside=on_aside,
        )
    )


def _bounds(settings: Settings) -> Bounds:
    most = settings.conversation_max_turns, settings.conversation_max_bytes
    return Bounds(settings.ttl_s, *most)


def _store_timeout_s(settings: Settings) -> float:
    return max(STORE_TIMEOUT_S, settings.store_budget_ms / 1000)


def codec(settings: Settings) -> Codec | None:
    """Return the stored form of values; None: plain."""
    keys = parse_keys(settings.encryption_keys.get_secret_value())
    if not keys:
        return None
    from reasoning_replay.adapters.stores.encryption import EncryptedCodec  # noqa: PLC0415 (as in `bare_store`)

    return EncryptedCodec(keys)
