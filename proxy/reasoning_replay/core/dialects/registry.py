"""Registry: the routes and labels of all dialects together. A new dialect extends each list."""

from reasoning_replay.core.dialects.responses import routes as responses
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.routes import RoutePath, RouteTable
from reasoning_replay.core.dialects.states import REPLAYED_ROUTES

__all__ = ["CONTEXTS", "HANDLED", "REFUSALS", "REMOVALS", "REPAIRS", "REPLAYED_PATHS", "route_of"]

# Label values of the metrics that dialects count.
REFUSALS = tuple(kind for kind in RefusalKind if kind is not RefusalKind.OTHER)
REPAIRS = tuple(Repair)

HANDLED: tuple[RoutePath, ...] = (*responses.ROUTES,)
# For people: the requests into which reasoning is injected.
REPLAYED_PATHS = tuple(
    f"{one.method} …{one.path}" for one in HANDLED if one.route in REPLAYED_ROUTES
)

route_of = RouteTable(HANDLED).route_of
