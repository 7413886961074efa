"""
Upstreams: the parts of the proxy that belong to one upstream, and which upstream a request is for.

    /anthropic/v1/messages -> the upstream "anthropic", and /v1/messages
    Host: anthropic.example.com, if that is a host of one -> that upstream, and the path as it is
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import hdrs, web

from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.web.exchange import TenantOf
from reasoning_replay.web.pipeline.replay import Replays

_SEGMENT = re.compile(r"/([^/?]*)")
_PORT = re.compile(r"\.?(?::\d*)?\Z")


@dataclass(frozen=True, slots=True)
class UpstreamParts:
    """
    The parts that belong to one upstream.

    Attributes:
        url: URL that `/v1` maps to, without a trailing slash.
        client: Client for that URL.
        replays: Capture and inject, by route; empty if the mode is off.
        tenant_of: Returns the tenant of a request.
        refuses_foreign_keys: Whether the key of another vendor is kept from it.
    """

    url: str
    client: UpstreamClient
    replays: Replays
    tenant_of: TenantOf
    refuses_foreign_keys: bool


# By name; the only one has the name "".
Upstreams = Mapping[str, UpstreamParts]


class UpstreamChoice:
    """
    Choice of the upstream of a request, by its host or by the first segment of its path.

    Attributes:
        names: Names of the upstreams; none if there is only one, which gets all requests.
    """

    def __init__(self, upstreams: Upstreams, hosts: Mapping[str, str]) -> None:
        """Choose among these; `hosts` are host names in lower case -> the name of an upstream."""
        self.names = tuple(name for name in upstreams if name)
        self._named = frozenset(self.names)
        self._hosts = hosts

    def of(self, http: web.BaseRequest) -> tuple[str | None, str]:
        """Return the name of the upstream, or None, and the target without that name."""
        target = http.raw_path
        if not self.names:
            return "", target
        if self._hosts and (named := self._hosts.get(_host_of(http))) is not None:
            return named, target
        segment = _SEGMENT.match(target)
        if segment is None or segment[1] not in self._named:
            return None, target
        rest = target[segment.end() :]
        return segment[1], rest if rest.startswith("/") else f"/{rest}"


def _host_of(http: web.BaseRequest) -> str:
    """Return the one host that a request names, in lower case and without its port; else ""."""
    hosts = http.headers.getall(hdrs.HOST, ())
    if len(hosts) != 1:
        return ""
    return _PORT.sub("", hosts[0]).lower()
