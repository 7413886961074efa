"""
Which headers end at this hop. Everything else goes on: same names, same values, same order.

https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1

One is changed, where an answer is to be read: which codings upstream may choose from.
"""

import re
from collections.abc import Iterable

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

Headers = list[tuple[str, str]]

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
_ACCEPT_ENCODING = "accept-encoding"
_WEIGHT_OF_ZERO = re.compile(r"\s*q\s*=\s*0(\.0*)?\s*", re.IGNORECASE)


def for_upstream(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return a request's headers as they go on, less what is written anew for the next hop."""
    return [(name, value) for name, value in _end_to_end(headers) if name.lower() not in _REWRITTEN]


def for_downstream(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return an answer's headers as they go back; Content-Length among them."""
    return _end_to_end(headers)


def without(headers: Headers, name: str) -> Headers:
    """Return headers less every one of a name; `name` in lower case."""
    return [(given, value) for given, value in headers if given.lower() != name]


def asking_for_identity(headers: Headers) -> Headers:
    """
    Ask for an answer that is not encoded, in place of what the request accepts.

    It stays as it is when it does not say what it accepts, which no upstream takes as a wish to
    get an encoded answer, or when it refuses identity (RFC 9110, 12.5.3).
    """
    accepted = [value for name, value in headers if name.lower() == _ACCEPT_ENCODING]
    if not accepted or _refuses_identity(accepted):
        return headers
    at = [name.lower() for name, _ in headers].index(_ACCEPT_ENCODING)
    name, _ = headers[at]
    rest = without(headers[at:], _ACCEPT_ENCODING)
    return [*headers[:at], (name, "identity"), *rest]


def is_of_one_hop(name: str) -> bool:
    """Tell whether a header of this name never goes on; `name` in lower case."""
    return name in _HOP_BY_HOP or name in _REWRITTEN


def ending_here(connection: Iterable[str]) -> set[str]:
    """Return the names of headers, in lower case, that a client's `Connection` lets end here."""
    return {option.strip().lower() for value in connection for option in value.split(",")}


def _refuses_identity(accepted: list[str]) -> bool:
    refused: dict[str, bool] = {}
    for option in ",".join(accepted).lower().split(","):
        coding, _, weight = option.partition(";")
        refused[coding.strip()] = _WEIGHT_OF_ZERO.fullmatch(weight) is not None
    return refused.get("identity", refused.get("*", False))


def _end_to_end(headers: Iterable[tuple[str, str]]) -> Headers:
    given = list(headers)
    named = ending_here(value for name, value in given if name.lower() == "connection")
    dropped = _HOP_BY_HOP | named
    return [(name, value) for name, value in given if name.lower() not in dropped]
