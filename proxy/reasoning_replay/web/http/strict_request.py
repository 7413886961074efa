"""
Requests that are read as HTTP, but that others might read otherwise: refused, and the line closed.

aiohttp refuses what is malformed. What is left is what the standard lets a server refuse, and what
would have to be guessed at: whoever stands in front may have guessed differently. Nor is it
understood then what comes behind on the connection, so each of these faults ends it.
"""

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web

from reasoning_replay.web.errors import BAD_TARGET, ErrorResponse, ProxyError

__all__ = ["require_well_formed"]

_UNKNOWN_CODING = ErrorResponse(
    501,
    "unknown_transfer_coding",
    "The request's Transfer-Encoding is not understood; use chunked, or Content-Length.",
    ends=True,
)
_UNKNOWN_VERSION = ErrorResponse(
    505, "unknown_http_version", "This is spoken to in HTTP/1.1 or HTTP/1.0 alone.", ends=True
)


def require_well_formed(request: web.BaseRequest) -> None:
    """
    Refuse what could be taken for something else.

    Raises:
        ProxyError: Another version (RFC 9110, 2.5), a coding besides `chunked`, which would be
            taken off with it and never told (RFC 9112, 6.1), or a target that is not a path: one
            with a fragment is none, and would lose it (RFC 9112, 3.2.1).
    """
    if request.version not in (HttpVersion10, HttpVersion11):
        raise ProxyError(_UNKNOWN_VERSION)
    codings = request.headers.getall(hdrs.TRANSFER_ENCODING, [])
    if codings and [coding.lower() for coding in codings] != ["chunked"]:
        raise ProxyError(_UNKNOWN_CODING)
    if not request.raw_path.startswith("/") or "#" in request.raw_path:
        raise ProxyError(BAD_TARGET)
