"""Routes: the requests that belong to the Chat Completions API, by method and path."""

from reasoning_replay.core.dialects.routes import RoutePath
from reasoning_replay.core.dialects.states import Route

ROUTES = (RoutePath(Route.CHAT, "POST", "/chat/completions", creates=True),)
OTHERS = {"chat/completions": Route.CHAT_OTHER}
