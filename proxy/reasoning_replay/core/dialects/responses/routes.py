"""Routes: the requests that belong to the Responses API, by method and path."""

import re

from reasoning_replay.core.dialects.routes import RoutePath
from reasoning_replay.core.dialects.states import Route

ROUTES = (
    RoutePath(Route.RESPONSES, "POST", "/responses", creates=True),
    RoutePath(Route.COMPACT, "POST", "/responses/compact"),
    RoutePath(Route.INPUT_TOKENS, "POST", "/responses/input_tokens"),
    RoutePath(Route.RETRIEVE, "GET", "/responses/{response_id}", replays=False),
    RoutePath(Route.CREATE, creates=True),
)
OTHERS = {"responses": Route.RESPONSES_OTHER}
_RETRIEVED = re.compile(r"/responses/([^/?]+)$")


def retrieved(path: str) -> str:
    """Return the id of the response that a path names; "" if it names none."""
    found = _RETRIEVED.search(path)
    return found.group(1) if found is not None else ""
