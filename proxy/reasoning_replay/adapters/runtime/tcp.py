"""TCP sockets: open-file limit, keep-alive, vanished peers, unread input, progress of writes."""

import asyncio
import contextlib
import os
import select
import socket
import struct
import sys

# The kernel's send buffer can grow to megabytes. This limit on its unsent bytes keeps further data
# in the write buffer of the process, which then shows the progress of a peer.
UNSENT_BYTES = 128 * 1024

# NATs and firewalls forget a flow that was silent for 120 to 350 s; a reasoning model is silent for
# 300 to 700 s. So the first probe is sent after this silence, and then one per interval. A peer
# that answers none of them is gone: the connection fails 90 s after its last sign of life.
KEEP_ALIVE_IDLE_S = 45
KEEP_ALIVE_INTERVAL_S = 15
KEEP_ALIVE_PROBES = 3

# Keep-alive does not act while bytes wait for the peer; the system tries for a quarter of an hour.
# A peer is gone if nothing arrived from it for this time, in spite of this many attempts in a row.
# TCP_USER_TIMEOUT would be simpler, but it also ends a connection whose peer acknowledges each
# probe and only has no room: a local server that reads a request when it is its turn.
GONE_S = 60
GONE_ATTEMPTS = 3
# A look for it costs 3 microseconds, so each connection that waits is looked at this often.
LOOK_S = 15.0
# `struct tcp_info` of Linux: state, unanswered retransmissions and window probes, and milliseconds
# since the last data and the last acknowledgement.
_TCP_INFO = struct.Struct("=BxBB48xII")
_CLOSED = 7


def raise_file_limit() -> int | None:
    """Raise the limit of open files to the hard limit; return it, None if unknown or unlimited."""
    try:
        import resource  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS has a lower limit, not reported
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return None if soft == resource.RLIM_INFINITY else soft


def keep_little_unsent(listening: socket.socket) -> None:
    """Limit the unsent bytes in the kernel, for all connections of a listening socket."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)  # Linux and macOS
    if option is not None:
        with contextlib.suppress(OSError):
            listening.setsockopt(socket.IPPROTO_TCP, option, UNSENT_BYTES)


def keep_alive_options() -> dict[int, int]:
    """Return the TCP options of keep-alive, as far as the system has them, with their values."""
    idle = "TCP_KEEPALIVE" if sys.platform == "darwin" else "TCP_KEEPIDLE"
    named = {
        idle: KEEP_ALIVE_IDLE_S,
        "TCP_KEEPINTVL": KEEP_ALIVE_INTERVAL_S,
        "TCP_KEEPCNT": KEEP_ALIVE_PROBES,
    }
    return {getattr(socket, name): value for name, value in named.items() if hasattr(socket, name)}


def keep_alive(connection: socket.socket) -> None:
    """Turn keep-alive on; connections that a listening socket accepts inherit it on Linux."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in keep_alive_options().items():
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def is_gone(transport: asyncio.BaseTransport) -> bool:
    """
    Return whether bytes wait for a peer that has vanished: GONE_S without a sign of life.

    Only Linux tells; elsewhere it is never true, and the system's own retries decide.
    """
    _, retries, probes, data_ms, acknowledged_ms = _tcp_info(transport)
    return max(retries, probes) >= GONE_ATTEMPTS and min(data_ms, acknowledged_ms) >= GONE_S * 1000


def is_reset(transport: asyncio.BaseTransport) -> bool:
    """Return whether the peer has reset a connection; a loop that does not read it is not told."""
    return _tcp_info(transport)[0] == _CLOSED


def _tcp_info(transport: asyncio.BaseTransport) -> tuple[int, ...]:
    """Return what the system knows of a connection, as `_TCP_INFO`; zeros if it does not tell."""
    connection = transport.get_extra_info("socket")
    if sys.platform != "linux" or connection is None:
        return (0,) * 5
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        return _TCP_INFO.unpack(info)
    except (OSError, ValueError, struct.error):  # closed (uvloop: ValueError), or not TCP
        return (0,) * 5


def buffered_bytes(transport: asyncio.WriteTransport) -> int:
    """Return the number of bytes in the write buffer of a transport."""
    try:
        return transport.get_write_buffer_size()
    except AttributeError:
        return 0  # a TLS transport of asyncio that was closed twice; it ends on its own


def unread_poll(transport: asyncio.Transport) -> "select.poll | None":
    """Return a poll object that detects unread input; None on Windows or without a socket."""
    connection = transport.get_extra_info("socket")
    if sys.platform == "win32" or connection is None:
        return None
    unread = select.poll()
    unread.register(connection.fileno(), select.POLLIN)
    return unread


def take_unread(transport: asyncio.Transport) -> bytes:
    """
    Read input that has arrived on a connection whose transport failed, up to 64 KiB.

    To be called within `connection_lost`, before the loop closes the socket. Returns b"" if there
    is none, and for TLS, whose state has ended with the transport.
    """
    connection = transport.get_extra_info("socket")
    is_encrypted = transport.get_extra_info("ssl_object") is not None
    if sys.platform == "win32" or connection is None or is_encrypted:
        return b""
    try:
        return os.read(connection.fileno(), 64 * 1024)
    except OSError:
        return b""


class WriteProgress:
    """Progress of one transport's write buffer, sampled by each call of `stalled_s`."""

    __slots__ = ("_buffered", "_since_s", "transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._buffered = 0
        self._since_s = 0.0

    def stalled_s(self, now_s: float) -> float:
        """Return the seconds without progress, as seen by earlier calls; 0 if nothing waits."""
        buffered = buffered_bytes(self.transport)
        if not buffered or buffered != self._buffered:
            self._buffered, self._since_s = buffered, now_s
        return now_s - self._since_s
