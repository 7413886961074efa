"""
Log: one line for each event, JSON or text, on standard output. Never a body, a key or a blob.

Logging never blocks: lines pass through a bounded queue to a thread that writes them. While the
reader of standard output stalls and the queue is full, lines are dropped and counted.
"""

import atexit
import contextlib
import json
import logging
import os
import re
import select
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue
from typing import IO

import msgspec

from reasoning_replay.adapters.telemetry.log_text import Value, is_coloured, text_line

__all__ = ["Log", "Value", "called"]

# Names that others chose are cut to this length, and to characters that print everywhere.
NAME_MAX = 96
_ODD = re.compile(r"[^ -~]")
QUEUED_LINES = 1000
# How long the end of the process waits for the reader of standard output.
CLOSES_S = 1.0


def called(name: str) -> str | None:
    """Return a name that another party chose, bounded and in ASCII; None if it is empty."""
    if len(name) > NAME_MAX or not (name.isascii() and name.isprintable()):
        name = _ODD.sub("?", name[: NAME_MAX + 1])
        name = name if len(name) <= NAME_MAX else name[: NAME_MAX - 2] + ".."
    return name or None


class Log:
    """
    Writes events; never blocks, and no failure to write reaches the caller.

    error: a request failed in the proxy or upstream. warning: something failed and the exchange
    went on. info: start, drain, stop, and one line for each exchange that went well.
    """

    def __init__(self, level: str, form: str, stream: IO[str] | None = None) -> None:
        """
        Write to a stream.

        Args:
            level: `debug`, `info`, `warning` or `error`; events below it are left out.
            form: `json`, `text`, or `auto`: text on a terminal, JSON elsewhere.
            stream: Standard output when None.
        """
        stream = sys.stdout if stream is None else stream
        self._levels = logging.getLevelNamesMapping()
        self._level = self._levels[level.upper()]
        is_text = form == "text" or (form == "auto" and stream.isatty())
        self._line = partial(text_line, coloured=is_coloured(stream)) if is_text else _json_line
        self._handler: logging.Handler
        try:
            self._handler = _Queueing(stream.fileno(), self._lost)
        except (OSError, ValueError, AttributeError):  # a stream in memory never blocks
            self._handler = _Output(stream.write)

    def takes(self, level: str) -> bool:
        """Return whether events of this level are written."""
        return self._levels[level.upper()] >= self._level

    def info(self, event: str, **fields: Value) -> None:
        """Write an event of normal operation."""
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Value) -> None:
        """Write a failure after which the exchange went on."""
        self.write("warning", event, fields)

    def error(self, event: str, **fields: Value) -> None:
        """Write a failure that a client saw."""
        self.write("error", event, fields)

    def write(self, level: str, event: str, fields: Mapping[str, Value]) -> None:
        """Write an event; a field that is None is left out."""
        if self.takes(level):
            self._handler.handle(_record(self._line(time.time(), level, event, fields)))

    def _lost(self, lines: int) -> logging.LogRecord:
        return _record(self._line(time.time(), "warning", "log_lines_lost", {"lines": lines}))

    def close(self) -> None:
        """Wait until all lines are written, one second at the most; later lines may follow."""
        self._handler.close()


def _record(line: str) -> logging.LogRecord:
    return logging.LogRecord("", logging.INFO, "", 0, line, None, None)


def _json_line(now_s: float, level: str, event: str, fields: Mapping[str, Value]) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s)) + f".{int(now_s % 1 * 1000):03}Z"
    line: dict[str, Value] = {"time": at, "level": level, "event": event}
    line |= {key: value for key, value in fields.items() if value is not None}
    try:
        return msgspec.json.encode(line).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, in a name that another party chose
        return json.dumps(line)


class _Output(logging.Handler):
    """Writes lines. It holds no lock while it blocks, because the exit would wait for it."""

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def handle(self, record: logging.LogRecord) -> bool:
        with contextlib.suppress(OSError, ValueError):  # a full disk or a closed pipe
            self._write(f"{record.msg}\n")
        return True


def _write_all(fd: int, line: str) -> None:
    data = line.encode("utf-8", "backslashreplace")
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:  # another process has set O_NONBLOCK
            select.select([], [fd], [])


class _Queueing(QueueHandler):
    """Passes lines to a thread that writes them; the thread starts with the first line."""

    def __init__(self, fd: int, lost: Callable[[int], logging.LogRecord]) -> None:
        self._lines: Queue[logging.LogRecord] = Queue(QUEUED_LINES)
        super().__init__(self._lines)
        self._output = _Output(partial(_write_all, fd))
        self._listener: QueueListener | None = None
        self._lost_lines = 0
        self._lost = lost

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record  # it holds a finished line

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self._listener is None:
                listener = QueueListener(self._lines, self._output)
                listener.start()
                self._listener = listener
                atexit.register(self.close)
            if self._lost_lines:
                self._lines.put_nowait(self._lost(self._lost_lines))
                self._lost_lines = 0
            self._lines.put_nowait(record)
        except (Full, RuntimeError):  # RuntimeError: no thread can be started
            self._lost_lines += 1

    def close(self) -> None:
        """Wait until all lines are written; stop the thread, unless it hangs."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, CLOSES_S)
        if self._listener is not None and not self._lines.unfinished_tasks:
            self._listener.stop()
            self._listener = None
            atexit.unregister(self.close)
