"""Routes of the Messages API, also under the names of the clouds."""

import pytest
from reasoning_replay.core.dialects.anthropic.request import read_request
from reasoning_replay.core.dialects.registry import dialect_of, route_of
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
        ("/v1/threads/thread_1/messages", Route.THREADS, ""),
        ("/v1/messages/batches", Route.MESSAGES_OTHER, ""),
        ("/v1/chat/completions", Route.CHAT, ""),
        (f"{GOOGLE}:rawPredict", Route.MESSAGES, "claude-sonnet-4-5@20250929"),
        (f"{GOOGLE}%3ArawPredict", Route.MESSAGES, "claude-sonnet-4-5@20250929"),
        (f"{GOOGLE}:streamRawPredict", Route.MESSAGES, "claude-sonnet-4-5@20250929"),
        (
            "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
            Route.COUNT_TOKENS,
            "",
        ),
        ("/v1/publishers/google/models/gemini:predict", Route.MODELS, ""),
        (f"{AMAZON}/invoke", Route.MESSAGES, "us.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        (
            f"{PROFILE}/invoke",
            Route.MESSAGES,
            "arn:aws:bedrock:inference-profile/us.anthropic.claude-opus-5",
        ),
        (f"{AMAZON}/invoke-with-response-stream", Route.OTHER, ""),
        ("/model/anthropic.claude-opus-5/invoke", Route.MESSAGES, "anthropic.claude-opus-5"),
    ],
)
def test_only_its_own_requests_have_a_route(path: str, route: Route, model: str) -> None:
    """Threads of another API, batches, other models and framed streams are passed through."""
    assert route_of("POST", path) is route
    assert dialect_of(route_of("GET", path)) == ""
    assert read_request(b"{}", {}, path=path).model == model


@pytest.mark.parametrize(
    "path",
    [
        "/model/amazon.nova-lite-v1:0/invoke",
        "/v1/publishers/google/models/gemini:rawPredict",
        "/v1/messages/",
        "/v1/my-messages",
    ],
)
def test_requests_of_other_vendors_have_none_of_its_routes(path: str) -> None:
    """The cloud's name of another vendor's model is no route of this API."""
    assert dialect_of(route_of("POST", path)) == ""
