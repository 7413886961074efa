"""
Registry: what the shell knows of each dialect, as data: its routes, key space and label values.

A new dialect is one entry here; docs/internals/design.md lists what else it touches.
"""

from collections.abc import Container, Mapping

from reasoning_replay.core.dialects.anthropic import dialect as messages
from reasoning_replay.core.dialects.chat import dialect as chat
from reasoning_replay.core.dialects.gemini import dialect as gemini
from reasoning_replay.core.dialects.responses import dialect as responses
from reasoning_replay.core.dialects.routes import DialectEntry, RouteTable
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.wire.digest import digest

DIALECTS: tuple[DialectEntry, ...] = (responses.ENTRY, chat.ENTRY, messages.ENTRY, gemini.ENTRY)
RESPONSES, CHAT = responses.ENTRY.name, chat.ENTRY.name
MESSAGES, GEMINI = messages.ENTRY.name, gemini.ENTRY.name

_TABLE = RouteTable(DIALECTS)
HANDLED = _TABLE.handled
KNOWN = _TABLE.known
route_of = _TABLE.route_of
# The ends of the paths at which the dialects' APIs are.
ENDPOINTS = tuple(_TABLE.others)
REPLAYED_ROUTES = frozenset(one.route for one in HANDLED if one.replays)
# These routes create a response, so what the response reports about itself is counted.
CAPTURED_ROUTES = frozenset(one.route for one in HANDLED if one.creates)
# On all other routes, requests and responses pass through unread.
HANDLED_ROUTES = frozenset({*(one.route for one in HANDLED), Route.WEBSOCKET})
# The dialects in which an error has the form of an event, and those that can tell content that may
# be reasoning, in a place that they do not know.
WITH_ERROR_EVENTS = frozenset(entry.name for entry in DIALECTS if entry.has_error_events)
FINDING_CARRIERS = tuple(entry.name for entry in DIALECTS if entry.finds_carriers)
REPAIRS = tuple(dict.fromkeys(repair for entry in DIALECTS for repair in entry.repairs))
# For people: the requests into which reasoning is injected, without other names of their paths.
REPLAYED_PATHS = tuple(path for entry in DIALECTS for path in entry.replayed_paths)

_BY_NAME = {entry.name: entry for entry in DIALECTS}
_OF_ROUTE = {route: entry for entry in DIALECTS for route in entry.routes}
_NAMES = {str(route): entry.name for route, entry in _OF_ROUTE.items()}
_DERIVED = tuple(entry.name for entry in DIALECTS if entry.has_own_scope)
_OF_OWN_VERSION = tuple(entry for entry in DIALECTS if entry.has_own_version)
_ROUTES_OF_OWN_VERSION = frozenset(
    route for entry in _OF_OWN_VERSION for route in (*entry.routes, *entry.others.values())
)
_KEYS_OF_OWN_VERSION = frozenset(
    name for entry in _OF_OWN_VERSION for name in entry.key_parameters.values()
)
# The end of the base URL that the clients of a route need.
BASE_PATHS = {route: entry.base_path for route, entry in _OF_ROUTE.items()}


def base_url_at(url: str, dialect: str) -> str:
    """Return the base URL for clients of a dialect; `url` is the proxy's own, without a path."""
    return url + _BY_NAME.get(dialect, DIALECTS[0]).base_path


def dialect_of(route: str) -> str:
    """Return the name of a route's dialect; "" if the route has none."""
    return _NAMES.get(route, "")


def names_version(route: str, headers: Container[str]) -> bool:
    """
    Return whether a client names the version of its API itself: see `DialectEntry`.

    Args:
        route: Route of the request.
        headers: Its headers, whatever their case: one that only such a client has tells it, too,
            on the paths that several APIs have.
    """
    if route in _OF_ROUTE or route in _ROUTES_OF_OWN_VERSION:
        return route in _ROUTES_OF_OWN_VERSION
    return any(name in headers for name in _KEYS_OF_OWN_VERSION)


def key_parameters_of(route: str) -> Mapping[str, str]:
    """Return the parameters of the query that carry a key on a route; see `DialectEntry`."""
    return _OF_ROUTE[route].key_parameters if route in _OF_ROUTE else {}


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
