"""Attributes are bounded words and numbers, and a failure is one by the conventions."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.base import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.turns import Context
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.tracing.span_attributes import attributes_of, error_of, known_method


@pytest.mark.parametrize(
    ("status", "outcome", "as_server", "as_client"),
    [
        (200, "ok", "", ""),
        (400, "refused", "", "400"),
        (0, "refused", "", "refused"),
        (503, "upstream_error", "503", "503"),
        (200, "cut_off", "cut_off", "cut_off"),
        (0, "cut_off", "cut_off", "cut_off"),
        (200, "client_gone", "", ""),
        (200, "client_stalled", "", ""),
        (413, "body_too_large", "", ""),
        (504, "upstream_timeout", "upstream_timeout", "upstream_timeout"),
        (200, "proxy_failed", "proxy_failed", "proxy_failed"),
    ],
)
def test_a_failure_is_ours_or_upstreams(
    status: int, outcome: str, as_server: str, as_client: str
) -> None:
    """A client that leaves, or asks for what cannot be had, is no failure of the server's."""
    exchange = Exchange(Route.RESPONSES, Times(0.0))
    exchange.status, exchange.outcome = status, outcome
    assert error_of(exchange, is_client=False) == as_server
    assert error_of(exchange, is_client=True) == as_client


def named(model: str, response_id: str) -> tuple[object, object, object]:
    """Return how a span names the requested model, the model that answered, and the response."""
    exchange = Exchange(Route.RESPONSES, Times(0.0))
    exchange.request.model = model
    exchange.answer.capture = ResponsesCapture(Origin(Context(), model), 1 << 20)
    with mock.patch.multiple(ResponsesCapture, model=model, response_id=response_id):
        found = attributes_of(exchange)
    names = ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.id")
    requested, answered, response = (found.get(name, "") for name in names)
    return requested, answered, response


@given(st.text())
def test_words_are_bounded(text: str) -> None:
    """Whatever a client or an upstream writes: short, of plain letters, or left out."""
    for got, most in zip(named(text, text), (128, 128, 256), strict=True):
        assert got in {"", text}
        assert isinstance(got, str)
        assert len(got) <= most
        assert got.isascii()
        assert not set(got) & set(" \n\"'{}<>")


@pytest.mark.parametrize(
    "model", ["gpt-5.4", "openai/gpt-5.4:free", "ft:gpt-4o:acme::a1B2", "us.anthropic@1+x"]
)
def test_usual_names_stand(model: str) -> None:
    """As they are."""
    assert named(model, "resp_0c1d2e3f4a5b6071==") == (model, model, "resp_0c1d2e3f4a5b6071==")


@pytest.mark.parametrize(
    ("method", "want"),
    [("GET", "GET"), ("QUERY", "QUERY"), ("get", "_OTHER"), ("A" * 99, "_OTHER")],
)
def test_methods_are_those_of_http(method: str, want: str) -> None:
    """All others are one."""
    assert known_method(method) == want
