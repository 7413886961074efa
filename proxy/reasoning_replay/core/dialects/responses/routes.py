"""Routes: the requests that belong to the Responses API, by method and path."""

import re

from reasoning_replay.core.dialects.routes import RoutePath
from reasoning_replay.core.dialects.states import Route

__all__ = ["ROUTES", "retrieved"]

ROUTES = (
    RoutePath(Route.RESPONSES, "POST", "/responses"),
    RoutePath(Route.COMPACT, "POST", "/responses/compact"),
    RoutePath(Route.INPUT_TOKENS, "POST", "/responses/input_tokens"),
    RoutePath(Route.RETRIEVE, "GET", "/responses/{response_id}"),
)
_RETRIEVED = re.compile(r"/responses/([^/?]+)$")


def retrieved(path: str) -> str:
    """Return the id of the response that a path names; "" if it names none."""
    found = _RETRIEVED.search(path)
    return found.group(1) if found is not None else ""
