"""
Path advice: what the log says of requests that miss the proxy, the upstream or a model's own API.

The response stays the upstream's own, so the log and the `x-reasoning-replay` header explain it.
"""

from http import HTTPStatus
from time import monotonic
from urllib.parse import urlsplit

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.core.dialects.path_faults import (
    HINTS,
    PathFault,
    api_paths,
    lacking_apis,
    path_fault,
)
from reasoning_replay.core.dialects.registry import (
    REPLAYED_PATHS,
    REPLAYED_ROUTES,
    base_url_at,
    dialect_of,
)
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.settings.upstreams import in_words_of, path_of
from reasoning_replay.web.exchange import Exchange

# At most one warning of each mistake in this time: a client may try again and again.
WARNING_EVERY_S = 60.0
_NOT_FOUND = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
# Other APIs through which a client talks to a model.
_OTHER_APIS: set[str] = {Route.COMPLETIONS, Route.THREADS}
_HERE = "http://<this proxy>"
_PATHS = ", ".join(REPLAYED_PATHS)


class PathAdvice:
    """Advice on the paths of the requests to one upstream."""

    def __init__(self, upstream_url: str, log: Log, name: str = "", *, is_on: bool) -> None:
        """
        Start with nothing told.

        Args:
            upstream_url: URL of the upstream.
            log: Gets the advice.
            name: Name of the upstream; "" if it is the only one.
            is_on: Whether reasoning is injected at all.
        """
        self._name = name
        self._here = _HERE + path_of(name)
        self._upstream_path = urlsplit(upstream_url).path
        self._lacking, self._apis = lacking_apis(upstream_url), api_paths(upstream_url)
        self._log = log
        self._untold = _OTHER_APIS - REPLAYED_ROUTES if is_on else set()
        self._warned_s: dict[str, float] = {}  # by mistake

    def note(self, exchange: Exchange, path: str, status: int) -> None:
        """Note and log the mistake in a path, if its refusal or its status shows that it is one."""
        if exchange.route in self._untold:
            self._untold.remove(exchange.route)
            self._log.info(
                "not_replayed",
                request_id=exchange.id,
                route=exchange.route,
                hint=f"requests on this route pass through; reasoning is injected on {_PATHS}",
            )
        fault = exchange.wrong_path  # as far as the refusal names one
        if not fault and status in _NOT_FOUND:
            found = path_fault(path, self._upstream_path, self._lacking, self._apis)
            fault = exchange.wrong_path = found or ""
        if not fault:
            return
        now_s = monotonic()
        if now_s - self._warned_s.get(fault, -WARNING_EVERY_S) >= WARNING_EVERY_S:
            self._warned_s[fault] = now_s
            dialect = dialect_of(exchange.route)
            self._log.warning(
                "wrong_path",
                request_id=exchange.id,
                route=exchange.route,
                status=status,
                reason=fault,
                hint=in_words_of(
                    self._name,
                    HINTS[PathFault(fault)].format(
                        base=base_url_at(self._here, dialect),
                        remedy=self._lacking.get(dialect, ""),
                    ),
                ),
            )
