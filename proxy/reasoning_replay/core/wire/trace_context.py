"""
What a trace is told by: the header that names a request's parent, and words fit to stand in a span.

https://www.w3.org/TR/trace-context/
"""

import re
from typing import NamedTuple

from reasoning_replay.core.wire.headers import Headers, without

__all__ = ["Parent", "fit_id", "fit_method", "fit_model", "naming", "parent_of", "spelled"]

_PARENT, _STATE = b"traceparent", b"tracestate"
_FORM = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?",
    re.DOTALL,
)
_METHODS = frozenset(
    {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}
)
# Names of models and ids of responses are whatever a client and an upstream write.
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+=-]{0,255}")


class Parent(NamedTuple):
    """
    The span that a request is part of, in somebody else's process.

    Attributes:
        flags: 8 bits; the lowest says that it is sampled.
    """

    trace_id: int
    span_id: int
    flags: int


def parent_of(headers: Headers) -> Parent | None:
    """Return what a request's headers name as its parent; None when it is none, or no valid one."""
    given = [value for name, value in headers if name.lower() == _PARENT]
    found = _FORM.fullmatch(given[0]) if len(given) == 1 else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"00" and more is not None:
        return None  # what a later version may have behind it, this one has not
    return Parent(int(trace_id, 16), int(span_id, 16), int(flags, 16))


def spelled(trace_id: int, span_id: int, flags: int) -> bytes:
    """Spell a parent as the header has it."""
    return b"00-%032x-%016x-%02x" % (trace_id, span_id, flags)


def naming(headers: Headers, parent: bytes, *, goes_on: bool) -> Headers:
    """
    Return headers that name a parent; it stands where the client's stood, under the same name.

    Args:
        headers: As they would go out.
        parent: As `spelled`.
        goes_on: Whether it is of the trace that the headers told of. If it is not, what they
            have noted of that trace is left out: it would be said of another one.
    """
    at = next((at for at, (name, _) in enumerate(headers) if name.lower() == _PARENT), None)
    if at is None:
        named = [*headers, (_PARENT, parent)]
    else:
        named = [*headers[:at], (headers[at][0], parent), *without(headers[at + 1 :], _PARENT)]
    return named if goes_on else without(named, _STATE)


def fit_method(method: str) -> str:
    """Return a request's method as spans have it: those that nobody knows are all one."""
    return method if method in _METHODS else "_OTHER"


def fit_model(name: str) -> str:
    """Return a model's name; "" when it does not look like one."""
    return name if _MODEL.fullmatch(name) else ""


def fit_id(given: str) -> str:
    """Return the id of a response; "" when it does not look like one."""
    return given if _ID.fullmatch(given) else ""
