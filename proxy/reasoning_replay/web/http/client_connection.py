"""
Client connection: aiohttp's protocol for one client, with limits and JSON errors.

aiohttp limits each line of a head, but not their total, and it lets an exchange wait for the rest
of a body that turned out to be malformed. Both are fixed here. Private parts of aiohttp that
are used elsewhere are in the page on design. Here they are `_messages`, `_upgraded` and
`_buffer_paused` of its protocol, and `status` and `exc` of the errors in `_messages`, with their
texts. A test names each of them.
"""

import asyncio
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from aiohttp import EMPTY_PAYLOAD, StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMethod, BadStatusLine, LineTooLong
from typing_extensions import override

from reasoning_replay.adapters.upstream.connection import ConnectionState
from reasoning_replay.web.errors import (
    BUG,
    HEAD_TOO_LARGE,
    MALFORMED,
    NO_HTTP2,
    NO_TLS,
    UNKNOWN_METHOD,
    UNKNOWN_VERSION,
    ErrorResponse,
    OwnResponse,
    ProxyError,
    amount,
    as_bytes,
    as_response,
    readable,
)

# Largest request line and headers together. Most servers and gateways allow 8 to 32 KiB, so a
# larger limit would help no client.
HEAD_MAX_BYTES: Final = 64 * 1024
_HEAD_TOO_LARGE: Final = HEAD_TOO_LARGE.filled(most=amount(HEAD_MAX_BYTES))
# How long a client may take to read the error response to an unreadable request.
LINGER_S = 1.0
# A FIN within this time after the last byte of a request belongs to the request: programs that send
# one and then only read, such as `nc -N`, close their side at once. People and programs that leave
# take longer. Their FIN looks the same, and it must cancel the upstream, which costs money.
HALF_CLOSE_S = 0.05
_TOO_MANY = "Too many headers"  # aiohttp has no exception class for it
# aiohttp quotes the request line in its errors: a valid one with a method, or with a version, that
# its parser does not know.
_OTHER_METHOD = re.compile(r"\bb['\"][!#$%&*+.^_`|~0-9A-Za-z-]+ \S+ HTTP/1\.[01]['\"]")
_OTHER_VERSION = re.compile(r"\bb['\"][A-Z]+ \S+ HTTP/(?!1\.[01]\b)\d\.\d\b")
# The first bytes of a TLS handshake.
_TLS = re.compile(r"Received HTTPS traffic|\bb['\"]\\x16")
_HTTP2 = "Pause on PRI"  # the first bytes of HTTP/2 without an upgrade


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """
    Limits on client connections.

    Attributes:
        idle_timeout_s: Longest wait for the complete head of the next request, and longest TLS
            handshake.
        client_timeout_s: Longest time in which a client reads nothing of a pending response.
        max_age_s: Age after which the next response closes a connection; 0: no limit.
    """

    max_connections: int
    idle_timeout_s: float
    client_timeout_s: float
    max_age_s: float


class Unreadable(Exception):
    """The rest of a request's body is malformed; `fault` is the error response."""

    def __init__(self, fault: ErrorResponse) -> None:
        super().__init__(fault.message)
        self.fault = fault


class _LingeringResponse(OwnResponse):
    """Last response to a client that may still send: an early close would reset the connection."""

    _transport: asyncio.Transport | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Keep the transport, and prepare the response."""
        self._transport = request.transport
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the end, then wait until the client closes, which cancels this, or LINGER_S."""
        await super().write_eof(data)
        if self._transport is not None:
            if self._transport.can_write_eof():
                self._transport.write_eof()
            await asyncio.sleep(LINGER_S)


