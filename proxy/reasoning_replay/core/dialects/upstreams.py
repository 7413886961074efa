"""Upstreams: the facts about a vendor, the profiles of a dialect, and how one is chosen."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import urlsplit

__all__ = ["AUTO", "Upstream", "UpstreamProfile", "by_name", "chosen"]

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
        key_header: Header that carries a key: `authorization` (after `Bearer`), `api-key` or
            `x-api-key`.
        headers: Other headers that it requires.
        wants_key: Whether it requires a key by default.
    """

    name: str
    hosts: tuple[str, ...]
    base_path: str
    key_names: tuple[str, ...]
    provider: str = ""
    key_header: str = "authorization"
    headers: tuple[tuple[str, str], ...] = ()
    wants_key: bool = True


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
        name = _name_at(upstream_url, profiles.values())
    return profiles.get(name, profiles[_GENERIC])


def _name_at(url: str, profiles: Iterable[UpstreamProfile]) -> str:
    """Return the name of the first of these upstreams that has the host of a URL; "" without."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    places = (host, f"{host}:{parts.port}")
    for profile in profiles:
        patterns = profile.vendor.hosts
        if any(fnmatchcase(place, pattern) for pattern in patterns for place in places):
            return profile.name
    return ""
