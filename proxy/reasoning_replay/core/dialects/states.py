"""Exchange states: the fixed words for the result of an exchange, used as labels and log values."""

from enum import StrEnum


class Route(StrEnum):
    """
    How the proxy treats an exchange; also the label that it is counted under.

    A dialect may have routes with other names, in its own table.
    """

    RESPONSES = "responses"  # POST …/responses: replay and capture
    COMPACT = "compact"  # POST …/responses/compact: replay
    INPUT_TOKENS = "input_tokens"  # POST …/responses/input_tokens: replay
    RETRIEVE = "retrieve"  # GET …/responses/{id}: capture
    WEBSOCKET = "websocket"  # one whole WebSocket, from its handshake to its close
    CREATE = "create"  # one response.create of a WebSocket, and its response: replay and capture
    CHAT = "chat"  # POST …/chat/completions: replay and capture
    MESSAGES = "messages"  # POST …/messages, and its names in the clouds: replay and capture
    COUNT_TOKENS = "count_tokens"  # POST …/messages/count_tokens: replay

    # Passed through: well-known paths, so that a client of another API is recognised.
    RESPONSES_OTHER = "responses_other"  # other requests under …/responses: delete, cancel, list
    CHAT_OTHER = "chat_other"  # other requests under …/chat/completions: fetch, list, delete
    COMPLETIONS = "completions"
    MESSAGES_OTHER = "messages_other"  # other requests under …/messages: batches
    ASSISTANTS = "assistants"
    THREADS = "threads"
    CONVERSATIONS = "conversations"
    CONTAINERS = "containers"
    REALTIME = "realtime"
    EMBEDDINGS = "embeddings"
    MODERATIONS = "moderations"
    MODELS = "models"
    FILES = "files"
    UPLOADS = "uploads"
    VECTOR_STORES = "vector_stores"
    IMAGES = "images"
    VIDEOS = "videos"
    AUDIO = "audio"
    BATCHES = "batches"
    FINE_TUNING = "fine_tuning"
    EVALS = "evals"
    OTHER = "other"  # any other path


class RequestState(StrEnum):
    """State of a request on a replayed route at the time when it was sent."""

    PLANNED = "planned"  # parsed, looked up and decided; items_total counts the results
    STATEFUL = "stateful"  # the upstream holds the history itself
    NO_SCOPE = "no_scope"  # no credential, so nothing is stored or injected
    UNREADABLE = "unreadable"  # not JSON, or JSON on which parsers could disagree
    ENCODED = "encoded"  # a Content-Encoding that cannot be decoded: unknown or damaged
    # Over inspect_max_bytes, a WebSocket limit, or the limit of items or values.
    TOO_LARGE = "too_large"
    # inspect_total_max_bytes, or the threads for long work, were used up: forwarded unedited.
    BUSY = "busy"
    STORE_FAILED = "store_failed"  # the store failed, or is not asked because it failed before
    BUDGET_EXCEEDED = "budget_exceeded"  # the store did not respond within store_budget_ms
    FAILED = "failed"  # a fault of the proxy: forwarded unchanged
    OFF = "off"  # mode: off


class RequestKind(StrEnum):
    """What became of the reasoning that a client left out of a request."""

    INJECTED = "injected"  # at least one item was injected
    LACKING = "lacking"  # some is lacking, and none was injected
    WHOLE = "whole"  # nothing was left out


class Way(StrEnum):
    """How a request was decided on: after what is known, or why with nothing decided."""

    SHORT = "short"  # only what follows a known prefix was read and decided
    NEW = "new"  # no known prefix begins it
    FORGOTTEN = "forgotten"  # one did, and was evicted for lack of room (local_max_bytes)
    TOO_LARGE = "too_large"  # the conversation alone is larger than local_max_bytes
    OTHER_FORM = "other_form"  # more differs than its last items, or these hold reasoning
    REFUSED = "refused"  # upstream has refused something since, or an hour after it is over
    OTHER_TURNS = "other_turns"  # a conversation that was used has changed, or is not found
    OTHER_ITEMS = "other_items"  # what is new belongs to what is known, or contradicts it
    BOUND = "bound"  # the reasoning is bound to another history


class CaptureState(StrEnum):
    """State of the capture of a response on a captured route."""

    SAVED = "saved"
    LATE = "late"  # the store has not confirmed yet; the save continues
    NOTHING = "nothing"  # no item by which a turn could be matched
    STORE_FAILED = "store_failed"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    FAILED = "failed"
    REFUSED = "refused"  # not a 2xx response
    DELETED = "deleted"  # an operator has deleted the conversation since the request
    BUSY = "busy"  # inspect_total_max_bytes, or the threads for long work, were used up


class ExchangeOutcome(StrEnum):
    """How an exchange ended. The proxy's own errors are counted under their error code instead."""

    OK = "ok"
    REFUSED = "refused"  # 4xx
    UPSTREAM_ERROR = "upstream_error"  # 5xx
    CUT_OFF = "cut_off"  # upstream broke off after the head of the response
    CLIENT_GONE = "client_gone"  # the client left before the end
    CLIENT_STALLED = "client_stalled"  # the client stopped reading


class ErrorCause(StrEnum):
    """Why the upstream sent no response, or only a part of one; or `bug`."""

    DNS = "dns"  # its name was not resolved
    REFUSED = "refused"  # nothing listens at its address
    UNREACHABLE = "unreachable"  # any other failure to connect
    TLS = "tls"  # no TLS at its port, or no common version
    CERTIFICATE = "certificate"  # its certificate is not accepted
    PROXY = "proxy"  # the HTTP proxy in between could not be reached, or refused
    CONNECT_TIMEOUT = "connect_timeout"
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    READ_TIMEOUT = "read_timeout"  # it stopped sending its response, or reading the request
    TOTAL_TIMEOUT = "total_timeout"
    CLOSED = "closed"  # it closed the connection
    LOST = "lost"  # nothing arrives from it, not even an acknowledgement
    PROTOCOL = "protocol"  # its response is not valid HTTP
    BUG = "bug"  # of the proxy
