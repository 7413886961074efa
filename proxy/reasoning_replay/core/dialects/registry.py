"""Registry: every dialect's routes. A further dialect adds one line here."""

from reasoning_replay.core.dialects.responses import routes as responses
from reasoning_replay.core.dialects.states import Route

__all__ = ["route_of"]

_ROUTERS = (responses.route_of,)


def route_of(method: str, path: str) -> Route:
    """Return which route a request is on; `path` comes without its query."""
    found = (router(method, path) for router in _ROUTERS)
    return next((route for route in found if route is not None), Route.OTHER)
