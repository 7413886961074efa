"""
Error responses of the proxy itself: OpenAI's JSON error shape, and a header that marks them.

For clients of Anthropic's API the shape has one more member, which makes it that of Anthropic's.

Each message names the event, the place and the way out. docs/words.md lists the codes.
"""

import json
from http import HTTPStatus
from typing import NamedTuple, Self

from aiohttp import hdrs, web

from reasoning_replay.adapters.upstream.causes import REMEDIES
from reasoning_replay.adapters.upstream.client import UpstreamError, cause_of, reason_of
from reasoning_replay.core.dialects.registry import WITH_ERROR_EVENTS
from reasoning_replay.core.dialects.states import ErrorCause

# On replayed routes this header reports the result; on errors, it marks the proxy's own responses.
MARK = "x-reasoning-replay"
# Every response carries the id of its exchange in the log under this name.
REQUEST_ID = "x-reasoning-replay-request-id"
# With `overhead_header: on`, responses of the upstream have the time that the proxy added.
OVERHEAD = "x-reasoning-replay-overhead-ms"
# What scripts of a page may read in addition to the headers that browsers always show.
EXPOSE = "Access-Control-Expose-Headers"
EXPOSED = f"{MARK}, {REQUEST_ID}"
# A page of any origin may read an error of the proxy: it contains nothing of a tenant. Without
# these, an app in a browser sees only that the request failed.
_CORS = {
    "Access-Control-Allow-Origin": "*",
    EXPOSE: f"{EXPOSED}, Retry-After",
    "Vary": "Origin",
}
_JSON = "application/json"
# Exchanges last from a second to many minutes, so any number is a guess; clients double it.
RETRY_AFTER_S = 1
_MIB = 1024 * 1024


class ErrorResponse(NamedTuple):
    """
    An error response, before it is written.

    Attributes:
        status: HTTP status.
        code: Machine-readable code; also in the header that marks the error.
        message: What happened, where, and the way out, for people.
        retry_after_s: Value of `Retry-After` in seconds; 0 omits the header.
        ends: Whether the connection is closed after it, because the rest of a request is not read.
        request_id: Id of the exchange in the log; "" if the error has no log line.
        is_event: Whether the body has a type of its own, `error`, as Anthropic's errors have.
        has_origin: Whether the request has an `Origin`, as those of browsers.
        cause, detail: Why the upstream failed, for the log only: an ErrorCause, and the place with
            the reason; "" for other errors, which have no cause but their code.
    """

    status: int
    code: str
    message: str
    retry_after_s: int = 0
    ends: bool = False
    request_id: str = ""
    is_event: bool = False
    has_origin: bool = False
    cause: str = ""
    detail: str = ""

    def filled(self, **values: object) -> Self:
        """Return it with these values in its texts."""
        return self._replace(
            message=self.message.format_map(values), detail=self.detail.format_map(values)
        )


class ProxyError(Exception):
    """End of an exchange by an error response of the proxy."""

    def __init__(self, fault: ErrorResponse) -> None:
        """Keep the response in `fault`."""
        super().__init__(fault.message)
        self.fault = fault


# --- the proxy ---

BUG = ErrorResponse(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "proxy_failed",
    "The proxy failed on this request because of a bug in the proxy. Try again; to bypass the "
    "proxy, set the base URL to the upstream's.",
)
DRAINING = ErrorResponse(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "draining",
    "This replica of the proxy is shutting down and accepts no new WebSockets. Try again: another "
    "replica, or the restarted one, will respond.",
    retry_after_s=1,
    ends=True,
)

# --- requests that cannot be read ---

