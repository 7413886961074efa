"""
Strict requests: rejection of requests that aiohttp accepts, but servers may parse differently.

aiohttp rejects malformed requests. HTTP allows a server to reject ambiguous ones, too. If a proxy
in front of this one reads an ambiguous request differently, an attacker can smuggle a second
request. Each of these errors closes the connection, because the bytes that follow cannot be
trusted either.
"""

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web

from reasoning_replay.web.errors import BAD_TARGET, UNKNOWN_VERSION, ErrorResponse, ProxyError

_UNKNOWN_CODING = ErrorResponse(
    501,
    "unknown_transfer_coding",
    "The request's Transfer-Encoding is not supported; use chunked, or Content-Length.",
    ends=True,
)


def require_well_formed(request: web.BaseRequest) -> None:
    """
    Reject a request that could be parsed in more than one way.

    Raises:
        ProxyError: The version is not HTTP/1.0 or 1.1 (RFC 9110, 2.5). Or the transfer coding is
            not `chunked`; the parser would remove it silently (RFC 9112, 6.1). Or the target is
            not a path, or has a fragment, which would be lost (RFC 9112, 3.2.1).
    """
    if request.version not in (HttpVersion10, HttpVersion11):
        raise ProxyError(UNKNOWN_VERSION)
    codings = request.headers.getall(hdrs.TRANSFER_ENCODING, [])
    if codings and [coding.lower() for coding in codings] != ["chunked"]:
        raise ProxyError(_UNKNOWN_CODING)
    if not request.raw_path.startswith("/") or "#" in request.raw_path:
        raise ProxyError(BAD_TARGET)
