"""What asyncio does not tell of its sockets: how much the other side has taken, and has sent."""

import asyncio
import contextlib
import os
import select
import socket
import struct
import sys

__all__ = ["Stall", "buffered_bytes", "raise_file_limit", "unread_poll"]

# struct tcp_info of Linux: tcpi_bytes_acked, since 4.1. https://man7.org/linux/man-pages/man7/tcp.7.html
_ACKED = struct.Struct("=Q")
_ACKED_AT = 120


def raise_file_limit() -> int | None:
    """Let this process open as many files as it may, and return how many; None: not known."""
    try:
        import resource  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS has a lower one, which it hides
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return None if soft == resource.RLIM_INFINITY else soft


def buffered_bytes(transport: asyncio.WriteTransport) -> int:
    """Return how much waits for the other side in this process."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:
        return 0  # asyncio's TLS, closed twice: it sees to its own end


def unread_poll(transport: asyncio.Transport) -> "select.poll | None":
    """Return what tells whether something has come; None where the system cannot."""
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None:
        return None
    unread = select.poll()
    unread.register(connection.fileno(), select.POLLIN)
    return unread


class Stall:
    """
    Follows whether the other side of a connection takes what there is for it.

    A system's own buffers hold megabytes, so what it has taken from us says little: where the
    system tells what the other side has acknowledged, that is gone by.
    """

    __slots__ = ("_since_s", "_taken", "_transport")

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        """Begin with a connection for which nothing waits."""
        self._transport = transport
        self._taken: tuple[int, int] | None = None
        self._since_s = 0.0

    def lasts_s(self, now_s: float) -> float:
        """Return since when it has taken nothing, as far as the calls of this can tell."""
        left = buffered_bytes(self._transport)
        if not left:
            self._taken = None
            return 0.0
        taken = (left, self._acknowledged())
        if taken != self._taken:
            self._taken, self._since_s = taken, now_s
        return now_s - self._since_s

    def _acknowledged(self) -> int:
        connection = self._transport.get_extra_info("socket")
        if connection is None or not sys.platform.startswith("linux"):
            return 0
        # The loop's own object for the socket offers no options; it may be closed already.
        with contextlib.suppress(OSError, struct.error):
            with socket.socket(fileno=os.dup(connection.fileno())) as twin:
                size = _ACKED_AT + _ACKED.size
                told = twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, size)
            acknowledged: int = _ACKED.unpack_from(told, _ACKED_AT)[0]
            return acknowledged
        return 0
