"""Span attributes: limited words and numbers, and errors by the OpenTelemetry conventions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.responses.capture import ResponsesCapture
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.core.history.turns import Context
from reasoning_replay.web.exchange import Exchange, Times
from reasoning_replay.web.tracing.otel_tracer import attributes_of, error_of, known_method


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
def test_server_and_client_spans_have_their_own_error(
    status: int, outcome: str, as_server: str, as_client: str
) -> None:
    """
    The server span and the client span have their own `error.type`.

    A client that leaves, or sends an invalid request, is no error of the server span.
    """
    exchange = Exchange(Route.RESPONSES, Times(0.0))
    exchange.status, exchange.outcome = status, outcome
    assert error_of(exchange, is_client=False) == as_server
    assert error_of(exchange, is_client=True) == as_client


def named(model: str, response_id: str) -> tuple[object, object, object]:
    """Return a span's requested model, answering model and response id."""
    exchange = Exchange(Route.RESPONSES, Times(0.0))
    exchange.request.model = model
    exchange.response.capture = capture = ResponsesCapture(Origin(Context(), model), 1 << 20)
    capture.model, capture.response_id = model, response_id
    found = attributes_of(exchange)
    names = ("gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.id")
    requested, answered, response = (found.get(name, "") for name in names)
    return requested, answered, response


@given(st.text())
def test_names_are_limited(text: str) -> None:
    """Names from clients and upstreams are short and plain ASCII, or left out."""
    for got, most in zip(named(text, text), (128, 128, 256), strict=True):
        assert got in {"", text}
        assert isinstance(got, str)
        assert len(got) <= most
        assert got.isascii()
        assert not set(got) & set(" \n\"'{}<>")


@pytest.mark.parametrize(
    "model", ["gpt-5.4", "openai/gpt-5.4:free", "ft:gpt-4o:acme::a1B2", "us.anthropic@1+x"]
)
def test_usual_names_are_unchanged(model: str) -> None:
    """Usual model names and response ids are unchanged."""
    assert named(model, "resp_0c1d2e3f4a5b6071==") == (model, model, "resp_0c1d2e3f4a5b6071==")


@pytest.mark.parametrize(
    ("method", "want"),
    [("GET", "GET"), ("QUERY", "QUERY"), ("get", "_OTHER"), ("A" * 99, "_OTHER")],
)
def test_unknown_methods_share_one_value(method: str, want: str) -> None:
    """Unknown methods share one value, `_OTHER`."""
    assert known_method(method) == want
