"""Routes: the requests that belong to the Chat Completions API, by method and path."""

from reasoning_replay.core.dialects.states import Route

__all__ = ["route_of"]


def route_of(method: str, path: str) -> Route | None:
    """Return the route of a request; None if it has none here. `path` has no query."""
    return Route.CHAT if method == "POST" and path.endswith("/chat/completions") else None
