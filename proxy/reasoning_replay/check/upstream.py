"""Upstream check: whether the upstream can be reached, and accepts the caller's key."""

import asyncio
import contextlib
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import aiohttp

from reasoning_replay.adapters.upstream.causes import REMEDIES, cause_of, reason_of
from reasoning_replay.adapters.upstream.client import UpstreamClient
from reasoning_replay.adapters.upstream.no_proxy import is_direct
from reasoning_replay.adapters.upstream.response import UpstreamError
from reasoning_replay.check.local import Finding
from reasoning_replay.core.dialects.registry import RESPONSES
from reasoning_replay.core.dialects.responses.profiles import GENERIC
from reasoning_replay.core.dialects.states import ErrorCause
from reasoning_replay.core.dialects.vendors import Upstream
from reasoning_replay.core.wire.hosts import port_of
from reasoning_replay.settings.model import Settings
from reasoning_replay.web.admin.conversations import is_loopback
from reasoning_replay.web.wiring import profile, profiles, upstream
from reasoning_replay.wires import MODEL, WIRES

ANSWER_TIMEOUT_S: Final = 10.0
# Statuses of a path that the upstream does not have; an invalid request is a 400 or 422.
NOT_SERVED: Final = frozenset({0, 404, 405, 501})
# How other programs answer a request of HTTP.
NO_API: Final = frozenset({ErrorCause.PROTOCOL, ErrorCause.CLOSED})
ISSUER_TIMEOUT_S: Final = 3.0
OPENAI_KEY: Final = "OPENAI_API_KEY"
# OpenSSL's X509_V_ERR_*: not yet valid, expired; not for this host or address.
OUT_OF_TIME: Final = frozenset({9, 10})
ANOTHERS: Final = frozenset({62, 64})


class ApiKey(NamedTuple):
    """
    A key for the upstream.

    Attributes:
        name: The environment variable that holds it; "" if there is no key.
        header: The header that carries it.
    """

    name: str
    header: tuple[str, str]


NO_KEY: Final = ApiKey("", ("", ""))


def key_of(settings: Settings, environ: Mapping[str, str], dialect: str = RESPONSES) -> ApiKey:
    """Return the caller's key for requests of a dialect, never one of another vendor."""
    chosen = profile(settings, dialect)
    for name in chosen.key_names:
        if value := environ.get(name):
            is_token = value.count(".") == 2 and value.startswith("eyJ")  # noqa: PLR2004 (a JWT)
            if chosen.key_header == "authorization" or is_token:
                return ApiKey(name, ("Authorization", f"Bearer {value}"))
            return ApiKey(name, (chosen.key_header, value))
    return NO_KEY


async def of_upstream(settings: Settings, environ: Mapping[str, str]) -> AsyncIterator[Finding]:
    """Connect as `serve` would, and request the list of models."""
    parts = urlsplit(settings.upstream_url)
    is_tls = parts.scheme == "https"
    place = f"{parts.hostname} port {port_of(parts)}"
    try:
        client = upstream(settings)
    except OSError as error:
        yield Finding("problem", str(error))
        return
    place += client.via
    try:
        await client.reach(settings.upstream_url)
        yield Finding("ok", f"{place} can be reached{' with TLS' if is_tls else ''}")
        async for finding in _asked(client, settings, environ):
            yield finding
    except UpstreamError as error:
        if error.setting:
            words = f"{place} did not respond within {error.setting} {settings.connect_timeout_s:g}"
        else:
            who = "that proxy, " if error.source == "proxy" else ""
            words = f"{place} cannot be reached: {who}{reason_of(error)}"
        remedies = [*await _remedies(settings, error), *_proxy_hint(settings)]
        yield Finding("problem", "; ".join([words, *remedies]).replace("?;", "?"))
    finally:
        await client.close()


# --- why not ---


async def _remedies(settings: Settings, error: UpstreamError) -> list[str]:
    """Return what to do about a failed connection."""
    cause, reason = cause_of(error), error.__cause__
    if isinstance(reason, aiohttp.ClientConnectorCertificateError):
        reason = reason.certificate_error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return [await _of_certificate(settings, reason)]
    words = REMEDIES.get(cause, "")
    if cause is ErrorCause.REFUSED and is_loopback(urlsplit(settings.upstream_url).hostname or ""):
        words += " In a container, that address is the container itself"
    return [words] if words else []


