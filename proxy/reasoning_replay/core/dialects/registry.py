"""
Registry: what the shell knows of each dialect, as data: its routes, key space and label values.

A new dialect is one entry here, and one line in `web.wiring`, which creates it.
"""

from typing import NamedTuple

from reasoning_replay.core.dialects.chat import routes as chat
from reasoning_replay.core.dialects.chat.heal.diagnosis import RefusalKind as ChatRefusalKind
from reasoning_replay.core.dialects.messages import routes as messages
from reasoning_replay.core.dialects.messages.decision import FOREIGN
from reasoning_replay.core.dialects.messages.heal.diagnosis import (
    RefusalKind as MessagesRefusalKind,
)
from reasoning_replay.core.dialects.responses import routes as responses
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.routes import RoutePath, RouteTable
from reasoning_replay.core.dialects.states import REPLAYED_ROUTES, Route
from reasoning_replay.core.wire.digest import digest

__all__ = [
    "CHAT",
    "CONTEXTS",
    "DIALECTS",
    "HANDLED",
    "MESSAGES",
    "REMOVALS",
    "REPLAYED_PATHS",
    "RESPONSES",
    "DialectEntry",
    "dialect_of",
    "route_of",
    "scope_in",
    "scopes_of",
]

RESPONSES = "responses"
CHAT = "chat"
MESSAGES = "messages"

HANDLED: tuple[RoutePath, ...] = (*responses.ROUTES, *chat.ROUTES, *messages.ROUTES)
# For people: the requests into which reasoning is injected, without other names of their paths.
REPLAYED_PATHS = tuple(
    {
        one.route: f"{one.method} …{one.path}" for one in HANDLED if one.route in REPLAYED_ROUTES
    }.values()
)
route_of = RouteTable(HANDLED).route_of


class DialectEntry(NamedTuple):
    """
    The entry of one dialect.

    Attributes:
        name: `Dialect.name`; the value of the label `dialect`.
        routes: Routes of its requests.
        refusals: Refusals that it understands; values of the label `diagnosis`.
        repairs: Its repairs before the first attempt; values of the label `repair`.
        has_own_scope: Whether its key space is derived from the tenant's scope. Only the first
            dialect uses that scope itself, because it was there before the others.
    """

    name: str
    routes: tuple[Route, ...]
    refusals: tuple[str, ...]
    repairs: tuple[str, ...] = ()
    has_own_scope: bool = True


DIALECTS = (
    DialectEntry(
        name=RESPONSES,
        routes=(*(one.route for one in responses.ROUTES), Route.CREATE),
        refusals=tuple(kind for kind in RefusalKind if kind is not RefusalKind.OTHER),
        repairs=tuple(Repair),
        has_own_scope=False,
    ),
    DialectEntry(
        name=CHAT,
        routes=tuple(one.route for one in chat.ROUTES),
        refusals=tuple(kind for kind in ChatRefusalKind if kind is not ChatRefusalKind.OTHER),
    ),
    DialectEntry(
        name=MESSAGES,
        routes=(Route.MESSAGES, Route.COUNT_TOKENS),
        refusals=tuple(
            kind for kind in MessagesRefusalKind if kind is not MessagesRefusalKind.OTHER
        ),
        repairs=(FOREIGN,),
    ),
)
_OF_ROUTE = {route: entry.name for entry in DIALECTS for route in entry.routes}
_DERIVED = tuple(entry.name for entry in DIALECTS if entry.has_own_scope)


def dialect_of(route: Route) -> str:
    """Return the name of a route's dialect; "" if the route has none."""
    return _OF_ROUTE.get(route, "")


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
