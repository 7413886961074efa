"""
Routes: what the shell knows of a dialect, as data, and which requests belong to which route.

A route is always a name of a table, never text of a client: it becomes a label of metrics.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from reasoning_replay.core.dialects.base import Dialect
from reasoning_replay.core.dialects.client_wire import Wire
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.dialects.vendors import VENDORS, Upstream, UpstreamProfile

# The next segment is a name that a user of Azure chose.
_NAMING = "deployments"


class RoutePath(NamedTuple):
    """
    Requests of a dialect on which the proxy acts.

    Attributes:
        route: Name of the route; several paths may have one.
        method: Its method; "" for a message of a WebSocket, which has no path either.
        path: End of the path; a name in braces stands for any text without a slash:
            `/responses/{response_id}`. Of several, people read the last one.
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


class DialectEntry(NamedTuple):
    """
    The entry of one dialect in the registry, by which each of its parts is found.

    Attributes:
        name: `Dialect.name`; the value of the label `dialect`.
        profile_of: Returns the profile of an upstream, by its name and its URL; see `chosen`.
        make: Returns the dialect at an upstream, with these values of the `settings`.
        client: What requests and answers look like to a client.
        settings: Names of the settings that it reads.
        paths: Its requests on which the proxy acts; the first one that fits decides.
        others: Its other requests: the end of its base path, without a slash -> their route.
        kinds: Its refusals; `other` is one that it does not understand.
        repairs: Its repairs before the first attempt; values of the label `repair`.
        has_own_scope: Whether its key space is derived from the tenant's scope. Only the first
            dialect uses that scope itself, because it was there before the others.
        title: Name of its API, for people.
        base_path: End of the base URL that its usual clients need; they add the rest of the path.
        base_variable: Environment variable in which these clients look for that URL.
        vendors: Facts about the upstreams that are known to have it, by name.
        home: Name of the one that people are pointed to.
        has_own_version: Whether these clients name the version of the API themselves, so that a
            path goes to the same path of the upstream.
        has_error_events: Whether its errors have the form of an event, with a `type`.
        finds_carriers: Whether its capture looks for content that may be reasoning in places that
            it does not know.
        key_parameters: Parameters of the query that may carry a key -> the header that else does.
    """

    name: str
    profile_of: Callable[[str, str], UpstreamProfile]
    make: Callable[[Any, Mapping[str, str]], Dialect[Any, Any]]
    client: Wire
    paths: tuple[RoutePath, ...]
    others: Mapping[str, str]
    kinds: type[StrEnum]
    settings: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()
    has_own_scope: bool = True
    title: str = "Chat Completions API"
    base_path: str = "/v1"
    base_variable: str = "OPENAI_BASE_URL"
    vendors: Mapping[str, Upstream] = VENDORS
    home: str = "openai"
    has_own_version: bool = False
    has_error_events: bool = False
    finds_carriers: bool = False
    key_parameters: Mapping[str, str] = MappingProxyType({})

    @property
    def replayed_paths(self) -> tuple[str, ...]:
        """For people: its requests into which reasoning is injected, each by its last path."""
        named = (one for one in self.paths if one.replays and one.path)
        return tuple({one.route: f"{one.method} …{one.path}" for one in named}.values())

    @property
    def routes(self) -> tuple[str, ...]:
        """Routes of its requests, each once."""
        return tuple(dict.fromkeys(one.route for one in self.paths))

    @property
    def refusals(self) -> tuple[str, ...]:
        """Refusals that it understands; values of the label `diagnosis`."""
        return tuple(kind for kind in self.kinds if kind != "other")


class RouteTable:
    """
    The routes of all dialects, and the well-known paths of other APIs.

    Attributes:
        handled: Paths on which the proxy acts.
        others: Routes of the dialects' other requests, as in `known`.
        known: Routes of the requests that pass through, by one segment of the path, or by two in a
            row. A route that no dialect has is named as the segment.
    """

    def __init__(self, dialects: Sequence[DialectEntry]) -> None:
        """Compile the table."""
        self.handled = tuple(path for entry in dialects for path in entry.paths)
        self.others = {path: route for entry in dialects for path, route in entry.others.items()}
        taken = {*(one.route for one in self.handled), *self.others.values()}
        taken |= {Route.WEBSOCKET, Route.OTHER}
        self.known: Mapping[str, str] = self.others | {
            str(route): route for route in Route if route not in taken
        }
        self._patterns: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        for one in (*_ALIKE, *self.handled):
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