async def _of_certificate(settings: Settings, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in OUT_OF_TIME:
        return "its certificate is expired or not valid yet: renew it, or set this machine's clock"
    if error.verify_code in ANOTHERS:
        return "its certificate is for another name: use that name in upstream_url"
    parts = urlsplit(settings.upstream_url)
    issuer = "" if settings.upstream_proxy else await _issuer(parts.hostname, parts.port or 443)
    who = f"the CA of its certificate ({issuer})" if issuer else "the CA of its certificate"
    if settings.upstream_ca_file:
        return f"upstream_ca_file does not contain {who}: use a PEM file that does"
    return f"this machine does not trust {who}: set upstream_ca_file to a PEM file with it"


async def _issuer(host: str | None, port: int) -> str:
    """Return the issuer of a server's certificate, without trusting it; "" if unknown."""
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
    """Yield a hint if the environment names a proxy and the settings do not use it."""
    parts = urlsplit(settings.upstream_url)
    given = getproxies_environment()
    if settings.upstream_proxy or not given.get(parts.scheme):
        return
    is_bypassed = False
    with contextlib.suppress(ValueError):  # it would be an error with `env`
        is_bypassed = is_direct(parts, given.get("no", ""))
    if not is_bypassed:
        name = f"{parts.scheme.upper()}_PROXY"
        yield f"{name} is set but not used: if the upstream needs it, set upstream_proxy to env"


# --- the key ---


async def _asked(
    client: UpstreamClient, settings: Settings, environ: Mapping[str, str]
) -> AsyncIterator[Finding]:
    """Request the list of models, which costs nothing, and try the replayed paths."""
    chosen = profile(settings)
    key = key_of(settings, environ)
    if key.name or not chosen.wants_key:
        models = await _models(client, settings.upstream_url, chosen, key)
        yield models
        if models.grade == "ok" and settings.mode != "off":
            yield await _paths(client, settings, key)
        return
    if not chosen.key_names:
        words = "clients log in there on their own, so no key was tried"
    elif environ.get(OPENAI_KEY):
        words = (
            f"{OPENAI_KEY} is not sent there, as it may be OpenAI's: set {chosen.key_names[0]} "
            "to test a key"
        )
    else:
        words = f"no key was tried: set {chosen.key_names[0]} to test one"
    yield Finding("ok", words)


async def _models(
    client: UpstreamClient, upstream_url: str, chosen: Upstream, key: ApiKey
) -> Finding:
    url = f"{upstream_url}/models"
    value = key.header[1]
    if not value.isprintable() or not value.isascii():
        words = f"{key.name} is not a valid header value; is there a line break in it?"
        return Finding("warning", words)
    try:
        status = await _status(client, "GET", url, _headers(key, chosen))
    except (UpstreamError, TimeoutError) as error:
        reason = str(error) or f"no response within {ANSWER_TIMEOUT_S:g} s"
        words = f"GET {url} failed: {reason}"
        if isinstance(error, UpstreamError) and cause_of(error) in NO_API:
            words += "; is it an API? Another program seems to listen there"
        if url.startswith("http:") and not isinstance(error, TimeoutError):
            words += "; if it uses TLS, write https://"
        return Finding("problem", words)
    return _judged(status, f"GET {url} with {key.name or 'no key'} returned {status}", chosen, key)


async def _paths(client: UpstreamClient, settings: Settings, key: ApiKey) -> Finding:
    """Send an empty request to each replayed path, which no API accepts, so it costs nothing."""
    known = profiles(settings)
    words: list[str] = []
    for name, chosen in known.items():
        path, status = WIRES[name].path, 0
        if MODEL in path:  # without a model, nothing can be asked
            if chosen.name != GENERIC.name:
                words.append(f"{path} is replayed (profile {chosen.name})")
            continue
        with contextlib.suppress(UpstreamError, TimeoutError):
            headers = [(b"content-type", b"application/json"), *_headers(key, chosen.vendor)]
            status = await _status(client, "POST", settings.upstream_url + path, headers, b"{}")
        if status in NOT_SERVED:
            words.append(f"{path} is not served ({status or 'no response'})")
        else:
            words.append(f"{path} is replayed (profile {chosen.name})")
    words += [chosen.remark for chosen in known.values() if chosen.remark]
    is_any = any("replayed" in one for one in words)
    if not is_any:
        words.append("is the path of upstream_url right?")
    return Finding("ok" if is_any else "warning", "; ".join(words))


async def _status(
    client: UpstreamClient,
    method: str,
    url: str,
    headers: list[tuple[bytes, bytes]],
    body: bytes = b"",
) -> int:
    """
    Return the status of a response.

    Raises:
        UpstreamError, TimeoutError: There was none.
    """
    async with asyncio.timeout(ANSWER_TIMEOUT_S):
        response = await client.send(method, url, headers, body or None)
    response.close()
    return response.status


def _headers(key: ApiKey, chosen: Upstream) -> list[tuple[bytes, bytes]]:
    given = ([key.header] if key.name else []) + [*chosen.headers]
    return [(name.encode(), value.encode()) for name, value in given]


def _judged(status: int, said: str, chosen: Upstream, key: ApiKey) -> Finding:
    match status:
        case HTTPStatus.OK:
            return Finding("ok", said)
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN if not key.name:
            words = f"{said}: it needs a key; set {chosen.key_names[0]} to test one"
        case HTTPStatus.UNAUTHORIZED:
            return Finding("problem", f"{said}: it does not accept this key")
        case HTTPStatus.FORBIDDEN:  # a key that may ask models need not be allowed to list them
            words = f"{said}: it does not accept this key, or the key may not list models"
        case HTTPStatus.NOT_FOUND:
            usual = chosen.base_path or "/v1"
            words = f"{said}: is the path of upstream_url right? It usually ends in {usual}"
        case _ if 300 <= status < 400:  # noqa: PLR2004 (a redirect)
            words = f"{said}: redirects are not followed; set upstream_url to the new address: "
            words += "https, another host or another path"
        case _:
            words = f"{said}: not the status of a healthy upstream"
    return Finding("warning", words)
