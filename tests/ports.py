"""Free ports of this machine."""

import socket

__all__ = ["free_port"]


def free_port() -> int:
    """Return a port on which no server listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
