"""
Routes: the requests that belong to the Messages API, by method and path.

The clouds put the model into the path, and another word where Anthropic's API has `messages`.
"""

import re
from urllib.parse import unquote

from reasoning_replay.core.dialects.states import Route

__all__ = ["model_in", "route_of"]

# OpenAI's API has another resource of the same name: the messages of a thread.
_OF_THREAD = re.compile(r"/threads/[^/]+/messages$")
# Google Cloud: publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict
_GOOGLE = re.compile(r"/publishers/anthropic/models/([^/:]+):(?:rawPredict|streamRawPredict)$")
# Amazon Bedrock, models of this vendor alone. Its streams have another framing than server-sent
# events, so requests for one (`invoke-with-response-stream`) are passed through.
_AMAZON = re.compile(r"/model/([^/]*anthropic[^/]*)/invoke$")
# On Google Cloud, this name stands for the model that the body names.
_COUNTER = "count-tokens"


def route_of(method: str, path: str) -> Route | None:
    """Return the route of a request; None if it has none here. `path` has no query."""
    if method != "POST":
        return None
    if path.endswith("/messages/count_tokens") or model_in(path) == _COUNTER:
        return Route.COUNT_TOKENS
    if path.endswith("/messages"):
        return None if _OF_THREAD.search(path) else Route.MESSAGES
    return Route.MESSAGES if model_in(path) else None


def model_in(path: str) -> str:
    """Return the model that a path names; "" if it names none."""
    found = _GOOGLE.search(path) or _AMAZON.search(path)
    return unquote(found.group(1)) if found is not None else ""
