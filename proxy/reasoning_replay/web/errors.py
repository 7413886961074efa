"""Errors that are ours, in the shape that clients of the API read, and marked as ours."""

import json
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web

from reasoning_replay.adapters.upstream.response import UpstreamError

__all__ = [
    "BAD_TARGET",
    "BUG",
    "DRAINING",
    "MARK",
    "ErrorResponse",
    "ProxyError",
    "as_bytes",
    "as_response",
    "upstream_error",
]

# On replayed routes it says what was done; on our own errors, that they are ours.
MARK = "x-reasoning-replay"
_JSON = "application/json"


class ErrorResponse(NamedTuple):
    """
    What a client is told.

    Attributes:
        status: HTTP status.
        code: A word for programs; also in the header that marks the error as ours.
        message: What, where, and the way out, for people.
        retry_after_s: When to try again; 0 says nothing of it.
        ends: Whether the connection is closed behind it, as the rest of a request is not read.
    """

    status: int
    code: str
    message: str
    retry_after_s: int = 0
    ends: bool = False


class ProxyError(Exception):
    """The exchange ends with an error of ours."""

    def __init__(self, fault: ErrorResponse) -> None:
        """Carry what the client is told."""
        super().__init__(fault.message)
        self.fault = fault


BUG = ErrorResponse(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "proxy_failed",
    "The proxy failed on this request, which is a fault of its own. Try again; to go around it, "
    "set the base URL back to the upstream's.",
)
BAD_TARGET = ErrorResponse(
    HTTPStatus.BAD_REQUEST,
    "bad_target",
    "The request target is not a path. This is a reverse proxy: set it as OPENAI_BASE_URL, not "
    "as HTTP_PROXY.",
    ends=True,
)
DRAINING = ErrorResponse(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "draining",
    "This replica of the proxy is about to stop and takes no further request. Try again: another "
    "one, or its successor, will answer.",
    retry_after_s=1,
    ends=True,
)


def upstream_error(error: UpstreamError, upstream: str, via: str = "") -> ErrorResponse:
    """
    Return what a client is told when there is no answer from upstream.

    Args:
        error: How it failed.
        upstream: Its scheme and authority.
        via: Names the proxy on the way, if there is one.
    """
    if error.source == "timeout":
        return ErrorResponse(
            504,
            "upstream_timeout",
            f"{upstream} did not answer in time{via} ({error}). Try again, or raise "
            f"{error.setting} if the upstream needs longer.",
        )
    if error.source == "proxy":
        return ErrorResponse(
            502,
            "upstream_unreachable",
            f"{upstream} could not be reached{via} ({error}). Check upstream_proxy, its user and "
            "password, and what it lets pass; `reasoning-replay check` tests them.",
        )
    if error.source == "connect":
        return ErrorResponse(
            502,
            "upstream_unreachable",
            f"{upstream} could not be reached{via} ({error}). Check REPLAY_UPSTREAM_URL, DNS and "
            "outgoing connections; `reasoning-replay check` tests them.",
        )
    return ErrorResponse(
        502,
        "upstream_failed",
        f"{upstream} gave no answer that could be read{via} ({error}). Whether the request took "
        "effect is not known.",
    )


def as_response(fault: ErrorResponse, kind: type[web.Response] = web.Response) -> web.Response:
    """Return the response that tells a client of an error, of that kind."""
    refusal = kind(status=fault.status, body=_body_of(fault), headers=_headers_of(fault))
    if fault.ends:
        refusal.force_close()
    return refusal


def as_bytes(fault: ErrorResponse) -> bytes:
    """Return the same response as bytes, for a connection that gets no other."""
    body = _body_of(fault)
    headers = {**_headers_of(fault), "Content-Length": str(len(body)), "Connection": "close"}
    lines = [f"HTTP/1.1 {fault.status} {HTTPStatus(fault.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _headers_of(fault: ErrorResponse) -> dict[str, str]:
    headers = {"Content-Type": _JSON, MARK: f"error={fault.code}"}
    if fault.retry_after_s:
        headers["Retry-After"] = str(fault.retry_after_s)
    return headers


def _body_of(fault: ErrorResponse) -> bytes:
    error = {
        "message": fault.message,
        "type": "proxy_error",
        "param": None,
        "code": fault.code,
    }
    return json.dumps({"error": error}).encode()
