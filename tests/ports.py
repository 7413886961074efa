"""Ports of this machine on which no server listens."""

import functools
import socket

__all__ = ["closed_port", "free_port"]


def free_port() -> int:
    """Return a port for a server of the test."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


@functools.cache
def _held() -> socket.socket:
    """Return a socket that has a port and does not listen, for as long as the tests run."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held


def closed_port() -> int:
    """Return a port that refuses connections. No server gets it meanwhile, as it has an owner."""
    port: int = _held().getsockname()[1]
    return port
