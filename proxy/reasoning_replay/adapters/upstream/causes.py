"""Causes: why an upstream sent no response, as a fixed word and as a short text."""

import re
import ssl
from errno import ECONNREFUSED
from typing import Final

import aiohttp

from reasoning_replay.adapters.upstream.response import CLOSED, LOST, UpstreamError
from reasoning_replay.core.dialects.states import ErrorCause

REMEDIES: Final = {
    ErrorCause.DNS: "is upstream_url spelt right, and can this machine reach the network?",
    ErrorCause.REFUSED: "is it running, and is the port in upstream_url right?",
    ErrorCause.UNREACHABLE: "is upstream_url right, and can this machine reach it?",
    ErrorCause.TLS: "does it use TLS? If not, upstream_url must begin with http://",
    ErrorCause.CERTIFICATE: "does upstream_ca_file name a PEM file with its CA?",
    ErrorCause.PROXY: "is upstream_proxy right, and does it allow this connection?",
}
"""What to look at if there is no connection."""

# The text that aiohttp adds to the reason of the system or of OpenSSL.
_ADDED = re.compile(r"\ACannot connect to host \S+ ssl:\S+ \[(.*)\]", re.DOTALL)
_OF_READ = {CLOSED: ErrorCause.CLOSED, LOST: ErrorCause.LOST}
_OF_SETTING = {
    "connect_timeout_s": ErrorCause.CONNECT_TIMEOUT,
    "first_byte_timeout_s": ErrorCause.FIRST_BYTE_TIMEOUT,
    "read_timeout_s": ErrorCause.READ_TIMEOUT,
}


def cause_of(error: UpstreamError) -> ErrorCause:
    """Return the fixed word for a failure."""
    match error.source:
        case "timeout":
            return _OF_SETTING[error.setting]
        case "proxy":
            return ErrorCause.PROXY
        case "read":
            return _OF_READ.get(str(error), ErrorCause.PROTOCOL)
    return _cause_of_dial(error.__cause__)


def _cause_of_dial(cause: BaseException | None) -> ErrorCause:
    if isinstance(cause, aiohttp.ClientConnectorDNSError):
        return ErrorCause.DNS
    if isinstance(cause, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return ErrorCause.CERTIFICATE
    if isinstance(cause, aiohttp.ClientSSLError | ssl.SSLError):
        return ErrorCause.TLS
    return ErrorCause.REFUSED if _is_refused(cause) else ErrorCause.UNREACHABLE


def reason_of(error: UpstreamError) -> str:
    """Return the reason of a failure, without the text that aiohttp adds."""
    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        cause = cause.certificate_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {cause.verify_message.rstrip('.')}"
    if _is_refused(cause):
        return "the connection was refused"
    return _ADDED.sub(r"\1", str(error))


def _is_refused(cause: BaseException | None) -> bool:
    return isinstance(cause, aiohttp.ClientConnectorError) and cause.os_error.errno == ECONNREFUSED
