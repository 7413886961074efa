"""Routes: what a request is to the proxy, by its method and path."""

from aiohttp import web

from reasoning_replay.core.dialects.registry import route_of
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.http.upgrade import is_websocket

__all__ = ["route_of_request"]


def route_of_request(request: web.BaseRequest) -> Route:
    """Return which route a request is on, a WebSocket's among them."""
    if is_websocket(request):
        return Route.WEBSOCKET
    return route_of(request.method, request.raw_path.partition("?")[0])
