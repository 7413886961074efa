"""Routes: the requests that belong to the Responses API, by method and path."""

import re

from reasoning_replay.core.dialects.states import Route

__all__ = ["retrieved", "route_of"]

_RETRIEVED = re.compile(r"/responses/([^/?]+)$")
_POSTED = {
    "/responses": Route.RESPONSES,
    "/responses/compact": Route.COMPACT,
    "/responses/input_tokens": Route.INPUT_TOKENS,
}


def route_of(method: str, path: str) -> Route | None:
    """Return the route of a request; None if it has none here. `path` has no query."""
    if method == "POST":
        return next((route for end, route in _POSTED.items() if path.endswith(end)), None)
    return Route.RETRIEVE if method == "GET" and retrieved(path) else None


def retrieved(path: str) -> str:
    """Return the id of the response that a path names; "" if it names none."""
    found = _RETRIEVED.search(path)
    return found.group(1) if found is not None else ""
