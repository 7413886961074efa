"""Registry: what all dialects together know. A further dialect adds to each list here."""

from reasoning_replay.core.dialects.responses import routes as responses
from reasoning_replay.core.dialects.responses.events import CONTEXTS, REMOVALS
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind
from reasoning_replay.core.dialects.responses.heal.repair import Repair
from reasoning_replay.core.dialects.states import Route

__all__ = ["CONTEXTS", "REFUSALS", "REMOVALS", "REPAIRS", "route_of"]

# The words that label what dialects count.
REFUSALS = tuple(kind for kind in RefusalKind if kind is not RefusalKind.OTHER)
REPAIRS = tuple(Repair)

_ROUTERS = (responses.route_of,)


def route_of(method: str, path: str) -> Route:
    """Return which route a request is on; `path` comes without its query."""
    found = (router(method, path) for router in _ROUTERS)
    return next((route for route in found if route is not None), Route.OTHER)
