"""What a span tells of an exchange that is over: words and numbers, and nothing that was said."""

import time

from proxy.adapters.tracing import Live
from proxy.core.traces import fit_id, fit_model
from proxy.web.exchange import Exchange
from proxy.web.routes import Route

__all__ = ["OPERATIONS", "OURS", "REFUSED", "Known", "ago_ns", "error_of", "tell"]

# Ahead of every name that no convention has.
OURS = "reasoning_replay."
# The operation, where the conventions on generative AI have a word for it.
OPERATIONS = {
    Route.RESPONSES: "chat",
    Route.CREATE: "chat",
    Route.RETRIEVE: "fetch_response",
}
REFUSED = 400
_FAILED = 500
_NS = 1_000_000_000  # in a second
_MS = 1_000_000  # of those in a millisecond

Known = dict[str, str | int | float | bool]


def ago_ns(seconds: float) -> int:
    """Return when so many seconds ago was, in nanoseconds since the epoch."""
    return time.time_ns() - int(seconds * _NS)


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
        return "response_failed" if has_failed and exchange.route in Route.CAPTURED else ""
    is_ours = status < REFUSED or status >= _FAILED  # else the client was told what it did wrong
    return outcome if is_ours else ""


def tell(live: Live, exchange: Exchange, start_ns: int) -> None:
    """Note all that is known of an exchange; `start_ns` is when it began, since the epoch."""
    counts = exchange.route in Route.REPLAYED
    known: dict[str, str | int | float | None] = {
        "outcome": exchange.outcome,
        "asked": exchange.asked,
        "captured": exchange.captured,
        "healed": exchange.healed,
        "repaired": sum(exchange.repairs.values()) if counts else None,
        "captured_items": exchange.captured_items if counts else None,
        "scope": exchange.scope.hex() if exchange.scope else None,
        "conversation": exchange.conversation.hex(),
        "before_ms": round(exchange.before_ms, 3),
        "first_byte_ms": round(exchange.first_byte_ms, 3) or None,
        "sent_bytes": exchange.sent_bytes,
    }
    known |= {outcome.value: count for outcome, count in exchange.outcomes.items()}
    facts: Known = {OURS + k: value for k, value in known.items() if value not in {None, ""}}
    if exchange.status:
        facts["http.response.status_code"] = exchange.status
    live.note(facts | _of_model(live, exchange))
    _tell_events(live, exchange, start_ns)


def _tell_events(live: Live, exchange: Exchange, start_ns: int) -> None:
    prepared_ns = start_ns + int(exchange.before_ms * _MS)
    if exchange.healed:
        at_ns = prepared_ns + int(exchange.first_byte_ms * _MS)
        live.event(OURS + "heal", {OURS + "diagnosis": exchange.healed}, at_ns)
    if exchange.asked == "store_failed":
        live.event(OURS + "store_failure", {OURS + "operation": "recall"}, prepared_ns)
    if exchange.captured == "store_failed":
        live.event(OURS + "store_failure", {OURS + "operation": "save"}, time.time_ns())


def _of_model(live: Live, exchange: Exchange) -> Known:
    """Return what was asked of which model, and who answered; rename the span after it."""
    if exchange.route not in Route.CAPTURED and exchange.route != Route.RETRIEVE:
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
    return facts
