"""Path faults: a path that was not found names the mistake in a base URL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.path_faults import PathFault, path_fault

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


@given(PATH)
def test_a_right_base_url_is_never_blamed(path: str) -> None:
    """A path of one endpoint right after the one /v1 shows no mistake."""
    is_right = path.startswith("/v1/") and not path.startswith("/v1/v1/")
    endpoints = path.count("/responses") + path.count("/chat/completions")

    assert path_fault(path, "/v1") is None or not is_right or endpoints > 1
