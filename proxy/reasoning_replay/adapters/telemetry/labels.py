"""The words that label metrics, each from a fixed list: whoever counts says one of these."""

__all__ = [
    "ASKED",
    "BREAKERS",
    "CACHE_RESULTS",
    "CAPTURED",
    "ENDED",
    "PHASES",
    "ROUTES",
    "TOKENS",
    "status_label",
    "usual_status",
]

ROUTES = (
    "responses",  # POST …/responses
    "compact",  # POST …/responses/compact
    "input_tokens",  # POST …/responses/input_tokens
    "retrieve",  # GET …/responses/{id}
    "websocket",  # a whole WebSocket, from its handshake to its end
    "create",  # one response.create on a WebSocket, and its answer
    "other",
)
# How an exchange ended; errors of ours have their own code instead.
ENDED = ("ok", "refused", "upstream_error", "cut_off", "client_gone", "client_stalled")
# What became of a request on a replayed route, before it was sent.
ASKED = (
    "planned",  # read, looked up and decided; what came of it is in items_total
    "stateful",  # upstream holds the history itself
    "no_scope",  # no credential, so nobody to keep things for
    "unreadable",  # not JSON, or JSON that readers could disagree on
    "encoded",  # a Content-Encoding that cannot be undone: not known here, or damaged
    "too_large",  # over inspect_max_bytes, decoded_max_bytes, or what is followed of a WebSocket
    "busy",  # inspect_total_max_bytes was used up: sent on unread
    "store_failed",  # the store failed, or is left alone as it did: sent as it came
    "budget_exceeded",  # the store was waited for no longer (store_budget_ms): sent as it came
    "failed",  # a fault of ours: sent as it came
    "off",
)
# What became of an answer on a captured route.
CAPTURED = (
    "saved",
    "late",  # the store had not said yet that it has it: it was still trying
    "nothing",  # no item to recognise a turn by
    "store_failed",
    "too_large",
    "unreadable",
    "failed",
    "refused",  # not a 2xx answer
)
# How the conversations of a lookup were found.
CACHE_RESULTS = (
    "valid",  # local copies, each of the version that the store has
    "loaded",  # at least one came from the store
    "stale",  # local copies, as the store failed
)
# Time that we add: before a request is sent on, while its answer passes, and behind that.
PHASES = ("before", "between", "after")
# As upstream reports them: cached ones are part of the input, reasoning is part of the output.
TOKENS = ("input", "cached", "output", "reasoning")
# Operations that a breaker may keep from the store.
BREAKERS = ("recall", "save")
# Statuses that operators tell apart; any other counts as its class.
_STATUSES = {
    status: str(status)
    for status in (
        *(101, 200, 201, 202, 204, 304),
        *(400, 401, 402, 403, 404, 405, 408, 409, 411, 413, 415, 417, 421, 422, 426, 429, 431),
        *(499, 500, 501, 502, 503, 504, 520, 522, 524, 529),
    )
}
_CLASSES = range(1, 6)
_NO_HEAD = "none"
_USUAL = {"ok": "200", "refused": "400", "upstream_error": "500", "cut_off": "200"}


def status_label(status: int) -> str:
    """Return what a status is counted under: one of a few dozen words, whatever upstream sends."""
    known = _STATUSES.get(status)
    if known is not None:
        return known
    kind = status // 100
    return f"{kind}xx" if kind in _CLASSES else "other" if status else _NO_HEAD


def usual_status(route: str, outcome: str) -> str:
    """Return the label of the status that such an exchange has as a rule."""
    if route == "websocket" and outcome in ("ok", "cut_off"):
        return "101"
    return _USUAL.get(outcome, _NO_HEAD)
