"""Trace context: the W3C headers in which a request names its parent span."""

from reasoning_replay.core.wire.headers import Headers, without

__all__ = ["TRACEPARENT", "with_parent"]

TRACEPARENT, _STATE = b"traceparent", b"tracestate"


def with_parent(headers: Headers, parent: bytes, *, goes_on: bool) -> Headers:
    """
    Return headers that name a parent span; the client's header keeps its position and spelling.

    Args:
        headers: Headers of the outgoing request.
        parent: Value of `traceparent`.
        goes_on: Whether the parent is part of the client's trace. Otherwise `tracestate`, which
            describes that trace, is left out (https://www.w3.org/TR/trace-context/).
    """
    at = next((at for at, (name, _) in enumerate(headers) if name.lower() == TRACEPARENT), None)
    if at is None:
        named = [*headers, (TRACEPARENT, parent)]
    else:
        named = [*headers[:at], (headers[at][0], parent), *without(headers[at + 1 :], TRACEPARENT)]
    return named if goes_on else without(named, _STATE)
