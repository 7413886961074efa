"""
Path advice: what the log says of requests that miss the proxy, the upstream or a model's own API.

The response stays the upstream's own, so the log and the `x-reasoning-replay` header explain it.
"""

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import urlsplit

from reasoning_replay.adapters.telemetry.log import Log
from reasoning_replay.core.dialects.path_faults import PathFault, path_fault
from reasoning_replay.core.dialects.registry import REPLAYED_PATHS, REPLAYED_ROUTES
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.exchange import Exchange

__all__ = ["PathAdvice"]

# At most one warning in this time: a client with a wrong base URL may try again and again.
WARNING_EVERY_S = 60.0
_NOT_FOUND = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
# Other APIs through which a client talks to a model.
_OTHER_APIS: set[str] = {Route.COMPLETIONS, Route.THREADS}
_HINTS = {
    PathFault.LACKS_V1: "the base URL of the client lacks /v1: set it to http://<this proxy>/v1. A "
    "path without /v1 goes to the root of the upstream's host",
    PathFault.DOUBLE_V1: "the path begins with /v1 twice: remove one from the base URL of the "
    "client, which is http://<this proxy>/v1",
    PathFault.ENDPOINT: "the base URL of the client ends in an endpoint, such as /responses: end "
    "it in /v1, the client adds the rest",
    PathFault.UPSTREAM_LACKS_V1: "upstream_url has no path, and most APIs are at /v1: is /v1 "
    "missing?",
    PathFault.NEEDS_RESPONSES: "this model reasons with tools on /responses only, and the proxy "
    "does not translate: switch the client to the Responses API, with the same base URL",
}


class PathAdvice:
    """Advice on the paths of the requests to one upstream."""

    def __init__(
        self, upstream_url: str, log: Log, clock: Callable[[], float], *, is_on: bool
    ) -> None:
        """
        Keep the parts that all exchanges share.

        Args:
            upstream_url: URL that `/v1` maps to, without a trailing slash.
            log: Logs the advice.
            clock: Monotonic clock, in seconds.
            is_on: Whether reasoning is injected at all.
        """
        self._upstream_path = urlsplit(upstream_url).path
        self._log = log
        self._clock = clock
        self._untold = _OTHER_APIS - REPLAYED_ROUTES if is_on else set()
        self._warned_s = -WARNING_EVERY_S

    def note(self, exchange: Exchange, path: str, status: int) -> None:
        """
        Note a mistake in `exchange`, and log it.

        Args:
            exchange: Has the mistake already if the upstream's refusal named it.
            path: Path of the client's request.
            status: Status of the upstream's response.
        """
        if exchange.route in self._untold:
            self._untold.remove(exchange.route)
            self._log.info(
                "not_replayed",
                request_id=exchange.id,
                route=exchange.route,
                hint=f"requests on this route pass through; reasoning is injected on "
                f"{', '.join(REPLAYED_PATHS)}",
            )
        fault = exchange.wrong_path  # as far as the refusal names one
        if not fault and status in _NOT_FOUND:
            fault = exchange.wrong_path = path_fault(path, self._upstream_path) or ""
        if not fault:
            return
        now_s = self._clock()
        if now_s - self._warned_s >= WARNING_EVERY_S:
            self._warned_s = now_s
            self._log.warning(
                "wrong_path",
                request_id=exchange.id,
                route=exchange.route,
                status=status,
                reason=fault,
                hint=_HINTS[PathFault(fault)],
            )
