"""Upstream check: whether it can be reached, and accepts the caller's key."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from errno import ECONNREFUSED
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp

from reasoning_replay.adapters.upstream.pool import UpstreamPool
from reasoning_replay.adapters.upstream.response import UpstreamError
from reasoning_replay.check.report import Finding
from reasoning_replay.core.dialects.responses.profiles import Profile
from reasoning_replay.settings.model import Settings
from reasoning_replay.settings.urls import port_of
from reasoning_replay.web.admin.conversations import is_loopback
from reasoning_replay.web.wiring import profile, upstream

__all__ = ["ApiKey", "key_of", "of_upstream"]

ANSWER_TIMEOUT_S: Final = 10.0
ISSUER_TIMEOUT_S: Final = 3.0
OPENAI_KEY: Final = "OPENAI_API_KEY"
# OpenSSL's X509_V_ERR_*: not yet valid, expired; not for this host or address.
OUT_OF_TIME: Final = frozenset({9, 10})
ANOTHERS: Final = frozenset({62, 64})


class ApiKey(NamedTuple):
    """
    A key for the upstream.

    Attributes:
        name: The variable that it is from; "" for none.
        header: What it is sent as.
    """

    name: str
    header: tuple[str, str]


NO_KEY: Final = ApiKey("", ("", ""))


def key_of(settings: Settings, environ: Mapping[str, str]) -> ApiKey:
    """Find the caller's key for this upstream; none that belongs to another vendor."""
    chosen = profile(settings)
    for name in chosen.key_names:
        if value := environ.get(name):
            is_token = value.count(".") == 2 and value.startswith("eyJ")  # noqa: PLR2004 (a JWT)
            if chosen.key_header == "authorization" or is_token:
                return ApiKey(name, ("Authorization", f"Bearer {value}"))
            return ApiKey(name, (chosen.key_header, value))
    return NO_KEY


