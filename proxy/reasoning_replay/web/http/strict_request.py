"""
Strict requests: refuse what aiohttp parses, but what another server might parse differently.

aiohttp refuses what is malformed. The standard lets a server refuse the rest, too, and anything
that has to be guessed may be guessed otherwise by a proxy in front: that is how requests are
smuggled. Each of these errors closes the connection, as what follows cannot be trusted either.
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
    505, "unknown_http_version", "Only HTTP/1.0 and HTTP/1.1 are supported.", ends=True
)


def require_well_formed(request: web.BaseRequest) -> None:
    """
    Refuse a request that could be read in more than one way.

    Raises:
        ProxyError: Another version (RFC 9110, 2.5), a transfer coding other than `chunked`, which
            the parser would remove without a trace (RFC 9112, 6.1), or a target that is not a
            path, such as one with a fragment, which would be lost (RFC 9112, 3.2.1).
    """
    if request.version not in (HttpVersion10, HttpVersion11):
        raise ProxyError(_UNKNOWN_VERSION)
    codings = request.headers.getall(hdrs.TRANSFER_ENCODING, [])
    if codings and [coding.lower() for coding in codings] != ["chunked"]:
        raise ProxyError(_UNKNOWN_CODING)
    if not request.raw_path.startswith("/") or "#" in request.raw_path:
        raise ProxyError(BAD_TARGET)
