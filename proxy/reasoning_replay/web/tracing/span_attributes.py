"""Span attributes of an exchange: fixed words and numbers, no text by a client or a model."""

import re
import time
from collections.abc import Iterator
from http import HTTPStatus

from msgspec.structs import astuple

from reasoning_replay.core.dialects.registry import CAPTURED_ROUTES
from reasoning_replay.core.dialects.states import Route
from reasoning_replay.web.exchange import Exchange
from reasoning_replay.web.exchange_facts import Reader, flat_facts_of

# Prefix of the names that no convention defines.
OURS = "reasoning_replay."
# Operations that the conventions for generative AI define.
OPERATIONS: dict[str, str] = {
    **dict.fromkeys(CAPTURED_ROUTES, "chat"),
    Route.RETRIEVE: "fetch_response",
}
# Names of the fields of `Usage` in the same conventions.
_TOKENS = ("input_tokens", "cache_read.input_tokens", "output_tokens", "reasoning.output_tokens")
_METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}
)
# Clients and upstreams choose model names and response ids: values of another form are left out.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,255}")

Attributes = dict[str, str | int | float | bool]


def known_method(method: str) -> str:
    """Return a request's method; `_OTHER` for a method that HTTP does not define."""
    return method if method in _METHODS else "_OTHER"


def error_of(exchange: Exchange, *, is_client: bool) -> str:
    """
    Return the error type of a finished exchange; "" if it has not failed.

    By the conventions for HTTP, a 4xx is no error in a SERVER span, because the client caused it.
    It is an error in a CLIENT span, such as that of a `response.create`.
    """
    status, outcome = exchange.status, exchange.outcome
    if outcome in {"refused", "upstream_error"}:
        is_error = is_client or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return str(status or outcome) if is_error else ""
    if outcome in {"ok", "client_gone", "client_stalled"}:
        has_failed = exchange.response.capture is not None and exchange.response.capture.has_failed
        return "response_failed" if has_failed and exchange.route in CAPTURED_ROUTES else ""
    is_clients_fault = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    return "" if is_clients_fault else outcome


def attributes_of(exchange: Exchange) -> Attributes:
    """Return the attributes of a finished exchange."""
    attributes: Attributes = {
        OURS + name: value
        for name, value in flat_facts_of(exchange, Reader.SPAN).items()
        if value is not None
    }
    if exchange.status:
        attributes["http.response.status_code"] = exchange.status
    if exchange.route in OPERATIONS:
        attributes |= _of_model(exchange)
    return attributes


def _of_model(exchange: Exchange) -> Attributes:
    """Return the attributes of the conventions for generative AI."""
    attributes: Attributes = {}
    if _MODEL.fullmatch(exchange.request.model):
        attributes["gen_ai.request.model"] = exchange.request.model
    capture = exchange.response.capture
    if capture is None:
        return attributes
    if _ID.fullmatch(capture.response_id):
        attributes["gen_ai.response.id"] = capture.response_id
    if _MODEL.fullmatch(capture.model):
        attributes["gen_ai.response.model"] = capture.model
    if capture.usage is not None and exchange.route in CAPTURED_ROUTES:  # a GET would repeat it
        used = zip(_TOKENS, astuple(capture.usage), strict=True)
        attributes |= {"gen_ai.usage." + name: count for name, count in used if count is not None}
    return attributes


def events_of(exchange: Exchange, sent_ns: int) -> Iterator[tuple[str, Attributes, int]]:
    """
    Yield the name, the attributes and the time of each event of a finished exchange.

    Args:
        exchange: The finished exchange.
        sent_ns: When its last attempt was sent, in nanoseconds since the epoch.
    """
    if exchange.request.healed:
        yield OURS + "heal", {OURS + "diagnosis": exchange.request.healed}, sent_ns
    for state, operation, at_ns in (
        (exchange.request.state, "recall", sent_ns),
        (exchange.response.state, "save", time.time_ns()),
    ):
        if state == "store_failed":
            yield OURS + "store_failure", {OURS + "operation": operation}, at_ns
