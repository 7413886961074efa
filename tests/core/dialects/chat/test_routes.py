"""Routes: which requests belong to the Chat Completions API."""

import pytest
from reasoning_replay.core.dialects.chat.routes import route_of
from reasoning_replay.core.dialects.states import Route


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/v1/chat/completions", Route.CHAT),
        ("POST", "/openai/deployments/gpt-5/chat/completions", Route.CHAT),
        ("POST", "/chat/completions", Route.CHAT),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/completions", None),
        ("POST", "/v1/chat/completions/x", None),
    ],
)
def test_only_a_post_creates_a_completion(method: str, path: str, route: Route | None) -> None:
    """Any prefix counts: vendors put the API below different paths."""
    assert route_of(method, path) is route
