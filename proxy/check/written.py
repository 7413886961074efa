"""What the settings say by themselves: valid, and still perhaps not what was meant."""

from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

from proxy.adapters.logs import Log
from proxy.addresses import host_and_port
from proxy.check.finding import Finding
from proxy.core.profiles import AUTO, GENERIC, profile_of
from proxy.settings import Settings
from proxy.web.conversations import is_loopback
from proxy.web.parts import connection_limits, profile, tls

__all__ = ["of_settings"]


async def of_settings(settings: Settings) -> AsyncIterator[Finding]:
    """Look at the settings, and at the files that they name."""
    where = f"clients at {settings.listen}, health and metrics at {settings.admin_listen}"
    words = f"valid: mode {settings.mode}, upstream profile {profile(settings).name}, {where}"
    yield Finding("ok", "settings", words)
    log = Log("error", "text")
    try:
        tls(settings, log)
    except OSError as error:
        yield Finding("problem", "settings", str(error))
    most = connection_limits(settings, log).max_connections
    if most < settings.max_connections:
        words = f"of max_connections {settings.max_connections} only {most} fit"
        way_out = "each takes two open files: raise ulimit -n, or lower it"
        yield Finding("warning", "settings", f"{words}, as {way_out}")
    for words in (*_doing(settings), *_profile(settings), *_keeping(settings), *_open(settings)):
        yield Finding("warning", "settings", words)


def _doing(settings: Settings) -> Iterator[str]:
    if settings.mode == "off":
        yield "mode is off: nothing is captured or given back"
    if settings.mode == "shadow":
        yield "mode is shadow: no request is changed, only counted"


def _profile(settings: Settings) -> Iterator[str]:
    """Say why it is that profile, where that may be wrong; and whether the path fits it."""
    parts = urlsplit(settings.upstream_url)
    known = profile_of(AUTO, settings.upstream_url)
    chosen = profile(settings)
    if settings.upstream_profile == AUTO and known is GENERIC:
        yield (
            f"nobody's API is known by the host {parts.hostname}, so it is taken for what OpenAI "
            "documents (profile generic): if it is a vLLM, an Azure or another, name it as "
            "upstream_profile; else name generic"
        )
    elif known is not GENERIC and chosen is not known:
        yield (
            f"upstream_profile is {chosen.name}, but {parts.hostname} is known as {known.name}: "
            "leave it at auto"
        )
    path = parts.path
    for tail in ("/chat/completions", "/models", "/completions"):
        if path.endswith(tail):
            yield f'upstream_url ends in "{tail}": leave that out, clients add their own path'
            return
    if chosen is GENERIC and not path:
        yield "upstream_url has no path, and most such APIs are at /v1: does it lack that?"
    if chosen.base_path and path != chosen.base_path:
        yield (
            f'upstream_url has the path "{path or "/"}", but the API of {chosen.name} is at '
            f'"{chosen.base_path}": end it so, unless yours is elsewhere'
        )


def _keeping(settings: Settings) -> Iterator[str]:
    if settings.store_url == "memory://":
        return
    if not settings.scope_secret.get_secret_value():
        yield (
            "scope_secret is empty: who reads the store can test guesses of a client's key; set "
            "REPLAY_SCOPE_SECRET to a long random text, the same on all replicas"
        )
    if not settings.encryption_keys.get_secret_value():
        yield (
            "encryption_keys is empty: who reads the store, or a copy of it, reads what models "
            "said and did; see the README on Encryption"
        )
    if settings.recent_max_bytes and settings.recent_ttl_s > settings.ttl_s / 2:
        yield (
            f"recent_ttl_s {settings.recent_ttl_s} is more than half of ttl_s {settings.ttl_s}: "
            f"copies will be good for {max(1, settings.ttl_s // 2)} s only"
        )


def _open(settings: Settings) -> Iterator[str]:
    """Say what others can reach, or read on the way."""
    if not is_loopback(host_and_port(settings.admin_listen)[0]) and not (
        settings.admin_token.get_secret_value()
    ):
        yield (
            f"admin_listen {settings.admin_listen} is open to others, and admin_token is empty: "
            "health and metrics have no password, listing and deleting are off"
        )
    parts = urlsplit(settings.upstream_url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield f"upstream_url is http: keys cross the network to {parts.hostname} in the clear"
