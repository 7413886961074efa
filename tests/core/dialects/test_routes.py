"""Routes: the requests on which the proxy acts, and the names of those that pass through."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.registry import (
    HANDLED,
    HANDLED_ROUTES,
    KNOWN,
    REPLAYED_PATHS,
    REPLAYED_ROUTES,
    base_url_at,
    route_of,
)
from reasoning_replay.core.dialects.states import Route

SEGMENTS = st.sampled_from([*"/".join(KNOWN).split("/"), "v1", "openai", "deployments", "x", ""])


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("POST", "/v1/responses", Route.RESPONSES),
        ("POST", "/responses", Route.RESPONSES),
        ("POST", "/openai/deployments/d/responses", Route.RESPONSES),
        ("POST", "/v1/responses/compact", Route.COMPACT),
        ("POST", "/v1/responses/input_tokens", Route.INPUT_TOKENS),
        ("GET", "/v1/responses/resp_1", Route.RETRIEVE),
        ("GET", "/v1/responses/", Route.RESPONSES_OTHER),
        ("DELETE", "/v1/responses/resp_1", Route.RESPONSES_OTHER),
        ("POST", "/v1/responses/resp_1/cancel", Route.RESPONSES_OTHER),
        ("GET", "/v1/responses/resp_1/input_items", Route.RESPONSES_OTHER),
        ("POST", "/v1/my-responses", Route.OTHER),
    ],
)
def test_the_routes_of_the_responses_api(method: str, path: str, route: Route) -> None:
    """Method and end of the path decide; other requests of the API have a route of their own."""
    assert route_of(method, path) is route


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/api/v1/chat/completions",
        "/v1beta/openai/chat/completions",
        "/openai/deployments/embeddings/chat/completions",
    ],
)
def test_only_a_post_creates_a_completion(path: str) -> None:
    """Any prefix counts: vendors put the API below different paths."""
    assert route_of("POST", path) is Route.CHAT
    assert route_of("GET", path) is not Route.CHAT


@pytest.mark.parametrize(
    ("method", "path", "route"),
    [
        ("GET", "/v1/chat/completions", Route.CHAT_OTHER),
        ("GET", "/v1/chat/completions/chatcmpl-1/messages", Route.CHAT_OTHER),
        ("POST", "/v1/chat/completions/chatcmpl-1", Route.CHAT_OTHER),
        ("POST", "/v1/completions", Route.COMPLETIONS),
        ("GET", "/v1/messages", Route.MESSAGES_OTHER),
        ("POST", "/v1/messages/batches", Route.MESSAGES_OTHER),
        ("GET", "/v1/models/gpt-5.4", Route.MODELS),
        ("DELETE", "/v1/vector_stores/vs_1/files/f_1", Route.VECTOR_STORES),
        ("POST", "/v1/audio/speech", Route.AUDIO),
        ("POST", "/v1/threads/t_1/messages", Route.THREADS),
        ("GET", "/v1/chat", Route.OTHER),
        ("GET", "/v1/my-files", Route.OTHER),
        ("GET", "/openai/deployments/files", Route.OTHER),
        ("GET", "/", Route.OTHER),
        ("OPTIONS", "*", Route.OTHER),
    ],
)
def test_well_known_paths_have_a_route(method: str, path: str, route: Route) -> None:
    """The first known segment decides, unless a user chose it as the name of a deployment."""
    assert route_of(method, path) is route


@given(st.sampled_from(["GET", "POST", "PUT"]), st.lists(SEGMENTS, max_size=6))
def test_only_the_end_of_a_path_makes_the_proxy_act(method: str, segments: list[str]) -> None:
    """The proxy acts on a path exactly if it ends as one of the table; all others pass through."""
    path = "/" + "/".join(segments)
    ends = {one.path for one in HANDLED if one.method == method}
    is_retrieval = method == "GET" and len(segments) > 1 and segments[-2] == "responses"
    if segments[-3:-2] == ["threads"] and segments[-2] and segments[-1] == "messages":
        ends = set()  # another API

    assert (route_of(method, path) in HANDLED_ROUTES) == (
        any(path.endswith(end) for end in ends) or (is_retrieval and segments[-1] != "")
    )


def test_every_route_is_handled_or_passes_through() -> None:
    """A route is in one part of the table only; a dialect may have names of its own."""
    handled, known = {one.route for one in HANDLED}, set(KNOWN.values())
    of_websockets = {Route.WEBSOCKET, Route.CREATE}

    assert handled | of_websockets == HANDLED_ROUTES
    assert known & HANDLED_ROUTES == set()
    assert handled | of_websockets | known | {Route.OTHER} >= set(Route)


def test_replayed_paths_are_named_for_people() -> None:
    """The list has each request into which reasoning is injected, with its method."""
    assert len(REPLAYED_PATHS) == len({one.route for one in HANDLED if one.path} & REPLAYED_ROUTES)
    assert REPLAYED_PATHS[0] == "POST …/responses"


def test_a_base_url_ends_as_its_clients_need_it() -> None:
    """The SDKs of Anthropic add `/v1` themselves; a route without a dialect counts as OpenAI's."""
    urls = {name: base_url_at("http://proxy", name) for name in ("responses", "messages", "")}
    assert urls == {
        "responses": "http://proxy/v1",
        "messages": "http://proxy",
        "": "http://proxy/v1",
    }
