"""The way out to the upstream: whose certificates are good, and which proxy stands in between."""

import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

import aiohttp

from reasoning_replay.adapters.upstream.response import UpstreamError
from reasoning_replay.settings.urls import port_of

__all__ = ["Egress", "egress", "named_errors"]

FROM_ENVIRONMENT = "env"
_SCHEMES = frozenset({"http", "https"})


@dataclass(frozen=True, slots=True)
class Egress:
    """
    How the upstream is reached.

    Attributes:
        tls: Says whose certificates are good, as aiohttp takes it; True: those of the system's
            authorities, by the context that aiohttp has made already.
        proxy_url: Of a proxy, without user and password; "" for none.
        proxy_authorization: What that proxy is told of us; "" for nothing.
    """

    tls: ssl.SSLContext | Literal[True]
    proxy_url: str = ""
    proxy_authorization: str = ""

    @property
    def via(self) -> str:
        """Name the proxy, for people; "" when there is none."""
        if not self.proxy_url:
            return ""
        parts = urlsplit(self.proxy_url)
        return f" through the proxy {parts.hostname}:{port_of(parts)}"


def egress(upstream_url: str, ca_file: str = "", proxy: str = "") -> Egress:
    """
    Find the way to an upstream.

    Args:
        upstream_url: Where requests go.
        ca_file: PEM file of authorities besides the system's; "" for none.
        proxy: URL of an HTTP proxy; `env` for what the environment names; "" for none.

    Raises:
        OSError: The file cannot be read, or holds no certificate, or the environment names no
            HTTP proxy where it names one.
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


@contextlib.contextmanager
def named_errors(connect_s: float) -> Iterator[None]:
    """Raise what goes wrong on the way to the upstream as UpstreamError."""
    try:
        yield
    except TimeoutError as error:
        reason = f"no connection within {connect_s:g} s"
        raise UpstreamError("timeout", reason, "connect_timeout_s") from error
    except aiohttp.ClientHttpProxyError as error:
        raise UpstreamError("proxy", f"it answered CONNECT with {error.status}") from error
    except aiohttp.ClientProxyConnectionError as error:
        raise UpstreamError("proxy", f"it cannot be reached: {_reason(error)}") from error
    except (aiohttp.ClientConnectorError, ssl.SSLError) as error:
        raise UpstreamError("connect", _reason(error)) from error
    except aiohttp.WSServerHandshakeError as error:
        reason = f"it switched protocols, but not to a WebSocket: {error.message}"
        raise UpstreamError("read", reason) from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        is_closed = isinstance(error, (ConnectionError, aiohttp.ServerDisconnectedError))
        reason = "it closed the connection" if is_closed else type(error).__name__
        raise UpstreamError("read", reason) from error


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _trusting(ca_file: str) -> ssl.SSLContext:
    """Return what trusts these authorities besides the system's."""
    tls = ssl.create_default_context()
    tls.set_alpn_protocols(["http/1.1"])
    try:
        tls.load_verify_locations(ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise OSError(
            f"upstream_ca_file {ca_file} holds no certificate that can be read "
            f"({error.strerror or error}); name a PEM file"
        ) from error
    return tls


def _of_environment(upstream: SplitResult) -> str:
    """Return what HTTPS_PROXY and its kind say of an upstream; "" when that is nothing."""
    host = upstream.hostname or ""
    address = f"{host}:{port_of(upstream)}"
    proxy = getproxies_environment().get(upstream.scheme, "")
    if not proxy or proxy_bypass(address):
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        parts = urlsplit(proxy)
        is_known = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its message quotes it, and it may hold a password
        is_known = False
    if not is_known:
        name = f"{upstream.scheme.upper()}_PROXY"
        raise OSError(f"upstream_proxy is env, but {name} is no http:// or https:// address")
    return proxy
