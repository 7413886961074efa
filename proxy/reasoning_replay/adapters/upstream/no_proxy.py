"""
NO_PROXY: the hosts to which requests go without the HTTP proxy of the environment.

The standard library reads names only. Operators write networks as well, such as `10.0.0.0/8`, and
an entry that is ignored sends keys to the proxy. So each entry is understood, or it is an error.
"""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import SplitResult

from reasoning_replay.core.wire.hosts import port_of

_SEPARATORS = re.compile(r"[\s,]+")
_ENTRY = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<name>[\w.*-]*[\w*]\.?))(?::(?P<port>\d+))?")
_ENDS_IN_NUMBER = re.compile(r"(?:.*\.)?[0-9]+")
_PORT_MAX = 65535

_Address = IPv4Address | IPv6Address


def is_direct(upstream: SplitResult, no_proxy: str) -> bool:
    """
    Return whether NO_PROXY names the host of an upstream.

    An entry is a network, an address, or a name, which includes its subdomains; an asterisk in it
    stands for any text. An address or a name may have a port. No name is resolved.

    Raises:
        ValueError: An entry is none of these; the text quotes it.
    """
    host, port = (upstream.hostname or "").rstrip("."), port_of(upstream)
    found = False
    for entry in filter(None, _SEPARATORS.split(no_proxy.lower())):
        try:
            found |= _names(entry, host, port)
        except ValueError:
            shown = entry.rpartition("@")[2]  # a password may be before it
            raise ValueError(f'"{shown}" is not a host name, an address or a network') from None
    return found


def _names(entry: str, host: str, port: int) -> bool:
    """Return whether an entry names a host with a port; ValueError: it is not understood."""
    address = _address(host)
    if "/" in entry:
        network = ip_network(entry, strict=False)
        return address is not None and address in network
    if (whole := _address(entry)) is not None:  # also IPv6 without brackets
        return whole == address
    parts = _ENTRY.fullmatch(entry)
    if parts is None or int(parts["port"] or 0) > _PORT_MAX:
        raise ValueError
    has_port = not parts["port"] or int(parts["port"]) == port
    name = (parts["name"] or "").strip(".")
    part = ip_address(parts["bracketed"]) if parts["bracketed"] else _address(name)
    if part is not None:
        return has_port and part == address
    if "*" not in name and _ENDS_IN_NUMBER.fullmatch(name):
        raise ValueError  # a part of an address, such as 10.0
    pattern = re.escape(name).replace(r"\*", ".*")
    before = "" if address is not None else r"(?:.+\.)?"
    return has_port and re.fullmatch(before + pattern, host) is not None


def _address(text: str) -> _Address | None:
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