BAD_TARGET = ErrorResponse(
    HTTPStatus.BAD_REQUEST,
    "bad_target",
    "The request target is not a plain path. This is a reverse proxy: set its URL as "
    "OPENAI_BASE_URL, not as HTTP_PROXY.",
    ends=True,
)
ADMIN_PORT = ErrorResponse(
    HTTPStatus.NOT_FOUND,
    "admin_port",
    "This is the admin port of the proxy, which forwards nothing. The base URL for clients is "
    "{base_url}.",
)
CLIENTS_PORT = ErrorResponse(
    HTTPStatus.NOT_FOUND,
    "clients_port",
    "This is the port for clients of the proxy. Metrics, probes and the inspector are on its admin "
    "port, {admin_url} (admin_listen).",
)
FOREIGN_KEY = ErrorResponse(
    HTTPStatus.BAD_REQUEST,
    "foreign_key",
    "The key of this request is one of {issuer}, but this proxy forwards to {upstream}, which "
    "refuses such keys. The key was not sent there. Set upstream_url to the API of {issuer}, set "
    "the base URL of this client to a proxy or an upstream (`upstreams`) for that API, or use a "
    "key for {upstream}. "
    "`foreign_keys: forward` switches this off.",
)
UNKNOWN_UPSTREAM = ErrorResponse(
    HTTPStatus.NOT_FOUND,
    "unknown_upstream",
    "This proxy has several upstreams, and the path must begin with the name of one: {names}. Add "
    "it to the base URL of the client, as in {base_url}.",
)
UNKNOWN_METHOD = ErrorResponse(
    HTTPStatus.NOT_IMPLEMENTED,
    "unknown_method",
    "The proxy does not know the method of this request, so it cannot forward it. Methods are "
    "case-sensitive: GET and POST are known, and get and post are not.",
    ends=True,
)
UNKNOWN_VERSION = ErrorResponse(
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
    "unknown_http_version",
    "Only HTTP/1.0 and HTTP/1.1 are supported.",
    ends=True,
)
MALFORMED = ErrorResponse(
    HTTPStatus.BAD_REQUEST,
    "bad_request",
    "The request is not valid HTTP: its request line, a header or a chunk of its body is "
    "malformed. Check the client, and any proxy between the client and this one.",
    ends=True,
)

NO_TLS = ErrorResponse(
    HTTPStatus.BAD_REQUEST,
    "no_tls",
    "The client speaks TLS, and this port does not: write http:// and not https:// in the base URL "
    "of the client, or set tls_cert_file and tls_key_file.",
    ends=True,
)
NO_HTTP2 = ErrorResponse(
    HTTPStatus.HTTP_VERSION_NOT_SUPPORTED,
    "no_http2",
    "The client speaks HTTP/2 without having asked whether this port does: only HTTP/1.0 and "
    "HTTP/1.1 are supported. Switch HTTP/2 off in the client, or in the gateway before the proxy.",
    ends=True,
)

# --- limits: each message is filled in with the limit ---

TOO_MANY_CONNECTIONS = ErrorResponse(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too_many_connections",
    "The proxy has reached its limit of {most} connections (max_connections). Try again in a "
    "moment; use fewer connections, raise the limit or run more replicas.",
    RETRY_AFTER_S,
    ends=True,
)
TOO_MANY_EXCHANGES = ErrorResponse(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "too_many_exchanges",
    "The proxy has reached its limit of {most} exchanges in flight (max_exchanges). Try again "
    "in a moment; raise the limit or run more replicas.",
    RETRY_AFTER_S,
)
TENANT_BUSY = ErrorResponse(
    HTTPStatus.TOO_MANY_REQUESTS,
    "tenant_too_many_exchanges",
    "This tenant has reached its limit of {most} exchanges in flight (tenant_max_exchanges). "
    "Try again when one of them has ended, or raise the limit.",
    RETRY_AFTER_S,
)
BODY_TOO_LARGE = ErrorResponse(
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "body_too_large",
    "The request body has {size} or more; the limit is {most} (body_max_bytes). Shorten the input "
    "or raise the limit.",
    ends=True,
)
HEAD_TOO_LARGE = ErrorResponse(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    "head_too_large",
    "The request line and headers exceed {most}, or there are more than 128 headers. Send fewer or "
    "shorter headers.",
    ends=True,
)
BODY_TIMEOUT = ErrorResponse(
    HTTPStatus.REQUEST_TIMEOUT,
    "body_timeout",
    "The client sent no part of the request body for {most_s:g} s (client_timeout_s). Try again, "
    "or raise the limit.",
    ends=True,
)
TOTAL_TIMEOUT = ErrorResponse(
    HTTPStatus.GATEWAY_TIMEOUT,
    "upstream_timeout",
    "{upstream} did not answer in time (the exchange took {most_s:g} s). Try again, or raise "
    "total_timeout_s if the upstream needs longer.",
    cause=ErrorCause.TOTAL_TIMEOUT,
    detail="{upstream}: {most_s:g} s",
)

