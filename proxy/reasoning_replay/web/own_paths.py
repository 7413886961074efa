"""
Own paths: what the clients' port says of the proxy itself, where no upstream has such a path.

Load balancers try them, and people who open the port in a browser. They are no exchanges: they are
neither counted nor logged.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.core.dialects.vendors import upstream_at
from reasoning_replay.web.errors import CLIENTS_PORT, OwnResponse, as_response, readable
from reasoning_replay.web.http.strict_request import require_well_formed

_METHODS: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})
_METRICS: Final = "/metrics"
_PROBES: Final = frozenset({"/livez", "/readyz", "/healthz"})
OWN_PATHS: Final = frozenset({"/", _METRICS, *_PROBES})


class OwnPaths:
    """
    Answers for the proxy itself.

    Attributes:
        admin_url: URL of the admin port; "" until it is open.
        base_urls: For people: a variable of clients with its base URL, each.
    """

    def __init__(self, upstreams: Mapping[str, str]) -> None:
        """
        Know which upstreams may have these paths themselves.

        Args:
            upstreams: The URL of each upstream, by its name. An API of a known vendor has none of
                the paths; a server of one's own may, as those of llama.cpp and vLLM do.
        """
        self._without = {name for name, url in upstreams.items() if _is_of_vendor(url)}
        self.admin_url = ""
        self.base_urls: Iterable[str] = ()

    def answer(
        self, request: web.BaseRequest, upstream: str | None, target: str, *, is_leaving: bool
    ) -> web.Response | None:
        """
        Return the answer to a request; None if it is for an upstream.

        Args:
            request: The head of the request.
            upstream: Name of its upstream; None if it names none.
            target: Path and query, without that name.
            is_leaving: Whether the process is about to stop.

        Raises:
            ProxyError: The request is not well formed.
        """
        if request.method not in _METHODS:
            return None
        path = target.partition("?")[0]
        if path not in OWN_PATHS or not (upstream is None or upstream in self._without):
            return None
        require_well_formed(request)
        if path == _METRICS:
            fault = CLIENTS_PORT.filled(admin_url=self.admin_url)._replace(ends=is_leaving)
            return as_response(readable(fault, request))
        is_alive = path == "/livez" or not is_leaving
        status = HTTPStatus.OK if is_alive else HTTPStatus.SERVICE_UNAVAILABLE
        state = "draining" if is_leaving else "ready"
        response = OwnResponse(status=status, text=self._about() if path == "/" else f"{state}\n")
        if is_leaving:
            response.force_close()
        return response

    def _about(self) -> str:
        lines = [
            "This is the port for clients of reasoning-replay, with these base URLs:",
            *(f"  {one}" for one in self.base_urls),
            f"Inspector, probes and metrics are on the admin port: {self.admin_url}",
        ]
        return "\n".join([*lines, ""])


def _is_of_vendor(url: str) -> bool:
    """Return whether a host is known as a vendor's, and not as that of a program for everyone."""
    found = (upstream_at(url, entry.vendors.values()) for entry in DIALECTS)
    return any(one is not None and one.wants_key for one in found)
