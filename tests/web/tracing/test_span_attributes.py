"""What counts as a failure of a span, and what does not."""

import pytest
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.tracing.span_attributes import error_of


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
    exchange = Exchange(Route.RESPONSES, 0.0)
    exchange.status, exchange.outcome = status, outcome
    assert error_of(exchange, is_client=False) == as_server
    assert error_of(exchange, is_client=True) == as_client
