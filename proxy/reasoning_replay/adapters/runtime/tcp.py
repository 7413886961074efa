"""TCP sockets: file limit, unread input, and whether a peer takes what is written to it."""

import asyncio
import contextlib
import select
import socket
import sys

__all__ = [
    "WriteProgress",
    "buffered_bytes",
    "keep_little_unsent",
    "raise_file_limit",
    "unread_poll",
]

# The system's own send buffer grows to megabytes. With this option, it takes no more than so much
# ahead of what it can send, so that the write buffer of the process shows a peer's progress.
UNSENT_BYTES = 128 * 1024


def raise_file_limit() -> int | None:
    """Raise the soft limit of open files to the hard one; return it, or None if it is unknown."""
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


def keep_little_unsent(listening: socket.socket) -> None:
    """Bound the unsent bytes in the system, for all connections of a listening socket."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # Linux and macOS
    if option is not None:
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


def buffered_bytes(transport: asyncio.WriteTransport) -> int:
    """Return how many bytes wait in the write buffer of a transport."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:
        return 0  # asyncio's TLS, closed twice: it ends by itself


def unread_poll(transport: asyncio.Transport) -> "select.poll | None":
    """Return a poll that tells whether input has arrived; None where the system has none."""
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None:
        return None
    unread = select.poll()
    unread.register(connection.fileno(), select.POLLIN)
    return unread


class WriteProgress:
    """
    Progress of one transport's write buffer, by looking at it now and then.

    Attributes:
        transport: The transport.
    """

    __slots__ = ("_buffered", "_since_s", "transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Begin with an empty buffer."""
        self.transport = transport
        self._buffered = 0
        self._since_s = 0.0

    def stalled_s(self, now_s: float) -> float:
        """Return for how many seconds the peer has taken nothing, as far as calls of this show."""
        buffered = buffered_bytes(self.transport)
        if not buffered or buffered != self._buffered:
            self._buffered, self._since_s = buffered, now_s
        return now_s - self._since_s
