"""
Log: one line for each event, JSON or text, on standard output. Never a body, a key or a blob.

Logging never blocks: lines pass through a bounded queue to a thread that writes them. While the
reader of standard output stalls and the queue is full, lines are dropped and counted.
"""

import contextlib
import json
import re
import sys
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import IO

import msgspec

from reasoning_replay.adapters.telemetry.log_output import LineWriter
from reasoning_replay.adapters.telemetry.log_text import Value, is_coloured, text_line

__all__ = ["Log", "Value", "called"]

# Names that others chose are cut to this length, and to characters that print everywhere.
NAME_MAX = 96
_ODD = re.compile(r"[^ -~]")
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


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
        self._level = _LEVELS[level]
        is_text = form == "text" or (form == "auto" and stream.isatty())
        self._line = partial(text_line, coloured=is_coloured(stream)) if is_text else _json_line
        self._writer: LineWriter | None = None
        self._stream = stream
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream in memory
            self._writer = LineWriter(stream.fileno(), self._lost)

    def takes(self, level: str) -> bool:
        """Return whether events of this level are written."""
        return _LEVELS[level] >= self._level

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
        if not self.takes(level):
            return
        line = self._line(time.time(), level, event, fields)
        if self._writer is not None:
            self._writer.write(line)
        else:
            with contextlib.suppress(OSError, ValueError):  # a stream that was closed
                self._stream.write(f"{line}\n")

    def _lost(self, lines: int) -> str:
        return self._line(time.time(), "warning", "log_lines_lost", {"lines": lines})

    def close(self) -> None:
        """Wait until all lines are written, one second at the most; later lines may follow."""
        if self._writer is not None:
            self._writer.close()


@lru_cache(maxsize=2)
def _second(now_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s))


def _json_line(now_s: float, level: str, event: str, fields: Mapping[str, Value]) -> str:
    at = f"{_second(int(now_s))}.{int(now_s % 1 * 1000):03}Z"
    line: dict[str, Value] = {"time": at, "level": level, "event": event}
    line |= {key: value for key, value in fields.items() if value is not None}
    try:
        return msgspec.json.encode(line).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, in a name that another party chose
        return json.dumps(line)
