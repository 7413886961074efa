"""
Headers: removal of the headers that end at this hop; all others are forwarded in order.

https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1

Accept-Encoding is changed, only if the proxy must read the response; and the headers that name the
parent span, only if the proxy is traced.

Headers are raw bytes, so a value in an unknown character set is forwarded as well.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress
from operator import itemgetter, not_

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
_NAME = itemgetter(0)
_CONNECTION = b"connection"
_LENGTH = b"content-length"
_ACCEPT_ENCODING = b"accept-encoding"
TRACEPARENT, _TRACE_STATE = b"traceparent", b"tracestate"
_WEIGHT_OF_ZERO = re.compile(rb"\s*q\s*=\s*0(\.0*)?\s*", re.IGNORECASE)


# Returns a header as a line of a head.
as_line = b"%b: %b\r\n".__mod__


def for_upstream(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return a request's headers without those that end here or are rewritten for the next hop."""
    return _without_hops(headers, _NOT_SENT)


def for_downstream(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """Return a response's headers without those that end here; Content-Length is kept."""
    return _without_hops(headers, _NOT_PASSED)


def without(headers: Headers, name: bytes) -> Headers:
    """Return headers without any of this name; `name` in lower case."""
    return list(compress(headers, map(name.__ne__, _names(headers))))


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
    names = _names(headers)
    if _ACCEPT_ENCODING not in names:
        return headers
    first = names.index(_ACCEPT_ENCODING)
    name, accepted = headers[first]
    rest = headers[first + 1 :]
    if names.count(_ACCEPT_ENCODING) > 1:
        accepted = b",".join([value for given, value in headers if given.lower() == names[first]])
        rest = without(rest, _ACCEPT_ENCODING)
    if _refuses_identity(accepted):
        return headers
    return [*headers[:first], (name, b"identity"), *rest]


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


def _without_hops(headers: Sequence[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> Headers:
    names = _names(headers)
    if _CONNECTION in names:
        named = compress(headers, map(_CONNECTION.__eq__, names))
        options = ending_here(value.decode("latin-1") for _, value in named)
        # Content-Length is kept even if Connection lists it: the receiver needs it to find the end
        # of the response.
        dropped |= {option.encode("latin-1") for option in options} - {_LENGTH}
    return list(compress(headers, map(not_, map(dropped.__contains__, names))))


def _names(headers: Iterable[tuple[bytes, bytes]]) -> list[bytes]:
    """Return the names of headers in lower case."""
    return list(map(bytes.lower, map(_NAME, headers)))
