"""What a span tells of an exchange that is over: words and numbers, and nothing that was said."""

import time

from msgspec.structs import astuple

from reasoning_replay.adapters.telemetry.tracing import Live
from reasoning_replay.core.dialects.states import CAPTURED_ROUTES, REPLAYED_ROUTES, Route
from reasoning_replay.core.wire.trace_context import fit_id, fit_model
from reasoning_replay.web.exchange import Exchange

__all__ = ["MS", "OPERATIONS", "OURS", "REFUSED", "Known", "ago_ns", "error_of", "tell"]

# Ahead of every name that no convention has.
OURS = "reasoning_replay."
# The operation, where the conventions on generative AI have a word for it.
OPERATIONS: dict[str, str] = {
    Route.RESPONSES: "chat",
    Route.CREATE: "chat",
    Route.RETRIEVE: "fetch_response",
}
# What each number of `Usage` is called by the same conventions.
_TOKENS = ("input_tokens", "cache_read.input_tokens", "output_tokens", "reasoning.output_tokens")
REFUSED = 400
_FAILED = 500
MS = 1_000_000  # nanoseconds in a millisecond

Known = dict[str, str | int | float | bool]


def ago_ns(seconds: float) -> int:
    """Return when so many seconds ago was, in nanoseconds since the epoch."""
    return time.time_ns() - int(seconds * 1000 * MS)


def error_of(exchange: Exchange, *, is_client: bool) -> str:
    """
    Return what kind of failure it was; "" for none.

    By the conventions on HTTP, a refusal is the client's fault where we are the server, and a
    failure where we are the client, as we are with each request on a WebSocket.
    """
    status, outcome = exchange.status, exchange.outcome
    if outcome in {"refused", "upstream_error"}:
        is_error = is_client or status >= _FAILED
        return str(status or outcome) if is_error else ""
    if outcome in {"ok", "client_gone", "client_stalled"}:
        has_failed = exchange.capture is not None and exchange.capture.has_failed
        return "response_failed" if has_failed and exchange.route in CAPTURED_ROUTES else ""
    is_ours = status < REFUSED or status >= _FAILED  # else the client was told what it did wrong
    return outcome if is_ours else ""


def tell(live: Live, exchange: Exchange, sent_ns: int, answered_ns: int) -> None:
    """
    Note all that is known of an exchange.

    Args:
        live: Its span.
        exchange: It is over.
        sent_ns: When the request went on, in nanoseconds since the epoch.
        answered_ns: When its answer began, or that to the second try.
    """
    counts = exchange.route in REPLAYED_ROUTES
    known: dict[str, str | int | float | None] = {
        "outcome": exchange.outcome,
        "asked": exchange.asked,
        "captured": exchange.captured,
        "healed": exchange.healed,
        "repaired": exchange.repaired if counts else None,
        "injected_bytes": exchange.injected_bytes if counts else None,
        "captured_items": exchange.captured_items if counts else None,
        "captured_bytes": exchange.captured_bytes if counts else None,
        "scope": exchange.scope.hex() if exchange.scope else None,
        "conversation": exchange.conversation.hex(),
        "request_id": exchange.id,
        "before_ms": round(exchange.before_ms, 3),
        "between_ms": round(exchange.between_ms, 3),
        "after_ms": round(exchange.after_ms, 3),
        "first_byte_ms": round(exchange.first_byte_ms, 3) or None,
        "received_bytes": exchange.received_bytes,
        "sent_bytes": exchange.sent_bytes,
    }
    known |= exchange.counts
    facts: Known = {OURS + k: value for k, value in known.items() if value not in {None, ""}}
    if exchange.status:
        facts["http.response.status_code"] = exchange.status
    live.note(facts | _of_model(live, exchange))
    if exchange.healed:
        live.event(OURS + "heal", {OURS + "diagnosis": exchange.healed}, answered_ns)
    if exchange.asked == "store_failed":
        live.event(OURS + "store_failure", {OURS + "operation": "recall"}, sent_ns)
    if exchange.captured == "store_failed":
        live.event(OURS + "store_failure", {OURS + "operation": "save"}, time.time_ns())


def _of_model(live: Live, exchange: Exchange) -> Known:
    """Return what was asked of which model, and who answered; rename the span after it."""
    if exchange.route not in CAPTURED_ROUTES and exchange.route != Route.RETRIEVE:
        return {}
    facts: Known = {}
    model = fit_model(exchange.model)
    if model:
        facts["gen_ai.request.model"] = model
        live.rename(f"{OPERATIONS[exchange.route]} {model}")
    capture = exchange.capture
    if capture is None:
        return facts
    if response_id := fit_id(capture.response_id):
        facts["gen_ai.response.id"] = response_id
    if answered := fit_model(capture.model):
        facts["gen_ai.response.model"] = answered
    if capture.usage is not None and exchange.route in CAPTURED_ROUTES:  # else it was told before
        used = zip(_TOKENS, astuple(capture.usage), strict=True)
        facts |= {"gen_ai.usage." + name: count for name, count in used if count is not None}
    return facts
