"""Path faults: a path that was not found, or a refusal, names the mistake in a base URL."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.path_faults import (
    PathFault,
    api_paths,
    base_path,
    client_settings,
    fault_in_refusal,
    lacking_apis,
    path_fault,
)

PATH = st.lists(
    st.sampled_from(["v1", "responses", "chat", "completions", "models", "resp_1", "openai", ""]),
    max_size=6,
).map(lambda segments: "/" + "/".join(segments))


@pytest.mark.parametrize(
    ("path", "upstream_path", "want"),
    [
        ("/responses", "/v1", PathFault.LACKS_V1),
        ("/responses/compact", "/openai/v1", PathFault.LACKS_V1),
        ("/chat/completions", "/v1", PathFault.LACKS_V1),
        ("/models", "/v1", PathFault.LACKS_V1),
        ("/v1/v1/responses", "/v1", PathFault.DOUBLE_V1),
        ("/v1/v1/responses", "", PathFault.DOUBLE_V1),
        ("/v1/responses/responses", "/v1", PathFault.ENDPOINT),
        ("/v1/chat/completions/responses", "/v1", PathFault.ENDPOINT),
        ("/responses/chat/completions", "/v1", PathFault.ENDPOINT),
        ("/v1/responses", "", PathFault.UPSTREAM_LACKS_V1),
        ("/responses", "", PathFault.UPSTREAM_LACKS_V1),
        ("//v1/responses", "/v1", PathFault.DOUBLE_SLASH),
        ("/v1//chat/completions", "/v1", PathFault.DOUBLE_SLASH),
        ("/v1/responses/", "/v1", PathFault.TRAILING_SLASH),
        ("/v2/responses", "/v1", PathFault.OTHER_VERSION),
        ("/v1beta/messages", "/v1", PathFault.OTHER_VERSION),
        ("/V1/responses", "/v1", PathFault.LETTER_CASE),
        ("/V1/Responses", "", PathFault.LETTER_CASE),
        ("/v1/Chat/Completions", "/v1", PathFault.LETTER_CASE),
        ("/openai/deployments/My-Own/chat/completions", "/openai/v1", None),
        ("/openai/v1/responses", "/v1", PathFault.PREFIX),
        ("/openai/v1/models", "", PathFault.PREFIX),
        ("/api/v1/chat/completions", "/v1", PathFault.PREFIX),
        ("/gemini/v1beta/models/g:generateContent", "/v1beta", PathFault.PREFIX),
        ("/openai/v1/responses", "/openai/v1", None),
        ("/gateway/v1/responses", "/gateway", None),
        ("/openai/v1/nothing", "/v1", None),
        ("/v1/openai/v1/responses", "/v1", None),
        ("/v1/response", "/v1", PathFault.MISSPELT),
        ("/chat/completion", "/v1", PathFault.MISSPELT),
        ("/v1/message", "/v1", PathFault.MISSPELT),
        ("/v1/v1beta/models/g:generateContent", "/v1beta", PathFault.DOUBLE_V1),
        ("/v1beta/models/g:generateContent/", "/v1beta", PathFault.TRAILING_SLASH),
        ("/v1beta/models/g:generateContent", "/v1beta/openai", None),
        ("/v1/models/g:generateContent", "/v1beta", None),
        ("/v1/response" + "s" * 64, "/v1", None),
        ("//v1/nothing", "/v1", None),
        ("/v1/files/", "/v1", None),
        ("/v1/responses", "/v1", None),
        ("/v1/responses/resp_1", "/v1", None),
        ("/v1/nothing", "", None),
        ("/openai/responses", "/openai/v1", None),
        ("/openai/deployments/d/chat/completions", "/openai/v1", None),
        ("/chat", "/v1", None),
        ("/v1", "", None),
        ("/", "", None),
        ("*", "/v1", None),
        ("", "/v1", None),
    ],
)
def test_the_mistake_that_a_path_shows(
    path: str, upstream_path: str, want: PathFault | None
) -> None:
    """Each likely mistake has its word; a right path, and Azure's own, have none."""
    assert path_fault(path, upstream_path) is want


@pytest.mark.parametrize(
    ("upstream_url", "lacking"),
    [
        ("https://api.openai.com/v1", {"messages", "gemini"}),
        ("https://eu.api.openai.com/v1", {"messages", "gemini"}),
        ("https://api.anthropic.com/v1", {"responses", "gemini"}),
        ("https://api.deepseek.com", {"messages", "gemini"}),
        ("https://api.deepseek.com/v1", {"messages", "gemini"}),
        ("https://api.deepseek.com/anthropic/v1", {"gemini"}),
        ("https://api.minimax.io/v1", {"messages"}),
        ("https://api.minimax.io/anthropic/v1", {"responses", "chat"}),
        ("https://x.services.ai.azure.com/anthropic/v1", {"responses", "chat"}),
        ("https://x.openai.azure.com/openai/v1", set()),
        ("https://us-aiplatform.googleapis.com/v1", set()),
        ("https://generativelanguage.googleapis.com/v1beta/openai", set()),
        ("https://generativelanguage.googleapis.com/v1beta", {"responses", "chat"}),
        ("https://api.moonshot.ai/v1", set()),
        ("https://openrouter.ai/api/v1", set()),
        ("http://127.0.0.1:11434/v1", set()),
        ("https://gateway.example/v1", set()),
    ],
)
def test_only_a_known_host_lacks_an_api(upstream_url: str, lacking: set[str]) -> None:
    """What is not certain is not claimed."""
    assert set(lacking_apis(upstream_url)) == lacking