# --- the upstream ---


def upstream_error(error: UpstreamError, upstream: str, via: str = "") -> ErrorResponse:
    """
    Return the error for an upstream that sent no response.

    Args:
        error: Cause of the failure.
        upstream: Scheme and authority of the upstream.
        via: Phrase that names the HTTP proxy in between; "" if there is none.
    """
    cause = cause_of(error)
    told = _UPSTREAM_ERRORS.get(error.source, _UPSTREAM_FAILED)._replace(
        cause=cause, detail="{upstream}{via}: {reason}"
    )
    return told.filled(
        upstream=upstream,
        via=via,
        reason=reason_of(error),
        setting=error.setting,
        remedy=REMEDIES.get(cause, ""),
    )


_UPSTREAM_UNREACHABLE = ErrorResponse(
    HTTPStatus.BAD_GATEWAY,
    "upstream_unreachable",
    "{upstream} could not be reached{via} ({reason}): {remedy} On the machine of the proxy, "
    "`reasoning-replay check` tests it.",
)
# By the source of the failure.
_UPSTREAM_ERRORS = {
    "timeout": ErrorResponse(
        HTTPStatus.GATEWAY_TIMEOUT,
        "upstream_timeout",
        "{upstream} did not answer in time{via} ({reason}). Try again, or raise {setting} if the "
        "upstream needs longer.",
    ),
    "proxy": _UPSTREAM_UNREACHABLE,
    "connect": _UPSTREAM_UNREACHABLE,
}
_UPSTREAM_FAILED = ErrorResponse(
    HTTPStatus.BAD_GATEWAY,
    "upstream_failed",
    "{upstream} sent no valid response{via} ({reason}). The request may have taken effect; "
    "check that before you send it again.",
)

# --- serialization ---


class OwnResponse(web.Response):
    """A response of the proxy itself, in the proxy's version of HTTP."""

    async def _write_headers(self) -> None:
        """Write the head; aiohttp would repeat the version of the request (RFC 9112, 2.3)."""
        writer = self._payload_writer
        if writer is None:
            raise ConnectionResetError
        if not self.keep_alive:
            self.headers[hdrs.CONNECTION] = "close"
        await writer.write_headers(f"HTTP/1.1 {self.status} {self.reason}", self._headers)


def as_response(fault: ErrorResponse, kind: type[web.Response] = OwnResponse) -> web.Response:
    """Return an error as a response of class `kind`."""
    response = kind(status=fault.status, body=_body_of(fault), headers=_headers_of(fault))
    if fault.ends:
        response.force_close()
    return response


def as_bytes(fault: ErrorResponse) -> bytes:
    """Return an error as the bytes of a response, for a connection without a parsed request."""
    body = _body_of(fault)
    headers = {**_headers_of(fault), "Content-Length": str(len(body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _headers_of(fault: ErrorResponse) -> dict[str, str]:
    headers = {"Content-Type": _JSON, MARK: f"error={fault.code}"}
    if fault.request_id:
        headers[REQUEST_ID] = fault.request_id
    if fault.retry_after_s:
        headers["Retry-After"] = str(fault.retry_after_s)
    if fault.has_origin:
        headers |= _CORS
    return headers


def _body_of(fault: ErrorResponse) -> bytes:
    error = {
        "message": fault.message,
        "type": "proxy_error",
        "param": None,
        "code": fault.code,
    }
    shape = {"type": "error"} if fault.is_event else {}
    return json.dumps({**shape, "error": error}).encode()


def shaped(fault: ErrorResponse, dialect: str) -> ErrorResponse:
    """Return an error in the shape that clients of a dialect expect; "" stands for any other."""
    return fault._replace(is_event=dialect in WITH_ERROR_EVENTS)


def readable(fault: ErrorResponse, request: web.BaseRequest) -> ErrorResponse:
    """Return an error that scripts can read if their browser sent the request."""
    return fault._replace(has_origin=hdrs.ORIGIN in request.headers)


def amount(size: int) -> str:
    """Return a size for people."""
    return f"{size / _MIB:.1f} MiB" if size >= _MIB else f"{size:,} bytes"
