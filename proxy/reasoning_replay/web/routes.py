"""What a request is to us, by its method and path."""

import re

from aiohttp import web

from reasoning_replay.web.http.upgrade import is_websocket

__all__ = ["Route", "retrieved", "route_of", "route_of_request"]


class Route:
    """What an exchange is to us; also the label that it is counted under."""

    RESPONSES = "responses"  # POST …/responses: replay and capture
    COMPACT = "compact"  # POST …/responses/compact: replay
    INPUT_TOKENS = "input_tokens"  # POST …/responses/input_tokens: replay
    RETRIEVE = "retrieve"  # GET …/responses/{id}: capture
    WEBSOCKET = "websocket"  # a whole connection, whatever is sent on it
    CREATE = "create"  # one response.create of a WebSocket, and its answer: replay and capture
    OTHER = "other"  # passes through

    REPLAYED = frozenset({RESPONSES, COMPACT, INPUT_TOKENS, CREATE})
    CAPTURED = frozenset({RESPONSES, CREATE})  # on these, a response is made and told


_RETRIEVED = re.compile(r"/responses/([^/?]+)$")
_POSTED = {
    "/responses": Route.RESPONSES,
    "/responses/compact": Route.COMPACT,
    "/responses/input_tokens": Route.INPUT_TOKENS,
}


def route_of(method: str, path: str) -> str:
    """Return which route a request is on; `path` comes without its query."""
    if method == "POST":
        ends = (route for end, route in _POSTED.items() if path.endswith(end))
        return next(ends, Route.OTHER)
    return Route.RETRIEVE if method == "GET" and retrieved(path) else Route.OTHER


def route_of_request(request: web.BaseRequest) -> str:
    """Return which route a request is on, a WebSocket's among them."""
    if is_websocket(request):
        return Route.WEBSOCKET
    return route_of(request.method, request.raw_path.partition("?")[0])


def retrieved(path: str) -> str:
    """Return the id of the response that a path names; "" when it names none."""
    found = _RETRIEVED.search(path)
    return found.group(1) if found is not None else ""
