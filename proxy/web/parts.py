"""The composition root: each part of a proxy, made from the settings that are its own."""

import time

from proxy.adapters.guarded_store import GuardedStore
from proxy.adapters.logs import Log
from proxy.adapters.memory_store import MemoryStore
from proxy.adapters.metrics import Metrics
from proxy.adapters.redis_store import RedisStore
from proxy.adapters.store import Bounds, Store
from proxy.adapters.upstream import Upstream
from proxy.core.heal.repair import Repair
from proxy.core.inject import Anchors
from proxy.core.profiles import Profile, profile_of
from proxy.core.scope import Scoping, read_parts
from proxy.settings import Settings
from proxy.web.exchange import Limits
from proxy.web.replay import Replay, ReplaySettings

__all__ = ["guarded_store", "limits", "profile", "replay", "scoping", "upstream"]

REDIS_MAX_CONNECTIONS = 64


def profile(settings: Settings) -> Profile:
    """Return what is known of the upstream's API."""
    return profile_of(settings.upstream_profile, settings.upstream_url)


def upstream(settings: Settings) -> Upstream:
    """Return the connections to the upstream; needs a running loop."""
    return Upstream(settings.connect_timeout_s, settings.read_timeout_s)


def limits(settings: Settings) -> Limits:
    """Return the bounds on one exchange."""
    return Limits(
        settings.inspect_max_bytes, settings.decoded_max_bytes, settings.capture_max_bytes
    )


def scoping(settings: Settings) -> Scoping:
    """Return what tells tenants apart."""
    secret = settings.scope_secret.get_secret_value()
    return Scoping(settings.upstream_url, secret, read_parts(settings.scope_from))


def replay(settings: Settings, store: GuardedStore) -> Replay:
    """Return what gives reasoning back."""
    plain = ReplaySettings(
        scoping=scoping(settings),
        is_shadow=settings.mode == "shadow",
        anchors=Anchors(settings.anchors),
        profile=profile(settings),
        include=settings.include,
        heals=settings.heal == "on",
        repairs=frozenset(r for r in Repair if r.value in settings.repairs.split(",")),
        frame_max_bytes=settings.capture_max_bytes,
    )
    return Replay(plain, store, time.monotonic, lambda: time.time_ns() // 1_000_000)


def guarded_store(settings: Settings, metrics: Metrics, log: Log) -> GuardedStore:
    """Return the store that the settings name, unable to do harm; connects on first use."""
    return GuardedStore(
        _store(settings), settings.store_timeout_ms / 1000, metrics, log, time.monotonic
    )


def _store(settings: Settings) -> Store:
    bounds = Bounds(
        settings.ttl_s, settings.conversation_max_turns, settings.conversation_max_bytes
    )
    if settings.store_url == "memory://":
        return MemoryStore(bounds, settings.memory_max_bytes, time.monotonic)
    timeout_s = settings.store_timeout_ms / 1000
    return RedisStore.from_url(settings.store_url, bounds, timeout_s, REDIS_MAX_CONNECTIONS)
