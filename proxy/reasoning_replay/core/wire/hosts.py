"""Hosts and ports in URLs."""

from urllib.parse import SplitResult

PORTS = {"http": 80, "https": 443}


def port_of(url: SplitResult) -> int:
    """Return the port of an http or https URL; without one, the default of its scheme."""
    return url.port or PORTS[url.scheme]


def check_host(host: str) -> str:
    """
    Return a host name that can be looked up.

    Raises:
        ValueError: No look-up of it could ever begin: a part is empty or longer than 63 characters,
            or it is not text.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        raise ValueError("the host is no name; each part has 1 to 63 letters or digits") from None
    return host


def is_utf8(text: str) -> bool:
    """Return whether a text is valid; a variable with other bytes has lone surrogates instead."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
