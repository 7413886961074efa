"""
Which headers end at this hop. Everything else goes on: same names, same values, same order.

https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1
"""

from collections.abc import Iterable

from proxy.core.scope import CONVERSATION_HEADER

__all__ = ["Headers", "for_downstream", "for_upstream"]

Headers = list[tuple[str, str]]

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


def for_upstream(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return a request's headers as they go on, less what is written anew for the next hop."""
    return [(name, value) for name, value in _end_to_end(headers) if name.lower() not in _REWRITTEN]


def for_downstream(headers: Iterable[tuple[str, str]]) -> Headers:
    """Return an answer's headers as they go back; Content-Length among them."""
    return _end_to_end(headers)


def _end_to_end(headers: Iterable[tuple[str, str]]) -> Headers:
    given = list(headers)
    named = {
        option.strip().lower()
        for name, value in given
        if name.lower() == "connection"
        for option in value.split(",")
    }
    dropped = _HOP_BY_HOP | named
    return [(name, value) for name, value in given if name.lower() not in dropped]
