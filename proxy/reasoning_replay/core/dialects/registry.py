"""
Registry: what the shell knows of each dialect, as data: its routes, key space and label values.

A new dialect is one entry here, and one line in `web.wiring`, which creates it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from reasoning_replay.core.dialects.anthropic import routes as messages
from reasoning_replay.core.dialects.anthropic.dialect import FOREIGN, MessagesDialect
from reasoning_replay.core.dialects.anthropic.heal.diagnosis import (
    RefusalKind as MessagesRefusalKind,
)
from reasoning_replay.core.dialects.chat import routes as chat
from reasoning_replay.core.dialects.chat.dialect import ChatDialect
from reasoning_replay.core.dialects.chat.heal.diagnosis import RefusalKind as ChatRefusalKind
from reasoning_replay.core.dialects.gemini import routes as gemini
from reasoning_replay.core.dialects.gemini.dialect import GeminiDialect
from reasoning_replay.core.dialects.gemini.heal.diagnosis import RefusalKind as GeminiRefusalKind
from reasoning_replay.core.dialects.responses import routes as responses
from reasoning_replay.core.dialects.responses.dialect import ResponsesDialect
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.routes import RoutePath, RouteTable
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.dialects.vendors import (
    GEMINI_VENDORS,
    MESSAGES_VENDORS,
    VENDORS,
    Upstream,
)
from reasoning_replay.core.wire.digest import digest

RESPONSES = ResponsesDialect.name
CHAT = ChatDialect.name
MESSAGES = MessagesDialect.name
GEMINI = GeminiDialect.name


class DialectEntry(NamedTuple):
    """
    The entry of one dialect.

    Attributes:
        name: `Dialect.name`; the value of the label `dialect`.
        paths: Its requests on which the proxy acts.
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
        key_parameters: Parameters of the query that may carry a key -> the header that else does.
    """

    name: str
    paths: tuple[RoutePath, ...]
    others: Mapping[str, str]
    kinds: type[StrEnum]
    repairs: tuple[str, ...] = ()
    has_own_scope: bool = True
    title: str = "Chat Completions API"
    base_path: str = "/v1"
    base_variable: str = "OPENAI_BASE_URL"
    vendors: Mapping[str, Upstream] = VENDORS
    home: str = "openai"
    has_own_version: bool = False
    key_parameters: Mapping[str, str] = MappingProxyType({})

    @property
    def replayed_paths(self) -> tuple[str, ...]:
        """For people: its requests into which reasoning is injected, each by one path."""
        return tuple(
            {
                one.route: f"{one.method} …{one.path}"
                for one in self.paths
                if one.replays and one.path
            }.values()
        )

    @property
    def routes(self) -> tuple[str, ...]:
        """Routes of its requests, each once."""
        return tuple(dict.fromkeys(one.route for one in self.paths))

    @property
    def refusals(self) -> tuple[str, ...]:
        """Refusals that it understands; values of the label `diagnosis`."""
        return tuple(kind for kind in self.kinds if kind != "other")


DIALECTS = (
    DialectEntry(
        RESPONSES,
        responses.ROUTES,
        responses.OTHERS,
        RefusalKind,
        repairs=tuple(Repair),
        has_own_scope=False,
        title="Responses API",
    ),
    DialectEntry(CHAT, chat.ROUTES, chat.OTHERS, ChatRefusalKind),
    DialectEntry(
        MESSAGES,
        messages.ROUTES,
        messages.OTHERS,
        MessagesRefusalKind,
        repairs=(FOREIGN,),
        title="Messages API",
        base_path="",
        base_variable="ANTHROPIC_BASE_URL",
        vendors=MESSAGES_VENDORS,
        home="anthropic",
    ),
    DialectEntry(
        GEMINI,
        gemini.ROUTES,
        gemini.OTHERS,
        GeminiRefusalKind,
        repairs=(FOREIGN,),
        title="Gemini API",
        base_path="",
        base_variable="GOOGLE_GEMINI_BASE_URL",
        vendors=GEMINI_VENDORS,
        home="gemini",
        has_own_version=True,
        key_parameters={"key": "x-goog-api-key"},
    ),
)

HANDLED = tuple(one for entry in DIALECTS for one in entry.paths)
REPLAYED_ROUTES = frozenset(one.route for one in HANDLED if one.replays)
# These routes create a response, so what the response reports about itself is counted.
CAPTURED_ROUTES = frozenset(one.route for one in HANDLED if one.creates)
# On all other routes, requests and responses pass through unread.
HANDLED_ROUTES = frozenset({*(one.route for one in HANDLED), Route.WEBSOCKET})
# For people: the requests into which reasoning is injected, without other names of their paths.
REPLAYED_PATHS = tuple(path for entry in DIALECTS for path in entry.replayed_paths)
_OTHERS = {path: route for entry in DIALECTS for path, route in entry.others.items()}
# The ends of the paths at which the dialects' APIs are.
ENDPOINTS = tuple(_OTHERS)
_TABLE = RouteTable(HANDLED, _OTHERS)
KNOWN = _TABLE.known
route_of = _TABLE.route_of

_OF_ROUTE = {route: entry.name for entry in DIALECTS for route in entry.routes}
_DERIVED = tuple(entry.name for entry in DIALECTS if entry.has_own_scope)


_BY_NAME = {entry.name: entry for entry in DIALECTS}


# The end of the base URL that the clients of a route need.
BASE_PATHS = {route: _BY_NAME[name].base_path for route, name in _OF_ROUTE.items()}


def base_url_at(url: str, dialect: str) -> str:
    """Return the base URL for clients of a dialect; `url` is the proxy's own, without a path."""
    return url + _BY_NAME.get(dialect, DIALECTS[0]).base_path


def dialect_of(route: str) -> str:
    """Return the name of a route's dialect; "" if the route has none."""
    return _OF_ROUTE.get(route, "")


def key_parameters_of(route: str) -> Mapping[str, str]:
    """Return the parameters of the query that carry a key on a route; see `DialectEntry`."""
    return _BY_NAME[_OF_ROUTE[route]].key_parameters if route in _OF_ROUTE else {}


def scope_in(dialect: str, tenant: bytes) -> bytes:
    """
    Return the key space of a tenant's requests in one dialect.

    No turn crosses dialects: its reasoning is a part of another shape in each.

    Args:
        dialect: Name of the dialect.
        tenant: Result of `Scoping.of`.
    """
    return digest(b"dialect", tenant, dialect.encode()) if dialect in _DERIVED else tenant


def scopes_of(tenant: bytes) -> list[bytes]:
    """Return all key spaces of a tenant, its own scope first."""
    return [tenant, *(scope_in(dialect, tenant) for dialect in _DERIVED)]
