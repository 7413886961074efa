"""Doubtful settings: what is valid and may still be a mistake, each with the way out."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from reasoning_replay.adapters.stores.registry import KINDS, read_store_url
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.vendors import AUTO
from reasoning_replay.core.tenancy.scope import read_parts
from reasoning_replay.settings import units
from reasoning_replay.settings.model import SECRET_MIN, Settings
from reasoning_replay.settings.own_store import is_own
from reasoning_replay.settings.upstreams import in_words_of
from reasoning_replay.settings.urls import host_and_port
from reasoning_replay.web.admin.conversations import is_loopback
from reasoning_replay.web.wiring import profile, profiles

THINKING_S: Final = 60  # a model may reason for longer without sending a byte
OF_ALL: Final = frozenset({"tid", "iss", "aud", "ver"})  # claims shared by a whole directory


def doubts(settings: Settings) -> Iterator[str]:
    """Yield one line for each doubtful setting, without secrets."""
    for look in (_keeping, _telling_apart, _fitting, _open):
        yield from look(settings)
    names: dict[str, list[str]] = {}  # of the upstreams, by what is told of them
    for name, own in settings.by_upstream.items():
        for look in (_doing, _profile, _waiting, _clear_text):
            for told in look(own):
                names.setdefault(told, []).append(name)
    for told, those in names.items():
        if 1 < len(those) == len(settings.upstreams):
            yield told
        else:
            yield from (in_words_of(name, told) for name in those)


def _doing(settings: Settings) -> Iterator[str]:
    if settings.mode == "off":
        yield "mode is off: nothing is captured or injected"
    if settings.mode == "shadow":
        yield "mode is shadow: no request is changed, only counted"


def _profile(settings: Settings) -> Iterator[str]:
    """Warn of a profile that may be wrong, and of a path that does not fit the profile."""
    parts = urlsplit(settings.upstream_url)
    known = profile(settings.model_copy(update={"upstream_profile": AUTO}))
    chosen = profile(settings)
    if settings.upstream_profile == AUTO and known.name == GENERIC.name:
        yield (
            f"the host {parts.hostname} is not a known API, so profile generic is used (the API "
            "that OpenAI documents): set upstream_profile to vllm, azure or another profile if "
            "one fits, else to generic"
        )
    elif known.name not in {GENERIC.name, chosen.name}:
        yield (
            f"upstream_profile is {chosen.name}, but {parts.hostname} is known as {known.name}: "
            "set it to auto"
        )
    if settings.prompt_cache_key != "off" and not chosen.cache_keys:
        yield (
            f"prompt_cache_key has no effect: {chosen.name} is not known to take it; if this is a "
            "gateway to an API that does, set upstream_profile to that API"
        )
    if settings.cache_diagnosis == "on" and not chosen.cache_diagnoses:
        known_by = f"{chosen.name} is not known to tell why its cache missed"
        yield f"cache_diagnosis has no effect: {known_by}"
    path = parts.path
    for tail in ("/chat/completions", "/models", "/completions", "/messages"):
        if path.endswith(tail):
            yield f'upstream_url ends in "{tail}": remove that, clients add their own path'
            return
    if chosen.name == GENERIC.name and not path:
        yield "upstream_url has no path, and most APIs are at /v1: is /v1 missing?"
    paths = {one.vendor.base_path for one in profiles(settings).values() if one.name == chosen.name}
    if chosen.base_path and not paths & {path, ""}:
        yield (
            f'upstream_url has the path "{path or "/"}", but the API of {chosen.name} is at '
            f'"{chosen.base_path}": use that path, unless yours is elsewhere'
        )


def _keeping(settings: Settings) -> Iterator[str]:
    address = read_store_url(settings.store_url)
    if "store_password" not in address.settings and (
        settings.store_password.get_secret_value() or settings.store_password_file
    ):
        users = " or ".join(kind.title for kind in KINDS if "store_password" in kind.settings)
        scheme = settings.store_url.partition(":")[0]
        yield (
            f"store_password is for {users}, but store_url is {scheme}://: is REPLAY_STORE_URL "
            "missing?"
        )
    is_short = settings.store_max_bytes < settings.conversation_max_bytes
    if "store_max_bytes" in address.settings and is_short:
        yield (
            f"store_max_bytes {_shown(settings, 'store_max_bytes')} is less than one conversation "
            f"may need (conversation_max_bytes {_shown(settings, 'conversation_max_bytes')}): "
            "raise it"
        )
    yield from address.doubts()
    if address.is_table or is_own(settings.store_url):
        return  # its only reader has the clients' keys as well
    if not settings.scope_secret.get_secret_value():
        yield (
            "scope_secret is empty: a reader of the store can test guesses of a client's key; set "
            "REPLAY_SCOPE_SECRET to a long random text, the same on all replicas"
        )
    if not settings.encryption_keys.get_secret_value():
        yield (
            "encryption_keys is empty: model output can be read in the store and in its copies; "
            "see docs/stores.md on encryption"
        )


def _telling_apart(settings: Settings) -> Iterator[str]:
    """Warn of tenants that share a scope, and of secrets that can be guessed."""
    claims = read_parts(settings.scope_from).claims
    if claims and OF_ALL.issuperset(claims):
        yield (
            f"scope_from is {settings.scope_from}: all users of one directory share their "
            "reasoning; add a claim of a person or an application, as in claims:tid+oid"
        )
    for name in settings.short_secrets:
        yield f"{name} has fewer than {SECRET_MIN} characters: use `openssl rand -hex 32`"


def _fitting(settings: Settings) -> Iterator[str]:
    """Warn of limits and timeouts that contradict each other."""
    if settings.inspect_max_bytes > settings.inspect_total_max_bytes:
        yield (
            f"inspect_max_bytes {_shown(settings, 'inspect_max_bytes')} is more than "
            f"inspect_total_max_bytes {_shown(settings, 'inspect_total_max_bytes')}, the limit of "
            "all requests together: raise that"
        )
    if settings.drain_grace_s >= settings.drain_s:
        yield (
            f"drain_grace_s {_shown(settings, 'drain_grace_s')} is part of drain_s "
            f"{_shown(settings, 'drain_s')}: running exchanges are cut off as soon as "
            "the grace period ends; raise drain_s"
        )


def _waiting(settings: Settings) -> Iterator[str]:
    """Warn of timeouts that a model's thinking may exceed."""
    for name in ("first_byte_timeout_s", "read_timeout_s", "total_timeout_s"):
        if 0 < getattr(settings, name) < THINKING_S:
            yield (
                f"{name} {_shown(settings, name)} is short: a model may reason for minutes "
                "before it sends a byte"
            )


def _open(settings: Settings) -> Iterator[str]:
    """Warn of an admin port that is open to others."""
    if not is_loopback(host_and_port(settings.admin_listen)[0]) and not (
        settings.admin_token.get_secret_value()
    ):
        yield (
            f"admin_listen {settings.admin_listen} is open to others, and admin_token is empty: "
            "health and metrics need no password; the inspector, listing and deleting are off"
        )


def _clear_text(settings: Settings) -> Iterator[str]:
    """Warn of keys sent in clear text."""
    parts = urlsplit(settings.upstream_url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        yield f"upstream_url is http: keys cross the network to {parts.hostname} in clear text"


def _shown(settings: Settings, name: str) -> str:
    """Return an amount with its unit."""
    return units.shown(name, getattr(settings, name))
