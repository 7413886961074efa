"""States: the fixed words for what becomes of an exchange, which are also labels and log values."""

from collections.abc import Set as AbstractSet
from enum import StrEnum

__all__ = [
    "CAPTURED_ROUTES",
    "REPLAYED_ROUTES",
    "CaptureState",
    "ExchangeOutcome",
    "RequestState",
    "Route",
]


class Route(StrEnum):
    """What an exchange is to the proxy; also the label that it is counted under."""

    RESPONSES = "responses"  # POST …/responses: replay and capture
    COMPACT = "compact"  # POST …/responses/compact: replay
    INPUT_TOKENS = "input_tokens"  # POST …/responses/input_tokens: replay
    RETRIEVE = "retrieve"  # GET …/responses/{id}: capture
    WEBSOCKET = "websocket"  # a whole WebSocket, from its handshake to its end
    CREATE = "create"  # one response.create of a WebSocket, and its answer: replay and capture
    OTHER = "other"  # passes through


REPLAYED_ROUTES: AbstractSet[str] = frozenset(
    {Route.RESPONSES, Route.COMPACT, Route.INPUT_TOKENS, Route.CREATE}
)
# On these a response is made, so what it says of itself is counted.
CAPTURED_ROUTES: AbstractSet[str] = frozenset({Route.RESPONSES, Route.CREATE})


class RequestState(StrEnum):
    """What became of a request on a replayed route before it was sent."""

    PLANNED = "planned"  # read, looked up and decided; what came of it is in items_total
    STATEFUL = "stateful"  # the upstream holds the history itself
    NO_SCOPE = "no_scope"  # no credential, so nothing is kept or injected
    UNREADABLE = "unreadable"  # not JSON, or JSON that readers could disagree on
    ENCODED = "encoded"  # a Content-Encoding that cannot be undone: unknown or damaged
    TOO_LARGE = "too_large"  # over inspect_max_bytes, decoded_max_bytes or a WebSocket's bounds
    BUSY = "busy"  # inspect_total_max_bytes was used up: sent on unread
    STORE_FAILED = "store_failed"  # the store failed, or is not asked because it did
    BUDGET_EXCEEDED = "budget_exceeded"  # the wait for the store was over (store_budget_ms)
    FAILED = "failed"  # a fault of the proxy: sent as it came
    OFF = "off"  # mode: off


class CaptureState(StrEnum):
    """What became of an answer on a captured route."""

    SAVED = "saved"
    LATE = "late"  # the store had not confirmed yet; the save goes on
    NOTHING = "nothing"  # no item to recognise a turn by
    STORE_FAILED = "store_failed"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    REFUSED = "refused"  # not a 2xx answer


class ExchangeOutcome(StrEnum):
    """How an exchange ended. The proxy's own errors are told by their code instead."""

    OK = "ok"
    REFUSED = "refused"  # 4xx
    UPSTREAM_ERROR = "upstream_error"  # 5xx
    CUT_OFF = "cut_off"  # broken off after the head of the answer
    CLIENT_GONE = "client_gone"  # the client left before the end
    CLIENT_STALLED = "client_stalled"  # the client stopped reading
