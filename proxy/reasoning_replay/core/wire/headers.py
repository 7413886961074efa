"""
Headers: removal of the headers that end at this hop; all others are forwarded in order.

https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1

Accept-Encoding is changed, only if the proxy must read the response; and the headers that name the
parent span, only if the proxy is traced.

Headers are raw bytes, so a value in an unknown character set is forwarded as well.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

Headers = list[tuple[bytes, bytes]]

# The proxy's own header, for applications that know the name of their conversation. It is not
# forwarded.
CONVERSATION_HEADER = "x-reasoning-replay-conversation"

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "proxy-connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# Host and Content-Length are written again for the next hop. Expect was handled at this hop.
_REWRITTEN = frozenset({"host", "content-length", "expect", CONVERSATION_HEADER})
_NOT_PASSED = frozenset(name.encode() for name in _HOP_BY_HOP)
_NOT_SENT = frozenset(name.encode() for name in _HOP_BY_HOP | _REWRITTEN)
_CONNECTION = b"connection"
_LENGTH = b"content-length"
_ACCEPT_ENCODING = b"accept-encoding"
TRACEPARENT, _TRACE_STATE = b"traceparent", b"tracestate"
_WEIGHT_OF_ZERO = re.compile(rb"\s*q\s*=\s*0(\.0*)?\s*", re.IGNORECASE)


def for_upstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return a request's headers without those that end here or are rewritten for the next hop."""
    return _less(headers, _NOT_SENT)


def for_downstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return a response's headers without those that end here; Content-Length is kept."""
    return _less(headers, _NOT_PASSED)


def without(headers: Headers, name: bytes) -> Headers:
    """Return headers without any of this name; `name` in lower case."""
    return [field for field in headers if field[0].lower() != name]


def with_value(headers: Headers, name: bytes, value: bytes) -> Headers:
    """Return headers with one more value in the list of this name; `name` in lower case."""
    found = [field[1] for field in headers if field[0].lower() == name]
    return [*without(headers, name), (name, b",".join([*found, value]))]


def asking_for_identity(headers: Headers) -> Headers:
    """
    Replace Accept-Encoding by `identity`, which asks for a response without a content coding.

    Headers stay unchanged in two cases: without Accept-Encoding, because upstreams do not encode
    then; and if the client refuses `identity` (RFC 9110, 12.5.3).
    """
    at = [at for at, (name, _) in enumerate(headers) if name.lower() == _ACCEPT_ENCODING]
    if not at or _refuses_identity(b",".join([headers[index][1] for index in at])):
        return headers
    first = at[0]
    rest = headers[first + 1 :] if len(at) == 1 else without(headers[first:], _ACCEPT_ENCODING)
    return [*headers[:first], (headers[first][0], b"identity"), *rest]


def with_parent(headers: Headers, parent: bytes, *, goes_on: bool) -> Headers:
    """
    Return headers that name a parent span; the client's header keeps its position and spelling.

    Unless the trace goes on, the parent is not part of the client's trace. Then `tracestate`, which
    describes that trace, is left out (https://www.w3.org/TR/trace-context/).
    """
    at = next((at for at, (name, _) in enumerate(headers) if name.lower() == TRACEPARENT), None)
    if at is None:
        named = [*headers, (TRACEPARENT, parent)]
    else:
        named = [*headers[:at], (headers[at][0], parent), *without(headers[at + 1 :], TRACEPARENT)]
    return named if goes_on else without(named, _TRACE_STATE)


def is_of_one_hop(name: str) -> bool:
    """Return whether a header of this name is never forwarded; `name` in lower case."""
    return name in _HOP_BY_HOP or name in _REWRITTEN


def ending_here(connection: Iterable[str]) -> set[str]:
    """Return the header names that `Connection` values list, in lower case: they end here."""
    return {option.strip().lower() for value in connection for option in value.split(",")}


@lru_cache(maxsize=64)  # clients send few different values
def _refuses_identity(accepted: bytes) -> bool:
    refused: dict[bytes, bool] = {}
    for option in accepted.lower().split(b","):
        coding, _, weight = option.partition(b";")
        refused[coding.strip()] = _WEIGHT_OF_ZERO.fullmatch(weight) is not None
    return refused.get(b"identity", refused.get(b"*", False))


def _less(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Headers:
    kept: Headers = []
    named: list[str] = []
    for field in headers:
        name = field[0].lower()
        if name not in dropped:
            kept.append(field)
        elif name == _CONNECTION:
            named.append(field[1].decode("latin-1"))
    if named:
        # Content-Length is kept even if Connection lists it: the receiver needs it to find the end
        # of the response.
        ends = {option.encode("latin-1") for option in ending_here(named)} - {_LENGTH}
        kept = [field for field in kept if field[0].lower() not in ends]
    return kept
