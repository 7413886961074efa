"""The composition root: each part of a proxy, made from the settings that are its own."""

import time

from proxy.adapters.codec import Plain, Sealed
from proxy.adapters.guarded_store import GuardedStore
from proxy.adapters.logs import Log
from proxy.adapters.memory_store import MemoryStore
from proxy.adapters.metrics import Metrics
from proxy.adapters.recent_store import RecentStore
from proxy.adapters.redis_clients import Credentials, connect
from proxy.adapters.redis_store import RedisStore
from proxy.adapters.safe_store import SafeStore
from proxy.adapters.sqlite_store import SqliteStore
from proxy.adapters.store import Bounds, Store
from proxy.adapters.upstream import Upstream
from proxy.core.heal.repair import Repair
from proxy.core.inject import Anchors
from proxy.core.profiles import Profile, profile_of
from proxy.key_ring import parse_keys
from proxy.settings import Settings
from proxy.store_urls import read_store_url
from proxy.web.exchange import Limits
from proxy.web.replay import Replay, ReplaySettings

__all__ = ["bare_store", "guarded_store", "limits", "profile", "replay", "upstream"]

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


def replay(settings: Settings, store: SafeStore) -> Replay:
    """Return what gives reasoning back."""
    plain = ReplaySettings(
        upstream_url=settings.upstream_url,
        scope_secret=settings.scope_secret.get_secret_value(),
        is_shadow=settings.mode == "shadow",
        anchors=Anchors(settings.anchors),
        profile=profile(settings),
        include=settings.include,
        heals=settings.heal == "on",
        repairs=frozenset(r for r in Repair if r.value in settings.repairs.split(",")),
        frame_max_bytes=settings.capture_max_bytes,
        store_budget_s=settings.store_budget_ms / 1000,
    )
    return Replay(plain, store, time.monotonic, lambda: time.time_ns() // 1_000_000)


def guarded_store(settings: Settings, metrics: Metrics, log: Log) -> SafeStore:
    """Return the store that the settings name, unable to do harm; connects on first use."""
    guarded = GuardedStore(
        bare_store(settings), settings.store_timeout_ms / 1000, metrics, log, time.monotonic
    )
    if isinstance(guarded.inner, MemoryStore) or not settings.recent_max_bytes:
        return guarded
    near = Bounds(
        # Half: so that what is answered near is asked of the store before that forgets it.
        max(1, min(settings.recent_ttl_s, settings.ttl_s // 2)),
        settings.conversation_max_turns,
        settings.conversation_max_bytes,
    )
    return RecentStore(guarded, near, settings.recent_max_bytes, metrics, time.monotonic)


def bare_store(settings: Settings) -> Store:
    """Return the store that the settings name; it may raise, and connects on first use."""
    bounds = Bounds(
        settings.ttl_s, settings.conversation_max_turns, settings.conversation_max_bytes
    )
    keys = parse_keys(settings.encryption_keys.get_secret_value())
    codec = Sealed(keys) if keys else Plain()
    timeout_s = settings.store_timeout_ms / 1000
    url = read_store_url(settings.store_url)
    match url.kind:
        case "memory":
            return MemoryStore(bounds, settings.memory_max_bytes, time.monotonic, codec)
        case "sqlite":
            return SqliteStore(
                url.path, bounds, settings.sqlite_max_bytes, timeout_s, time.time, codec=codec
            )
        case _:
            credentials = Credentials(
                settings.store_username,
                settings.store_password.get_secret_value(),
                settings.store_password_file,
            )
            link = connect(url, credentials, timeout_s, REDIS_MAX_CONNECTIONS)
            return RedisStore(link, bounds, settings.store_prefix, codec)
