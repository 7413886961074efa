"""
Routes: the requests that belong to the Messages API, by method and path.

The clouds put the model into the path, and another word where Anthropic's API has `messages`.
"""

import re
from urllib.parse import unquote

from reasoning_replay.core.dialects.routes import RoutePath
from reasoning_replay.core.dialects.states import Route

_GOOGLE = "/publishers/anthropic/models"
# On Google Cloud, this name stands for the model that the body names.
_COUNTER = "count-tokens"
# On Amazon Bedrock, models of this vendor alone. Its streams have another framing than server-sent
# events, so requests for one (`invoke-with-response-stream`) are passed through. The last path of a
# route is the one that people read.
ROUTES = (
    RoutePath(Route.MESSAGES, "POST", "/model/anthropic.{model}/invoke", creates=True),
    RoutePath(Route.MESSAGES, "POST", "/model/{region}.anthropic.{model}/invoke", creates=True),
    RoutePath(Route.COUNT_TOKENS, "POST", f"{_GOOGLE}/{_COUNTER}:rawPredict"),
    RoutePath(Route.MESSAGES, "POST", f"{_GOOGLE}/{{model}}:rawPredict", creates=True),
    RoutePath(Route.MESSAGES, "POST", f"{_GOOGLE}/{{model}}:streamRawPredict", creates=True),
    RoutePath(Route.COUNT_TOKENS, "POST", "/messages/count_tokens"),
    RoutePath(Route.MESSAGES, "POST", "/messages", creates=True),
)
OTHERS = {"messages": Route.MESSAGES_OTHER}
_MODEL = re.compile(r"/models?/([^/]+?)(?:/invoke|(?::|%3[Aa])(?:rawPredict|streamRawPredict))\Z")


def model_in(path: str) -> str:
    """Return the model that the path of one of these routes names; "" if it names none."""
    found = _MODEL.search(path)
    name = unquote(found.group(1)) if found is not None else ""
    return "" if name == _COUNTER else name
