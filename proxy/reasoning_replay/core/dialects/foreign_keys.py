"""
Foreign keys: keys of one vendor in requests to another one, which would only get to know them.

This is about certain cases alone: a known host that takes no key but its own, and a key whose
beginning only another vendor's keys have.
"""

from collections.abc import Mapping

from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.core.dialects.vendors import upstream_at

_CREDENTIALS = ("authorization", "api-key", "x-api-key")
_ALL = tuple(vendor for entry in DIALECTS for vendor in entry.vendors.values())


class ForeignKeys:
    """The keys that one upstream certainly refuses."""

    def __init__(self, upstream_url: str) -> None:
        """Choose the beginnings of foreign keys; none if the host takes others, or is unknown."""
        host = upstream_at(upstream_url, _ALL)
        self._issuers: dict[str, str] = {}
        if host is not None and host.takes_only_own_keys:
            others = (one for one in _ALL if one.name != host.name)
            self._issuers = {prefix: one.name for one in others for prefix in one.key_prefixes}

    def issuer_of(self, headers: Mapping[str, str]) -> str:
        """Return the vendor of a request's key; "" if the request has another one, or none."""
        if not self._issuers:
            return ""
        issuers = [
            self._issuer(value) for name in _CREDENTIALS if (value := headers.get(name)) is not None
        ]
        return issuers[0] if issuers and all(issuers) else ""

    def _issuer(self, credential: str) -> str:
        key = credential.rpartition(" ")[2]
        return next((name for prefix, name in self._issuers.items() if key.startswith(prefix)), "")
