"""Egress: the trusted certificate authorities and the HTTP proxy of upstream connections."""

import ssl
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment

import aiohttp

from reasoning_replay.adapters.upstream.no_proxy import is_direct
from reasoning_replay.core.wire.hosts import port_of

FROM_ENVIRONMENT = "env"
_SCHEMES = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True)
class Egress:
    """
    TLS and proxy settings of connections to the upstream.

    Attributes:
        tls: Context with the trusted authorities; True: aiohttp's own, with those of the system.
        proxy_url: URL of the proxy without user and password; "" for none.
        proxy_authorization: Value of the Proxy-Authorization header; "" for none.
    """

    tls: ssl.SSLContext | Literal[True]
    proxy_url: str = ""
    proxy_authorization: str = ""

    @property
    def via(self) -> str:
        """Text for messages that names the proxy, with a leading space; "" without a proxy."""
        if not self.proxy_url:
            return ""
        parts = urlsplit(self.proxy_url)
        return f" through the proxy {parts.hostname}:{port_of(parts)}"


def egress(upstream_url: str, ca_file: str = "", proxy: str = "") -> Egress:
    """
    Return the TLS and proxy settings for an upstream.

    Args:
        upstream_url: Base URL of the upstream.
        ca_file: PEM file of authorities in addition to the system's; "" for none.
        proxy: URL of an HTTP proxy; `env`: the one in HTTP_PROXY or HTTPS_PROXY; "" for none.

    Raises:
        OSError: The file cannot be read or contains no certificate, or the environment variable
            is not the URL of an HTTP proxy, or NO_PROXY is not understood.
    """
    tls: ssl.SSLContext | Literal[True] = _trusting(ca_file) if ca_file else True
    if proxy == FROM_ENVIRONMENT:
        proxy = _of_environment(urlsplit(upstream_url))
    if not proxy:
        return Egress(tls)
    parts = urlsplit(proxy)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    if parts.username is None and parts.password is None:
        return Egress(tls, bare)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Egress(tls, bare, aiohttp.encode_basic_auth(user, password, "utf-8"))


def trust(tls: ssl.SSLContext, ca_file: str) -> bool:
    """
    Make a context trust the authorities of a file too; return whether one of them is new to it.

    Raises:
        OSError: The file cannot be read or contains no certificate.
    """
    before = tls.cert_store_stats()
    try:
        tls.load_verify_locations(ca_file)
    except OSError as error:  # includes ssl.SSLError
        raise OSError(
            f"upstream_ca_file {ca_file} contains no readable certificate "
            f"({error.strerror or error}); name a PEM file"
        ) from error
    return tls.cert_store_stats() != before


def _trusting(ca_file: str) -> ssl.SSLContext:
    """Return a context that trusts these authorities in addition to the system's."""
    tls = ssl.create_default_context()
    tls.set_alpn_protocols(["http/1.1"])
    trust(tls, ca_file)
    return tls


def _of_environment(upstream: SplitResult) -> str:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY set for an upstream, or ""."""
    given = getproxies_environment()
    proxy = given.get(upstream.scheme, "")
    try:
        if not proxy or is_direct(upstream, given.get("no", "")):
            return ""
    except ValueError as error:
        raise OSError(f"upstream_proxy is env, but in NO_PROXY {error}") from error
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        is_known = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its message quotes the URL, which may contain a password
        is_known = False
    if not is_known:
        name = f"{upstream.scheme.upper()}_PROXY"
        raise OSError(f"upstream_proxy is env, but {name} is not an http:// or https:// URL")
    return proxy