class ClientConnection(web.RequestHandler):
    """
    One client's connection.

    Attributes:
        state: ACTIVE from the end of a request's head to the end of its response.
        has_stalled: Whether it was cut off because the client read nothing of a response.
        is_half_closed: Whether the client has closed its side, and still gets its response.
    """

    __slots__ = (
        "_body",
        "_head_bytes",
        "_is_over",
        "_limits",
        "_old_at_s",
        "_on_refused",
        "_read_at_s",
        "has_stalled",
        "is_half_closed",
        "state",
    )

    def __init__(
        self,
        server: web.Server,
        limits: ConnectionLimits,
        on_refused: Callable[[ErrorResponse, str], str],
        **options: Any,  # noqa: ANN401 (aiohttp's)
    ) -> None:
        """
        Start without a request.

        Args:
            server: Handles the requests.
            limits: Limits on this connection.
            on_refused: Called with the error of each request that cannot be read and the client's
                address; returns its request id.
            options: Further options of aiohttp.
        """
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            max_line_size=HEAD_MAX_BYTES,
            max_field_size=HEAD_MAX_BYTES,
            # From the end of the last response to the end of the next head.
            keepalive_timeout=limits.idle_timeout_s,
            **options,
        )
        self._limits = limits
        self._old_at_s = math.inf
        if limits.max_age_s:  # a chance, so that connections of one moment do not end in one
            age_s = limits.max_age_s * random.uniform(0.75, 1.0)  # noqa: S311 (no secret)
            self._old_at_s = asyncio.get_running_loop().time() + age_s
        self._on_refused = on_refused
        self._body: StreamReader = EMPTY_PAYLOAD  # of the newest request
        self._head_bytes = 0  # of an incomplete head
        self._read_at_s = 0.0  # the newest bytes
        self._is_over = False  # further input is dropped
        self.state = ConnectionState.NEW
        self.has_stalled = self.is_half_closed = False

    @override
    def __repr__(self) -> str:
        """Return what it says of itself, in one line."""
        return f"<ClientConnection {self.state}, from {self.peername}>"

    @property
    def is_old(self) -> bool:
        """Whether the next response shall close it."""
        return asyncio.get_running_loop().time() >= self._old_at_s

    @property
    def is_in_exchange(self) -> bool:
        """Whether the handler has a request."""
        return self.state is ConnectionState.ACTIVE

    @property
    def is_between_requests(self) -> bool:
        """Whether a response was sent and no byte of the next request has arrived."""
        return self.state is ConnectionState.IDLE and not self._head_bytes

    def begin_exchange(self, request: web.BaseRequest) -> None:
        """
        Record that the handler receives a request.

        Raises:
            ProxyError: The head exceeds the limit; the refusal is already recorded.
        """
        self.state = ConnectionState.ACTIVE
        if _head_size(request) > HEAD_MAX_BYTES:
            raise ProxyError(self._recorded(_HEAD_TOO_LARGE))

    def end_exchange(self) -> None:
        """Record that the handler has finished the request."""
        if self.state is ConnectionState.CLOSED:
            return
        self.state = ConnectionState.ACTIVE if self._messages else ConnectionState.IDLE
        if self.is_half_closed and not self._messages:
            self.close()

    # --- asyncio and aiohttp call these ---

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and count those of an incomplete head."""
        if self._is_over:
            return
        self._read_at_s = asyncio.get_running_loop().time()
        is_in_body = not self._body.is_eof()
        queued = len(self._messages)
        super().data_received(data)
        if len(self._messages) > queued:
            self._begin()
        elif not (is_in_body or self._upgraded or self._buffer_paused):
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_MAX_BYTES:
                self._refuse_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Record the end."""
        self.state = ConnectionState.CLOSED
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """
        Return whether the connection stays open for the response: the client closed its side only.

        If it has left all the same, the first write resets the connection.
        """
        quiet_s = asyncio.get_running_loop().time() - self._read_at_s
        is_whole = self._body.is_eof() and not (self._head_bytes or self._upgraded)
        is_tls = self.transport is not None and self.transport.get_extra_info("sslcontext")
        can_stay = self.is_in_exchange and is_whole and not (self._is_over or is_tls)
        self.is_half_closed = can_stay and quiet_s < HALF_CLOSE_S
        return self.is_half_closed

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = BUG.status,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 (it quotes what the client sent)
    ) -> web.StreamResponse:
        """Return the response to an unreadable request, or to a failure of the handler."""
        if request.writer.output_size > 0:
            raise ConnectionError  # the response has begun: aiohttp closes the connection
        if status == BUG.status:
            response = as_response(readable(BUG, request))
        else:
            fault = self._recorded(self._fault_of(status, exc))
            response = as_response(readable(fault, request), _LingeringResponse)
        response.force_close()
        return response

    # --- heads ---

    def _begin(self) -> None:
        """Update the state after one or more heads have been completed."""
        self.state, self._head_bytes = ConnectionState.ACTIVE, 0
        before = self._body
        newest, self._body = self._messages[-1]
        if isinstance(newest, RawRequestMessage):
            return
        self._is_over = True  # no request can follow an unreadable one
        newest.exc.__traceback__ = None  # it holds the input, and is kept until the last response
        if not before.is_eof():
            # The error is in a body, not a head: aiohttp would let the exchange wait for the rest.
            before.set_exception(Unreadable(self._fault_of(newest.status, newest.exc)))

    def _refuse_head(self) -> None:
        """Reject a head that exceeds the limit before its end; nothing is read after it."""
        self._is_over = True
        fault = self._recorded(_HEAD_TOO_LARGE)
        if not self.is_in_exchange and self.transport is not None:
            self.transport.write(as_bytes(fault))
            self.force_close()
        else:
            self.close()  # when the exchange in progress has ended

    def _recorded(self, fault: ErrorResponse) -> ErrorResponse:
        peer = self.peername
        client = str(peer[0]) if isinstance(peer, tuple) else ""
        return fault._replace(request_id=self._on_refused(fault, client))

    def _fault_of(self, status: int, error: BaseException | None) -> ErrorResponse:
        text = str(error)
        # In this order, the first one counts.
        signs = {
            _HEAD_TOO_LARGE: isinstance(error, LineTooLong) or _TOO_MANY in text,
            UNKNOWN_METHOD: isinstance(error, BadHttpMethod) and _OTHER_METHOD.search(text),
            NO_TLS: isinstance(error, BadHttpMethod) and _TLS.search(text),
            NO_HTTP2: _HTTP2 in text,
            UNKNOWN_VERSION: isinstance(error, BadStatusLine) and _OTHER_VERSION.search(text),
        }
        malformed = MALFORMED._replace(status=status)
        return next((fault for fault, is_shown in signs.items() if is_shown), malformed)


def _head_size(request: web.BaseRequest) -> int:
    """Return the size of a head in bytes, in its usual spelling (`Name: value`, CRLF)."""
    line = len(request.method) + len(request.raw_path) + len("  HTTP/1.1\r\n")
    fields = request.raw_headers
    return line + sum(map(len, chain.from_iterable(fields))) + 4 * len(fields) + len("\r\n")
