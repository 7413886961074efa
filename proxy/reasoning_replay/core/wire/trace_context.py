"""Trace context: the header in which a request names the span that it is part of (W3C)."""

from reasoning_replay.core.wire.headers import Headers, without

__all__ = ["TRACEPARENT", "with_parent"]

TRACEPARENT, _STATE = b"traceparent", b"tracestate"


def with_parent(headers: Headers, parent: bytes, *, goes_on: bool) -> Headers:
    """
    Return headers that name a parent span, in the place and under the name of the client's header.

    Args:
        headers: The headers that would be sent.
        parent: The value of `traceparent`.
        goes_on: Whether the parent is part of the client's trace. Otherwise `tracestate`, which
            describes that trace, is left out (https://www.w3.org/TR/trace-context/).
    """
    at = next((at for at, (name, _) in enumerate(headers) if name.lower() == TRACEPARENT), None)
    if at is None:
        named = [*headers, (TRACEPARENT, parent)]
    else:
        named = [*headers[:at], (headers[at][0], parent), *without(headers[at + 1 :], TRACEPARENT)]
    return named if goes_on else without(named, _STATE)
