"""Upstreams: the facts about a vendor, the profiles of a dialect, and how one is chosen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urlsplit

__all__ = ["AUTO", "Upstream", "UpstreamProfile", "by_name", "chosen", "upstream_at"]

AUTO = "auto"
_GENERIC = "generic"


@dataclass(frozen=True, slots=True)
class Upstream:
    """
    The facts about one upstream that do not depend on what it does with reasoning.

    Attributes:
        name: Value of the setting `upstream_profile`.
        hosts: Patterns of `host` or `host:port` by which `auto` recognises it; `*` is any text.
        base_path: Path of the API on its host; "" if that varies.
        key_names: Environment variables in which its users keep their key.
        provider: Name in OpenTelemetry's generative AI conventions; "" if they have none, and
            `name` is used.
        key_header: Header that carries a key: `authorization` (after `Bearer`), `api-key`,
            `x-api-key` or `x-goog-api-key`.
        headers: Other headers that it requires.
        wants_key: Whether it requires a key by default.
        lacks: Names of the dialects that it certainly does not serve.
        key_prefixes: Beginnings that its keys have, and no other vendor's.
        takes_only_own_keys: Whether it certainly refuses a key of another vendor. A gateway does
            not: it may pass on the key of its user.
        cache_keys: Names of the dialects in which it takes a `prompt_cache_key`.
    """

    name: str
    hosts: tuple[str, ...]
    base_path: str
    key_names: tuple[str, ...]
    provider: str = ""
    key_header: str = "authorization"
    headers: tuple[tuple[str, str], ...] = ()
    wants_key: bool = True
    lacks: tuple[str, ...] = ()
    key_prefixes: tuple[str, ...] = ()
    takes_only_own_keys: bool = False
    cache_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamProfile:
    """
    What a dialect knows of one upstream.

    Attributes:
        vendor: The upstream, from `vendors`.
        source: Evidence for the other fields.
    """

    vendor: Upstream
    source: str

    @property
    def name(self) -> str:
        """Value of the setting `upstream_profile`."""
        return self.vendor.name


ProfileT = TypeVar("ProfileT", bound=UpstreamProfile)
NamedT = TypeVar("NamedT", bound=Upstream | UpstreamProfile)


def by_name(rows: Iterable[NamedT]) -> Mapping[str, NamedT]:
    """Return the rows of a table by their names."""
    return MappingProxyType({row.name: row for row in rows})


def chosen(profiles: Mapping[str, ProfileT], name: str, upstream_url: str) -> ProfileT:
    """
    Return the active profile; `generic` if the dialect knows nothing of the upstream.

    Args:
        profiles: The profiles of the dialect, by name.
        name: Value of the setting `upstream_profile`; `auto`: the profile of the host.
        upstream_url: A valid URL; only its host and port are used.
    """
    if name == AUTO:
        known = upstream_at(upstream_url, (profile.vendor for profile in profiles.values()))
        name = "" if known is None else known.name
    return profiles.get(name, profiles[_GENERIC])


def upstream_at(url: str, upstreams: Iterable[Upstream]) -> Upstream | None:
    """Return the first of these upstreams that has the host of a URL; None if none has."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    places = (host, f"{host}:{parts.port}")
    for one in upstreams:
        if any(fnmatchcase(place, pattern) for pattern in one.hosts for place in places):
            return one
    return None
