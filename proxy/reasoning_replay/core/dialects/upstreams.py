"""Upstreams: the facts about a vendor that do not depend on the dialect, and its recognition."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar
from urllib.parse import urlsplit

__all__ = ["AUTO", "Upstream", "upstream_at"]

AUTO = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """
    The facts about one upstream that every dialect shares.

    Attributes:
        name: Value of the setting `upstream_profile`.
        source: Evidence for the other fields.
        hosts: Patterns of `host` or `host:port` by which `auto` recognises it; `*` is any text.
        provider: Name in OpenTelemetry's generative AI conventions; "" if they have none, and
            `name` is used.
        base_path: Path of the API on its host; "" if that varies.
        key_names: Environment variables in which its users keep their key.
        key_header: Header that carries a key: `authorization` (after `Bearer`), `api-key` or
            `x-api-key`.
        headers: Other headers that it requires.
        wants_key: Whether it requires a key by default.
    """

    name: str
    source: str
    hosts: tuple[str, ...] = ()
    provider: str = ""
    base_path: str = ""
    key_names: tuple[str, ...] = ("OPENAI_API_KEY",)
    key_header: str = "authorization"
    headers: tuple[tuple[str, str], ...] = ()
    wants_key: bool = True


UpstreamT = TypeVar("UpstreamT", bound=Upstream)


def upstream_at(url: str, upstreams: Iterable[UpstreamT]) -> UpstreamT | None:
    """Return the first upstream that a valid URL leads to, by host and port; None: not known."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    places = (host, f"{host}:{parts.port}")
    for upstream in upstreams:
        if any(fnmatchcase(place, pattern) for pattern in upstream.hosts for place in places):
            return upstream
    return None
