"""
Route table: which requests belong to which route, as data.

A route is always a name of this table, never text of a client: it becomes a label of metrics.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from reasoning_replay.core.dialects.states import Route

__all__ = ["KNOWN", "RoutePath", "RouteTable"]

# Paths of well-known APIs that are passed through, by one segment, or by two in a row.
KNOWN: Mapping[str, Route] = {
    "responses": Route.RESPONSES_OTHER,
    "chat/completions": Route.CHAT_OTHER,
    "completions": Route.COMPLETIONS,
    "messages": Route.MESSAGES_OTHER,
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
        path: End of the path; a name in braces stands for any text without a slash:
            `/responses/{response_id}`.
    """

    route: Route
    method: str
    path: str


# Paths of other APIs that end as one on which the proxy acts.
_ALIKE = (RoutePath(Route.THREADS, "POST", "/threads/{thread_id}/messages"),)


class RouteTable:
    """The routes of all dialects, and the well-known paths of other APIs."""

    def __init__(self, handled: Sequence[RoutePath]) -> None:
        """Compile the paths on which the proxy acts; the first one that fits decides."""
        self._patterns: dict[str, list[tuple[re.Pattern[str], Route]]] = {}
        for one in (*_ALIKE, *handled):
            pattern = re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one.path)) + r"\Z")
            self._patterns.setdefault(one.method, []).append((pattern, one.route))

    def route_of(self, method: str, path: str) -> Route:
        """Return the route of a request; `path` has no query."""
        for pattern, route in self._patterns.get(method, ()):
            if pattern.search(path):
                return route
        for before, segment in pairwise(path.split("/")):
            known = KNOWN.get(f"{before}/{segment}") or KNOWN.get(segment)
            if known is not None and before != _NAMING:
                return known
        return Route.OTHER
