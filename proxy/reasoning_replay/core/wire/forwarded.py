"""
Forwarded addresses: the client of a request that came through proxies, by `X-Forwarded-For`.

Each proxy appends the address of its peer, so the header is read from its end, and only as far as
trusted proxies wrote it. What stands before that could be made up by a client.
"""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

FORWARDED_FOR = "x-forwarded-for"
# Entries that are read, from the end. No request passes more proxies.
HOPS_MAX = 16
# The longest entry: an IPv6 address in brackets, with a port.
_ENTRY_CHARS = 47

_Address = IPv4Address | IPv6Address
Networks = tuple[IPv4Network | IPv6Network, ...]


def read_networks(written: str) -> Networks:
    """
    Parse a comma-separated list of addresses and networks; an empty text has none.

    Raises:
        ValueError: An entry is not one. The message names it and a way out.
    """
    entries = [entry.strip() for entry in written.split(",")] if written.strip() else []
    networks: list[IPv4Network | IPv6Network] = []
    for entry in entries:
        try:
            networks.append(ip_network(entry))
        except ValueError:
            raise ValueError(
                f"{entry or 'an empty entry'}: not an address or a network; use a "
                "comma-separated list such as 10.0.0.0/8,fd00::/8,192.0.2.7"
            ) from None
    return tuple(networks)


def client_address(peer: str, trusted: Networks, headers: Sequence[str]) -> str:
    """
    Return the last address on the way of a request that is not one of trusted proxies.

    It is the peer's if that is not trusted, and the farthest trusted one if all are, or if an entry
    cannot be read.

    Args:
        peer: Address of the peer; "" if it has none.
        trusted: Networks of the trusted proxies.
        headers: Values of all `X-Forwarded-For` headers, in order.

    Cost: bounded, whatever a client sends.
    """
    at = _maybe_address(peer)
    if at is None or not _is_in(trusted, at):
        return peer
    for entry in _from_the_end(headers):
        before = _maybe_address(entry)
        if before is None:
            break
        at = before
        if not _is_in(trusted, at):
            break
    return str(at)


def _from_the_end(headers: Sequence[str]) -> list[str]:
    """Return the last entries of a header that may have several values, the last one first."""
    last = [entry for value in headers[-HOPS_MAX:] for entry in value.rsplit(",", HOPS_MAX)]
    return last[: -HOPS_MAX - 1 : -1]


def _maybe_address(entry: str) -> _Address | None:
    """Return an address, without its port if it has one; None if it cannot be read."""
    text = entry.strip(" \t")
    if len(text) > _ENTRY_CHARS or "%" in text:  # the zone of an address could be any text
        return None
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _is_in(networks: Networks, address: _Address) -> bool:
    return any(address in network for network in networks)
