"""WebSocket upgrade: detection of a handshake, its headers to the upstream, and the 101."""

from http import HTTPStatus

from aiohttp import ClientError, HttpVersion11, hdrs, web

from reasoning_replay.core.wire.headers import Headers, for_downstream
from reasoning_replay.web.errors import ErrorResponse, ProxyError

# aiohttp sends its own values of these headers on each side.
_OF_ONE_SIDE = frozenset(
    {b"sec-websocket-key", b"sec-websocket-accept", b"sec-websocket-extensions"}
)
_HANDSHAKE = (
    hdrs.UPGRADE,
    hdrs.CONNECTION,
    hdrs.SEC_WEBSOCKET_VERSION,
    hdrs.SEC_WEBSOCKET_KEY,
    hdrs.SEC_WEBSOCKET_EXTENSIONS,
)
_BAD_HANDSHAKE = ErrorResponse(
    HTTPStatus.BAD_REQUEST,
    "bad_request",
    "The WebSocket handshake is invalid: it needs Sec-WebSocket-Version 13 and a "
    "Sec-WebSocket-Key of 16 bytes in base64.",
)


def is_websocket(request: web.BaseRequest) -> bool:
    """Return whether a request asks for a WebSocket; other upgrades are ignored, as HTTP allows."""
    if request.method != hdrs.METH_GET or hdrs.UPGRADE not in request.headers:
        return False
    options = ",".join(request.headers.getall(hdrs.CONNECTION, ())).lower().split(",")
    return (
        request.version >= HttpVersion11
        and request.headers[hdrs.UPGRADE].lower() == "websocket"
        and "upgrade" in map(str.strip, options)
        and not request.body_exists
    )


def require_handshake(request: web.BaseRequest) -> None:
    """
    Check a handshake before it is sent to the upstream.

    Raises:
        ProxyError: The handshake is invalid, so it cannot be accepted with a 101.
    """
    if not web.WebSocketResponse().can_prepare(_handshake_of(request)):
        raise ProxyError(_BAD_HANDSHAKE)


def offers_compression(request: web.BaseRequest) -> bool:
    """Return whether a client offers permessage-deflate."""
    offers = request.headers.getall(hdrs.SEC_WEBSOCKET_EXTENSIONS, ())
    return "permessage-deflate" in ",".join(offers).lower()


def for_handshake(headers: Headers) -> Headers:
    """Return the end-to-end headers of a handshake, without those of one side of the proxy."""
    return [field for field in headers if field[0].lower() not in _OF_ONE_SIDE]


async def accept_upgrade(
    request: web.BaseRequest, headers: Headers, max_bytes: int, *, compresses: bool
) -> web.WebSocketResponse[bool]:
    """
    Send a 101 to the client, and return its WebSocket.

    Args:
        request: The client's handshake.
        headers: Headers of the upstream's 101, including the subprotocol.
        max_bytes: Largest message; a longer one ends the connection with code 1009.
        compresses: Whether to accept permessage-deflate.

    Raises:
        ConnectionResetError: The client has left.
    """
    socket = web.WebSocketResponse(
        autoclose=False,
        autoping=False,
        compress=compresses,
        max_msg_size=max_bytes,
        decode_text=False,
    )
    for name, value in for_handshake(for_downstream(headers)):
        socket.headers.add(name.decode("latin-1"), value.decode("utf-8", "replace"))
    try:
        await socket.prepare(_handshake_of(request))
    except ClientError as error:
        raise ConnectionResetError from error
    return socket


def _handshake_of(request: web.BaseRequest) -> web.BaseRequest:
    """Return a handshake without subprotocols: aiohttp would select one, and log their values."""
    present = (name for name in _HANDSHAKE if name in request.headers)
    try:
        return request.clone(headers={name: request.headers[name] for name in present})
    except UnicodeEncodeError:
        raise ProxyError(_BAD_HANDSHAKE) from None
