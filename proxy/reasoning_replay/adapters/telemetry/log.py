"""Logs: one line for each event, JSON or text, on standard output. Never a body, key or blob."""

import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import IO

import msgspec

from reasoning_replay.adapters.telemetry.log_output import Output

__all__ = ["Log", "Value", "called"]

Value = str | int | float | bool | None
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
# What somebody else has named: so much of it, and nothing but what can be printed everywhere.
NAME_MAX = 96
_ODD = re.compile(r"[^ -~]")


def called(name: str) -> str | None:
    """Return what somebody else has named, fit for a log: bounded and of ASCII; None if empty."""
    if len(name) > NAME_MAX or not (name.isascii() and name.isprintable()):
        name = _ODD.sub("?", name[: NAME_MAX + 1])
        name = name if len(name) <= NAME_MAX else name[: NAME_MAX - 2] + ".."
    return name or None


class Log:
    """
    Writes events.

    error: a request failed through us or upstream. warning: something failed and we carried on.
    info: start, drain, stop, and one line for each exchange that went well.
    """

    def __init__(self, level: str, form: str, stream: IO[str] | None = None) -> None:
        """
        Write to a stream.

        Args:
            level: `debug`, `info`, `warning` or `error`; what is below it is left out.
            form: `json`, `text`, or `auto`: text on a terminal, JSON elsewhere.
            stream: Standard output when None.
        """
        stream = sys.stdout if stream is None else stream
        self._output = Output(stream)
        self._lost = 0
        self._level = _LEVELS[level]
        is_text = form == "text" or (form == "auto" and stream.isatty())
        self._text_line = _text_line(stream) if is_text else None

    def takes(self, level: str) -> bool:
        """Tell whether anything of this level is written."""
        return _LEVELS[level] >= self._level

    def info(self, event: str, **fields: Value) -> None:
        """Write what happens in normal operation."""
        if self.takes("info"):
            self.write("info", event, fields)

    def warning(self, event: str, **fields: Value) -> None:
        """Write what failed while the exchange went on."""
        if self.takes("warning"):
            self.write("warning", event, fields)

    def error(self, event: str, **fields: Value) -> None:
        """Write what a client saw fail."""
        if self.takes("error"):
            self.write("error", event, fields)

    def write(self, level: str, event: str, fields: Mapping[str, Value]) -> None:
        """Write what happened, whatever its level; a field that is None is left out."""
        try:
            self._output.write(self._spelled(level, event, fields))
            if self._output.lost != self._lost and not self._output.is_full:
                lost, self._lost = self._output.lost - self._lost, self._output.lost
                self._output.write(self._spelled("warning", "log_lines_lost", {"lines": lost}))
        except (OSError, ValueError):
            pass  # a full disk or a closed pipe must not fail a request

    def _spelled(self, level: str, event: str, fields: Mapping[str, Value]) -> str:
        now = time.time()
        if self._text_line is not None:
            return self._text_line(now, level, event, fields)
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z"
        line: dict[str, Value] = {"time": at, "level": level, "event": event}
        line |= {key: value for key, value in fields.items() if value is not None}
        try:
            return msgspec.json.encode(line).decode()
        except UnicodeEncodeError:  # half a surrogate, in what somebody else has named
            return json.dumps(line)


def _text_line(stream: IO[str]) -> Callable[[float, str, str, Mapping[str, Value]], str]:
    """Return what spells a line for people."""
    from reasoning_replay.adapters.telemetry import log_text  # noqa: PLC0415 (most write JSON, and need none of it)

    return partial(log_text.text_line, coloured=log_text.is_coloured(stream))