@pytest.mark.parametrize(
    ("upstream_url", "want"),
    [
        ("https://api.openai.com/v1", {"OPENAI_BASE_URL=http://p/v1": ["responses", "chat"]}),
        (
            "https://api.anthropic.com/v1",
            {"OPENAI_BASE_URL=http://p/v1": ["chat"], "ANTHROPIC_BASE_URL=http://p": ["messages"]},
        ),
    ],
)
def test_a_client_is_told_only_of_apis_that_are_there(
    upstream_url: str, want: dict[str, list[str]]
) -> None:
    """One line for each variable, however many APIs it serves."""
    told = client_settings("http://p", upstream_url)
    assert {place: [entry.name for entry in entries] for place, entries in told.items()} == want


@pytest.mark.parametrize(
    ("upstream_url", "dialect", "want"),
    [
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini", "/v1beta"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "chat", "/v1"),
        ("https://us-aiplatform.googleapis.com/v1/projects/p", "gemini", "/v1"),
        ("https://gateway.example/v1beta", "gemini", "/v1beta"),
        ("https://gateway.example/v1beta", "chat", "/v1"),
        ("https://gateway.example/gemini", "gemini", "/v1"),
    ],
)
def test_an_api_begins_at_its_own_path_of_a_known_upstream(
    upstream_url: str, dialect: str, want: str
) -> None:
    """Or at the version in its URL. Elsewhere at `/v1`, which stands for the upstream's URL."""
    assert base_path(upstream_url, dialect) == want


def test_an_api_that_the_upstream_lacks_is_named_before_its_path_is_blamed() -> None:
    """Only a mapped path is sure to be meant for the API; the path itself may be wrong, too."""
    lacking = lacking_apis("https://api.openai.com/v1")
    assert path_fault("/v1/messages", "/v1", lacking) is PathFault.LACKS_API
    assert path_fault("/v1/messages/count_tokens", "", lacking) is PathFault.LACKS_API
    assert path_fault("/v1/v1/messages", "/v1", lacking) is PathFault.DOUBLE_V1
    assert path_fault("/messages", "/v1", lacking) is PathFault.LACKS_V1
    assert path_fault("/v1beta/models/g:countTokens", "/v1", lacking) is PathFault.LACKS_API
    assert path_fault("/v1/responses", "/v1", lacking) is None


def test_a_path_at_which_the_host_has_an_api_is_not_blamed() -> None:
    """Azure has its API at /openai/v1, and DeepSeek that of Anthropic at /anthropic/v1."""
    azure, deepseek = "https://x.openai.azure.com", "https://api.deepseek.com/v1"
    assert path_fault("/openai/v1/responses", "", apis=api_paths(azure)) is None
    assert path_fault("/anthropic/v1/messages", "/v1", apis=api_paths(deepseek)) is None
    assert path_fault("/openai/v1/responses", "/v1", apis=api_paths(deepseek)) is PathFault.PREFIX


@given(PATH)
def test_a_right_base_url_is_never_blamed(path: str) -> None:
    """A path of one endpoint right after the one /v1 shows no mistake."""
    is_right = path.startswith("/v1/") and not path.startswith("/v1/v1/")
    is_right = is_right and "//" not in path and not path.endswith("/")
    endpoints = path.count("/responses") + path.count("/chat/completions")

    assert path_fault(path, "/v1") is None or not is_right or endpoints > 1


# Texts of OpenAI: pipecat-ai/pipecat#4043, GoogleChromeLabs/webmcp-tools#417, n8n-io/n8n#18352.
TOOLS = (
    "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions."
)
WALLS = [
    f"{TOOLS} Please use /v1/responses instead.",
    f"{TOOLS} To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
    "This model is only supported in v1/responses and not in v1/chat/completions.",
]


@pytest.mark.parametrize("message", WALLS)
def test_a_refusal_names_the_api_that_the_model_needs(message: str) -> None:
    """Also through a gateway that puts words of its own around the text."""
    error = {"message": f"400 {message} (tid: 1)", "param": "reasoning_effort"}
    assert fault_in_refusal(json.dumps({"error": error}).encode()) is PathFault.NEEDS_RESPONSES


@pytest.mark.parametrize(
    "message",
    [
        "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
        "'temperature' is not supported for gpt-5.4 in /v1/chat/completions.",
        "",
    ],
)
def test_any_other_refusal_names_none(message: str) -> None:
    """What another API would do is not guessed."""
    assert fault_in_refusal(json.dumps({"error": {"message": message}}).encode()) is None