async def of_upstream(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Connect as serving would, and ask for the list of models."""
    parts = urlsplit(settings.upstream_url)
    is_tls = parts.scheme == "https"
    place = f"{parts.hostname} port {port_of(parts)}"
    try:
        way = upstream(settings)
    except OSError as error:
        yield Finding("problem", "upstream", str(error))
        return
    place += way.via
    try:
        await way.reach(settings.upstream_url)
        yield Finding("ok", "upstream", f"{place} can be reached{' with TLS' if is_tls else ''}")
        async for finding in _asked(way, settings, environ):
            yield finding
    except UpstreamError as error:
        if error.setting:
            words = f"{place} did not answer within {error.setting} {settings.connect_timeout_s:g}"
        else:
            who = "that proxy, " if error.source == "proxy" else ""
            words = f"{place} cannot be reached: {who}{_plain(error)}"
        way_out = [*await _way_out(settings, error), *_proxy_hint(settings)]
        yield Finding("problem", "upstream", "; ".join([words, *way_out]).replace("?;", "?"))
    finally:
        await way.close()


# --- why not ---


def _plain(error: UpstreamError) -> str:
    """Return the reason itself, less what aiohttp says around it."""
    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        cause = cause.certificate_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {cause.verify_message.rstrip('.')}"
    if isinstance(cause, aiohttp.ClientConnectorError) and cause.os_error.errno == ECONNREFUSED:
        return "nobody listens there"
    return re.sub(
        r"Cannot connect to host \S+ ssl:\S+ \[(.*)\]", r"\1", str(error), flags=re.DOTALL
    )


async def _way_out(settings: Settings, error: UpstreamError) -> list[str]:
    """Say what to do about a connection that did not come about."""
    cause = error.__cause__
    if error.source == "proxy":
        return ["is upstream_proxy right, and does it let you out?"]
    if isinstance(cause, aiohttp.ClientConnectorDNSError):
        return ["is upstream_url spelt right, and does this machine reach the network?"]
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        cause = cause.certificate_error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return [await _of_certificate(settings, cause)]
    if isinstance(cause, ssl.SSLError | aiohttp.ClientSSLError):
        return ["it does not seem to speak TLS: if it is meant to be without, write http://"]
    if isinstance(cause, ConnectionRefusedError | aiohttp.ClientConnectorError):
        words = "does it run, and is the port right?"
        if is_loopback(urlsplit(settings.upstream_url).hostname or ""):
            words += " In a container that address is the container itself"
        return [words]
    return []


async def _of_certificate(settings: Settings, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in OUT_OF_TIME:
        return "its certificate is out of its time: renew it, or set the clock of this machine"
    if error.verify_code in ANOTHERS:
        return "its certificate is for another name: write that one in upstream_url"
    parts = urlsplit(settings.upstream_url)
    issuer = "" if settings.upstream_proxy else await _issuer(parts.hostname, parts.port or 443)
    who = f"who signed its certificate ({issuer})" if issuer else "who signed its certificate"
    if settings.upstream_ca_file:
        return f"upstream_ca_file does not have {who}: name a PEM file that does"
    return f"nobody here knows {who}: name a PEM file with that authority as upstream_ca_file"


async def _issuer(host: str | None, port: int) -> str:
    """Name who signed a certificate, without trusting it; "" where that cannot be told."""
    from cryptography import x509  # noqa: PLC0415 (for this one hint)

    try:
        pem = await asyncio.to_thread(
            ssl.get_server_certificate, (host or "", port), timeout=ISSUER_TIMEOUT_S
        )
        name = x509.load_pem_x509_certificate(pem.encode()).issuer.rfc4514_string()
    except (OSError, ValueError):
        return ""
    return re.sub(r"[^ -~]", "?", name)[:120]


def _proxy_hint(settings: Settings) -> Iterator[str]:
    """Say that the environment names a proxy which nobody has asked for."""
    parts = urlsplit(settings.upstream_url)
    if settings.upstream_proxy or proxy_bypass(parts.netloc):
        return
    if getproxies_environment().get(parts.scheme):
        name = f"{parts.scheme.upper()}_PROXY"
        yield f"{name} is set but not heard: if it is the way out, set upstream_proxy to env"


# --- the key ---


async def _asked(
    way: UpstreamPool, settings: Settings, environ: Mapping[str, str]
) -> AsyncIterator[Finding]:
    """Ask for the list of models, the one thing that every such API gives for nothing."""
    chosen = profile(settings)
    key = key_of(settings, environ)
    if key.name or not chosen.wants_key:
        yield await _models(way, settings.upstream_url, chosen, key)
        return
    if not chosen.key_names:
        words = "clients log in there by themselves, so no key is tried"
    elif environ.get(OPENAI_KEY):
        words = (
            f"{OPENAI_KEY} is not sent there, as it may be OpenAI's: set {chosen.key_names[0]} "
            "to have a key tried"
        )
    else:
        words = f"no key was tried: set {chosen.key_names[0]} to have it tried"
    yield Finding("ok", "upstream", words)


async def _models(way: UpstreamPool, upstream_url: str, chosen: Profile, key: ApiKey) -> Finding:
    url = f"{upstream_url}/models"
    name, value = key.header
    if not value.isprintable() or not value.isascii():
        words = f"{key.name} cannot be sent: not a header value; is there a line break in it?"
        return Finding("warning", "upstream", words)
    headers = [(name.encode(), value.encode())] if name else []
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            response = await way.send("GET", url, headers, None)
    except (UpstreamError, TimeoutError) as error:
        reason = str(error) or f"no answer within {ANSWER_TIMEOUT_S:g} s"
        words = f"GET {url} failed: {reason}"
        if url.startswith("http:") and not isinstance(error, TimeoutError):
            words += "; if it speaks TLS, write https://"
        return Finding("problem", "upstream", words)
    status = response.status
    response.close()
    return _judged(status, f"GET {url} with {key.name or 'no key'} answered {status}", chosen, key)


def _judged(status: int, said: str, chosen: Profile, key: ApiKey) -> Finding:
    match status:
        case HTTPStatus.OK:
            return Finding("ok", "upstream", said)
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN if not key.name:
            words = f"{said}: it wants a key; set {chosen.key_names[0]} to have it tried"
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            words = f"{said}: it does not accept this key"
        case HTTPStatus.NOT_FOUND:
            words = f"{said}: is the path of upstream_url right? It mostly ends in "
            words += chosen.base_path or "/v1"
        case _ if 300 <= status < 400:  # noqa: PLR2004 (a redirect)
            words = f"{said}: it has moved, and redirects are not followed; is it https, or with "
            words += "another host or path?"
        case _:
            words = f"{said}: not what a healthy upstream says"
    return Finding("warning", "upstream", words)
