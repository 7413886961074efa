"""
Connections that an event loop leaves open: they fail the test whose loop it is.

Else the garbage collector finds them while another test runs, and that one fails.
"""

import warnings
from asyncio.selector_events import BaseSelectorEventLoop
from typing import Any

__all__ = ["left_open", "watch"]


def left_open(loop: Any) -> list[Any]:
    """Return the transports of a loop that still have their sockets."""
    known: dict[int, Any] = loop._transports
    return [one for one in [*known.values()] if one._sock is not None]


def watch() -> None:
    """From now on, warn when a loop is closed that leaves connections open, and close them."""
    close = BaseSelectorEventLoop.close

    def closes(loop: Any) -> None:
        left = [] if loop.is_running() or loop.is_closed() else left_open(loop)
        words = ", ".join(f"{one!r} to {one.get_extra_info('peername')}" for one in left)
        close(loop)
        for one in left:
            one._sock.close()
            one._sock = None
        if left:
            warnings.warn(f"left open by a loop: {words}", ResourceWarning, stacklevel=2)

    BaseSelectorEventLoop.close = closes  # type: ignore[assignment,method-assign]
