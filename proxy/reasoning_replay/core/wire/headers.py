"""
Headers: which of them end at this hop. All others are forwarded unchanged and in order.

https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1

One is changed, where an answer is to be read: which codings upstream may choose from.

Headers are bytes here, as they came: what is no text in any coding that we know goes on as well.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = [
    "CONVERSATION_HEADER",
    "Headers",
    "asking_for_identity",
    "ending_here",
    "for_downstream",
    "for_upstream",
    "is_of_one_hop",
    "without",
]

Headers = list[tuple[bytes, bytes]]

# Ours, for applications that know their conversation's name; it is not sent on.
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
# Host and Content-Length are written anew for the next hop; Expect was answered at this one.
_REWRITTEN = frozenset({"host", "content-length", "expect", CONVERSATION_HEADER})
_NOT_PASSED = frozenset(name.encode() for name in _HOP_BY_HOP)
_NOT_SENT = frozenset(name.encode() for name in _HOP_BY_HOP | _REWRITTEN)
_CONNECTION = b"connection"
_LENGTH = b"content-length"
_ACCEPT_ENCODING = b"accept-encoding"
_WEIGHT_OF_ZERO = re.compile(rb"\s*q\s*=\s*0(\.0*)?\s*", re.IGNORECASE)


def for_upstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return a request's headers as they go on, less what is written anew for the next hop."""
    return _less(headers, _NOT_SENT)


def for_downstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return an answer's headers as they go back; Content-Length among them."""
    return _less(headers, _NOT_PASSED)


def without(headers: Headers, name: bytes) -> Headers:
    """Return headers less every one of a name; `name` in lower case."""
    return [field for field in headers if field[0].lower() != name]


def asking_for_identity(headers: Headers) -> Headers:
    """
    Ask for an answer that is not encoded, in place of what the request accepts.

    It stays as it is when it does not say what it accepts, which no upstream takes as a wish to
    get an encoded answer, or when it refuses identity (RFC 9110, 12.5.3).
    """
    at = [at for at, (name, _) in enumerate(headers) if name.lower() == _ACCEPT_ENCODING]
    if not at or _refuses_identity(b",".join([headers[index][1] for index in at])):
        return headers
    first = at[0]
    rest = headers[first + 1 :] if len(at) == 1 else without(headers[first:], _ACCEPT_ENCODING)
    return [*headers[:first], (headers[first][0], b"identity"), *rest]


def is_of_one_hop(name: str) -> bool:
    """Tell whether a header of this name never goes on; `name` in lower case."""
    return name in _HOP_BY_HOP or name in _REWRITTEN


def ending_here(connection: Iterable[str]) -> set[str]:
    """Return the names of headers, in lower case, that a client's `Connection` lets end here."""
    return {option.strip().lower() for value in connection for option in value.split(",")}


@lru_cache(maxsize=64)  # clients all say the same
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
        # The length is no option of one hop: without it nobody knows where an answer ends.
        ends = {option.encode("latin-1") for option in ending_here(named)} - {_LENGTH}
        kept = [field for field in kept if field[0].lower() not in ends]
    return kept
