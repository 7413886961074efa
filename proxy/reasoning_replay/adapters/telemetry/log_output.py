"""
Log output: a thread that writes lines to a file descriptor, so that no request ever waits.

The reader of the log may stall: a paused collector, a full pipe. Lines wait in a bounded queue, and
the thread writes all queued lines in one call. It wakes at most once in WAIT_S, because waking it
for each line would cost an exchange more than the rest of logging.
"""

import atexit
import contextlib
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable

QUEUED_LINES = 1000
WAIT_S = 0.02
# Longest wait of `close` for a stalled reader.
CLOSES_S = 1.0
POLL_S = 0.005


class LineWriter:
    """
    Background writer of lines to a file, pipe or terminal; the thread starts with the first line.

    Overflow is dropped; `lost` makes the line that reports the number of dropped lines.
    """

    def __init__(self, fd: int, lost: Callable[[int], str]) -> None:
        self._fd = fd
        self._lost = lost
        self._lines: deque[str] = deque()
        self._lost_lines = 0
        self._has_lines = threading.Event()
        self._is_writing = False
        self._thread: threading.Thread | None = None

    def write(self, line: str) -> None:
        """Queue one line, given without a line break. Never blocks, never raises."""
        if len(self._lines) >= QUEUED_LINES or not self._is_started():
            self._lost_lines += 1
            return
        if self._lost_lines:
            self._lines.append(self._lost(self._lost_lines))
            self._lost_lines = 0
        self._lines.append(line)
        if not self._has_lines.is_set():  # `set` takes a lock
            self._has_lines.set()

    @property
    def is_empty(self) -> bool:
        """Whether every line was written."""
        return not (self._lines or self._is_writing)

    def close(self) -> None:
        """Wait up to CLOSES_S until all lines are written; later lines are still accepted."""
        deadline = time.monotonic() + CLOSES_S
        while not self.is_empty and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def _is_started(self) -> bool:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="log", daemon=True)
            with contextlib.suppress(RuntimeError):  # no thread can be started
                thread.start()
                self._thread = thread
                atexit.register(self.close)
        return self._thread is not None

    def _run(self) -> None:
        while True:
            self._has_lines.wait()
            time.sleep(WAIT_S)
            self._has_lines.clear()
            self._is_writing = True
            lines = [self._lines.popleft() for _ in range(len(self._lines))]
            data = "".join([f"{line}\n" for line in lines])
            with contextlib.suppress(OSError):  # a full disk or a closed pipe
                _write_all(self._fd, data.encode("utf-8", "backslashreplace"))
            self._is_writing = False


def _write_all(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:  # another process has set O_NONBLOCK
            select.select([], [fd], [])
