"""Routes of the Messages API, also under the names of the clouds."""

import pytest
from reasoning_replay.core.dialects.messages.routes import model_in, route_of
from reasoning_replay.core.dialects.states import Route

GOOGLE = "/v1/projects/p/locations/global/publishers/anthropic/models/claude-sonnet-4-5@20250929"
AMAZON = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROFILE = "/model/arn%3Aaws%3Abedrock%3Ainference-profile%2Fus.anthropic.claude-opus-5"


@pytest.mark.parametrize(
    ("path", "route", "model"),
    [
        ("/v1/messages", Route.MESSAGES, ""),
        ("/anthropic/v1/messages", Route.MESSAGES, ""),
        ("/messages", Route.MESSAGES, ""),
        ("/v1/messages/count_tokens", Route.COUNT_TOKENS, ""),
        ("/v1/threads/thread_1/messages", None, ""),
        ("/v1/messages/batches", None, ""),
        ("/v1/chat/completions", None, ""),
        (f"{GOOGLE}:rawPredict", Route.MESSAGES, "claude-sonnet-4-5@20250929"),
        (f"{GOOGLE}:streamRawPredict", Route.MESSAGES, "claude-sonnet-4-5@20250929"),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
            Route.COUNT_TOKENS,
            "count-tokens",
        ),
        ("/v1/publishers/google/models/gemini:rawPredict", None, ""),
        (f"{AMAZON}/invoke", Route.MESSAGES, "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        (
            f"{PROFILE}/invoke",
            Route.MESSAGES,
            "arn:aws:bedrock:inference-profile/us.anthropic.claude-opus-5",
        ),
        (f"{AMAZON}/invoke-with-response-stream", None, ""),
        ("/model/amazon.nova-lite-v1:0/invoke", None, ""),
    ],
)
def test_only_its_own_requests_have_a_route(path: str, route: Route | None, model: str) -> None:
    """Threads of another API, batches, other models and framed streams are passed through."""
    assert route_of("POST", path) is route
    assert route_of("GET", path) is None
    assert model_in(path) == model
