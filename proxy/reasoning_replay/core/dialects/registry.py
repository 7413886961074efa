"""Registry: the routes and labels of all dialects together. A new dialect extends each list."""

from reasoning_replay.core.dialects.responses import routes as responses
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.states import Route

__all__ = ["CONTEXTS", "REFUSALS", "REMOVALS", "REPAIRS", "route_of"]

# Label values of the metrics that dialects count.
REFUSALS = tuple(kind for kind in RefusalKind if kind is not RefusalKind.OTHER)
REPAIRS = tuple(Repair)

_ROUTERS = (responses.route_of,)


def route_of(method: str, path: str) -> Route:
    """Return the route of a request; `path` has no query."""
    found = (router(method, path) for router in _ROUTERS)
    return next((route for route in found if route is not None), Route.OTHER)
