"""Logs: one line for each event, JSON or text, on standard output. Never a body, key or blob."""

import json
import sys
import time
from typing import IO

import msgspec

from proxy.adapters.output import Output

__all__ = ["Log"]

Value = str | int | float | bool | None
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """
    Writes events.

    error: a request failed through us or upstream. warning: something failed and we carried on.
    info: start, drain, stop, and one line for each exchange.
    """

    def __init__(
        self, level: str, form: str, stream: IO[str] | None = None, worker: int = 0
    ) -> None:
        """
        Write to a stream.

        Args:
            level: `debug`, `info`, `warning` or `error`; what is below it is left out.
            form: `json`, `text`, or `auto`: text on a terminal, JSON elsewhere.
            stream: Standard output when None.
            worker: The number of this process among several, which each line tells; 0: it is alone.
        """
        self._fixed: dict[str, Value] = {"worker": worker} if worker else {}
        stream = sys.stdout if stream is None else stream
        self._output = Output(stream)
        self._lost = 0
        self._level = _LEVELS[level]
        self._as_text = form == "text" or (form == "auto" and stream.isatty())

    def info(self, event: str, **fields: Value) -> None:
        """Write what happens in normal operation."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Value) -> None:
        """Write what failed while the exchange went on."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Value) -> None:
        """Write what a client saw fail."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Value]) -> None:
        if _LEVELS[level] < self._level:
            return
        try:
            self._output.write(self._spelled(level, event, fields))
            if self._output.lost != self._lost and not self._output.is_full:
                lost, self._lost = self._output.lost - self._lost, self._output.lost
                self._output.write(self._spelled("warning", "log_lines_lost", {"lines": lost}))
        except (OSError, ValueError):
            pass  # a full disk or a closed pipe must not fail a request

    def _spelled(self, level: str, event: str, fields: dict[str, Value]) -> str:
        now = time.time()
        fields = self._fixed | fields
        if self._as_text:
            clock = time.strftime("%H:%M:%S", time.localtime(now))
            words = " ".join(f"{key}={value}" for key, value in fields.items() if value is not None)
            return f"{clock} {level:7} {event} {words}".rstrip()
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z"
        line = {"time": at, "level": level, "event": event, **fields}
        try:
            return msgspec.json.encode(line).decode()
        except UnicodeEncodeError:  # half a surrogate, in what somebody else has named
            return json.dumps(line)
