"""
Route table: which requests belong to which route, as data.

A route is always a name of this table, never text of a client: it becomes a label of metrics.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from reasoning_replay.core.dialects.states import Route

# Paths of APIs without a dialect, by one segment.
_WELL_KNOWN: Mapping[str, str] = {
    "completions": Route.COMPLETIONS,
    "assistants": Route.ASSISTANTS,
    "threads": Route.THREADS,
    "conversations": Route.CONVERSATIONS,
    "containers": Route.CONTAINERS,
    "realtime": Route.REALTIME,
    "embeddings": Route.EMBEDDINGS,
    "moderations": Route.MODERATIONS,
    "models": Route.MODELS,
    "files": Route.FILES,
    "uploads": Route.UPLOADS,
    "vector_stores": Route.VECTOR_STORES,
    "images": Route.IMAGES,
    "videos": Route.VIDEOS,
    "audio": Route.AUDIO,
    "batches": Route.BATCHES,
    "fine_tuning": Route.FINE_TUNING,
    "evals": Route.EVALS,
}
# The next segment is a name that a user of Azure chose.
_NAMING = "deployments"


class RoutePath(NamedTuple):
    """
    Requests of a dialect on which the proxy acts.

    Attributes:
        route: Name of the route; several paths may have one.
        method: Its method; "" for a message of a WebSocket, which has no path either.
        path: End of the path; a name in braces stands for any text without a slash:
            `/responses/{response_id}`.
        replays: Whether reasoning is injected into such a request.
        creates: Whether it creates a response, which is captured.
    """

    route: str
    method: str = ""
    path: str = ""
    replays: bool = True
    creates: bool = False


# Paths of other APIs that end as one on which the proxy acts.
_ALIKE = (RoutePath(Route.THREADS, "POST", "/threads/{thread_id}/messages"),)


class RouteTable:
    """
    The routes of all dialects, and the well-known paths of other APIs.

    Attributes:
        known: Routes of the requests that pass through, by one segment of the path, or by two in a
            row.
    """

    def __init__(self, handled: Iterable[RoutePath], others: Mapping[str, str]) -> None:
        """
        Compile the table.

        Args:
            handled: Paths on which the proxy acts; the first one that fits decides.
            others: Routes of the dialects' other requests, as in `known`.
        """
        self.known = {**others, **_WELL_KNOWN}
        self._patterns: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        for one in (*_ALIKE, *handled):
            path = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one.path))
            path = path.replace(":", "(?::|%3[Aa])")  # some clients encode it
            pattern = re.compile(path + r"\Z")
            self._patterns.setdefault(one.method, []).append((pattern, one.route))

    def route_of(self, method: str, path: str) -> str:
        """Return the route of a request; `path` has no query."""
        for pattern, route in self._patterns.get(method, ()):
            if pattern.search(path):
                return route
        for before, segment in pairwise(path.split("/")):
            known = self.known.get(f"{before}/{segment}") or self.known.get(segment)
            if known is not None and before != _NAMING:
                return known
        return Route.OTHER
