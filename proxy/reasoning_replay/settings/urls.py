"""
URLs and listen addresses of settings: parsed, checked, and shown without their passwords.

Every check raises ValueError with a reason and a way out. No message quotes the address, since it
may hold a password; `redacted` makes an address safe to show.
"""

import contextlib
import re
import socket
from urllib.parse import SplitResult, urlsplit

from reasoning_replay.core.wire.hosts import PORTS, check_host, is_utf8, port_of

_ANY_IPV4 = bytes(4)
_ANY_IPV6 = bytes(16)
# Names by which a client on this host reaches a listen address.
_REACHED_BY = {
    "127.0.0.1": {"localhost"},
    "::1": {"localhost"},
    "localhost": {"127.0.0.1", "::1"},
    "0.0.0.0": {"127.0.0.1", "localhost"},  # noqa: S104 (compared, not listened on)
    "::": {"::1", "localhost"},
}


def redacted(url: str) -> str:
    """Return a URL, even a malformed one, without the parts that may hold a password."""
    without_user = re.sub(r"^([A-Za-z][\w+.-]*://)?.*@", r"\1***@", url, flags=re.DOTALL)
    return re.sub(r"[?#].*", "?***", without_user, flags=re.DOTALL)


def host_and_port(listen: str) -> tuple[str, int]:
    """
    Parse `host:port` or `[ipv6]:port`; port 0 asks the system for a free one.

    Raises:
        ValueError: The text has another form, or the port is above 65535.
    """
    match = re.fullmatch(r"(?:\[([\da-fA-F:.]+)\]|([^\s:\[\]/@]+)):(\d{1,5})", listen, re.ASCII)
    if match is None:
        reason = "not host:port; use 127.0.0.1:8080, 0.0.0.0:8080 (every interface) or [::1]:8080"
        raise ValueError(reason)
    ipv6, name, port = match.groups()
    if int(port) > 65535:  # noqa: PLR2004 - the highest TCP port
        raise ValueError("the port is above 65535; use 0 to 65535, 0 means any free one")
    return ipv6 or check_host(name), int(port)


def authority(host: str, port: int | str) -> str:
    """Return a host and a port in the syntax of a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dialled(host: str) -> str:
    """Return the host to connect to for a listen address: loopback if it is every interface."""
    with contextlib.suppress(OSError):  # not an IPv4 address
        if socket.inet_aton(host) == _ANY_IPV4:
            return "127.0.0.1"
    with contextlib.suppress(OSError):
        if socket.inet_pton(socket.AF_INET6, host) == _ANY_IPV6:
            return "::1"
    return host


def is_at(url: str, listen: str) -> bool:
    """Return whether a URL leads to this listen address, without a DNS lookup."""
    parts = urlsplit(url)
    host, port = host_and_port(listen)
    if port != port_of(parts):
        return False
    return (parts.hostname or "") in {host.lower()} | _REACHED_BY.get(host.lower(), set())


def _split(url: str) -> SplitResult:
    """Parse a URL; messages never quote it, since it may hold a password."""
    choice = "http:// or https://"
    if re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("has a space or a control character; remove it")
    if "://" not in url:
        raise ValueError(f"not a URL; start it with {choice}")
    if not is_utf8(url):
        raise ValueError("not UTF-8 text; use letters and digits, and percent-encode the others")
    scheme = url.partition("://")[0]
    if scheme not in PORTS:
        raise ValueError(f'unknown scheme "{redacted(scheme)}"; use {choice}')
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ValueError("the host or the port is malformed; use host:port") from None
    check_host(parts.hostname or "")
    return parts


def upstream_url(value: str) -> str:
    """Accept the base URL of an API; return it without trailing slashes."""
    parts = _split(value)
    if parts.username is not None or parts.password is not None:
        raise ValueError("has a user name or password; remove it, clients send their own key")
    if not parts.hostname:
        raise ValueError("has no host; use https://host/v1")
    if "?" in value or "#" in value:
        raise ValueError("has a query or a fragment; remove it, the client's own is forwarded")
    if parts.path.rstrip("/").endswith("/responses"):
        raise ValueError('ends in "/responses"; remove that, the proxy adds the client\'s path')
    return value.rstrip("/")


def upstream_proxy(value: str) -> str:
    """Accept the URL of an HTTP proxy, `env`, or nothing."""
    if value in ("", "env"):
        return value
    parts = _split(value)
    if not parts.hostname:
        raise ValueError("has no host; use http://host:3128")
    if parts.path.strip("/") or "?" in value or "#" in value:
        raise ValueError("has more than a host and a port; use only http://host:3128")
    return value.rstrip("/")
