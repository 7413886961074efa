"""Routes: how the proxy classifies a request, by its method, path and upgrade."""

from aiohttp import web

from reasoning_replay.core.dialects.registry import route_of
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.http.upgrade import is_websocket

__all__ = ["route_of_request"]


def route_of_request(request: web.BaseRequest) -> str:
    """Return the route of a request; a WebSocket handshake has its own route."""
    if is_websocket(request):
        return Route.WEBSOCKET
    return route_of(request.method, request.raw_path.partition("?")[0])
