"""
Standard output that nobody waits for.

Whoever reads a log may stall: a collector that is paused, a driver that blocks. A write into a
full pipe would stop the whole process, so what does not go out at once is kept for later, and
beyond a bound it is lost.
"""

import contextlib
import os
import select
from collections import deque
from typing import IO

__all__ = ["Output"]

# A pipe that can be written to takes so much at once (PIPE_BUF in pipe(7)).
AT_ONCE_BYTES = 4096
KEPT_LINES = 1000


class Output:
    """
    Lines to a stream, as fast as its reader takes them.

    Where several processes share a pipe, one may still be held up, if another takes the last room
    between a look and a write.

    Attributes:
        lost: Lines that were lost so far.
    """

    def __init__(self, stream: IO[str]) -> None:
        """Write to a stream; one that is no open file takes everything at once."""
        self.lost = 0
        self._stream = stream
        self._left: deque[bytes] = deque()
        self._fd = -1
        with contextlib.suppress(OSError, ValueError, AttributeError):  # no `poll` on Windows
            self._poll = select.poll()
            self._poll.register(stream.fileno(), select.POLLOUT)
            self._fd = stream.fileno()

    def write(self, line: str) -> None:
        """
        Write a line, ended by a line break of ours.

        Raises:
            OSError, ValueError: It cannot be written.
        """
        if self._fd < 0:
            self._stream.write(line + "\n")
            self._stream.flush()
        elif self.is_full and not self._poll.poll(0):
            self.lost += 1
        else:
            self._left.append(line.encode("utf-8", "backslashreplace") + b"\n")
            self._send()

    @property
    def is_full(self) -> bool:
        """Whether a line that does not go out at once is lost."""
        return len(self._left) >= KEPT_LINES

    def _send(self) -> None:
        try:
            while self._left and self._poll.poll(0):
                data = self._left.popleft()
                sent = os.write(self._fd, data[:AT_ONCE_BYTES])
                if sent < len(data):
                    self._left.appendleft(data[sent:])
        except OSError:
            self._left.clear()  # nobody will ever read it
            raise
