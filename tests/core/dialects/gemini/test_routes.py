"""Routes of the Gemini API, of AI Studio and Google Cloud."""

import pytest
from reasoning_replay.core.dialects.gemini.dialect import COUNT_TOKENS, GENERATE_CONTENT
from reasoning_replay.core.dialects.gemini.request import read_request
from reasoning_replay.core.dialects.registry import dialect_of, key_parameters_of, route_of
from reasoning_replay.core.dialects.states import Route

CLOUD = "/v1/projects/p/locations/global"


@pytest.mark.parametrize(
    ("path", "route", "model"),
    [
        ("/v1beta/models/gemini-3:generateContent", GENERATE_CONTENT, "gemini-3"),
        ("/v1/models/gemini-3:streamGenerateContent", GENERATE_CONTENT, "gemini-3"),
        ("/v1beta/models/gemini-3:countTokens", COUNT_TOKENS, "gemini-3"),
        (f"{CLOUD}/publishers/google/models/g%2D3:generateContent", GENERATE_CONTENT, "g-3"),
        ("/v1beta/models/gemini-3%3AstreamGenerateContent", GENERATE_CONTENT, "gemini-3"),
        ("/v1beta/models/a%3ab:generateContent", GENERATE_CONTENT, "a:b"),
        (f"{CLOUD}/endpoints/123:streamGenerateContent", GENERATE_CONTENT, "123"),
        ("/v1beta/tunedModels/mine:generateContent", GENERATE_CONTENT, "mine"),
        ("/v1beta/models/gemini-3:embedContent", Route.MODELS, "gemini-3"),
        ("/v1beta/models", Route.MODELS, ""),
        ("/v1beta/interactions", "interactions", ""),
    ],
)
def test_only_its_own_requests_have_a_route(path: str, route: str, model: str) -> None:
    """Other methods of a model, and the other API of Gemini, are passed through."""
    assert route_of("POST", path) == route
    assert read_request(b"{}", {}, path=path).model == model
    is_own = route in (GENERATE_CONTENT, COUNT_TOKENS)
    assert (dialect_of(route) == "gemini") is is_own
    assert dialect_of(route_of("GET", path)) == ""


def test_its_query_may_carry_a_key() -> None:
    """No other dialect has a key there."""
    assert key_parameters_of(GENERATE_CONTENT) == {"key": "x-goog-api-key"}
    assert key_parameters_of(Route.CHAT) == {}
    assert key_parameters_of(Route.MODELS) == {}
