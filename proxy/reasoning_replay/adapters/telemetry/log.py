"""
Log: one line per event on standard output, as JSON or text, without bodies, keys and blobs.

Logging never blocks: lines pass through a bounded queue to a thread that writes them. If standard
output stalls and the queue is full, further lines are dropped and counted.
"""

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import IO

import msgspec

from reasoning_replay.adapters.telemetry.log_output import LineWriter
from reasoning_replay.adapters.telemetry.log_text import Value, is_coloured, text_line

__all__ = ["FIELD_NAMES", "NAME_MAX", "Log", "Value", "called"]

# Names chosen by a client or upstream are cut to this length and reduced to printable ASCII.
NAME_MAX = 96
_ODD = re.compile(r"[^ -~]")
# Names that collectors expect in JSON instead of the log's own. `error` and `client` are objects in
# ECS, so Elasticsearch would reject a line that has text under these names.
FIELD_NAMES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "gcp": {"level": "severity", "event": "message"},
    "ecs": {
        "time": "@timestamp",
        "level": "log.level",
        "event": "message",
        "error": "error.type",
        "error_detail": "error.message",
        "client": "client.ip",
        "trace_id": "trace.id",
    },
}
# Severities of Google Cloud are upper-case; each line of ECS has the version of the schema.
_UPPER_CASE = "gcp"
_ALSO: Mapping[str, Mapping[str, Value]] = {"ecs": {"ecs.version": "8.11.0"}}
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def called(name: str, most: int = NAME_MAX) -> str | None:
    """Return a name chosen by a client or upstream, as short, printable ASCII; None if empty."""
    if len(name) > most or not (name.isascii() and name.isprintable()):
        name = _ODD.sub("?", name[: most + 1])
        name = name if len(name) <= most else name[: most - 2] + ".."
    return name or None


class Log:
    """
    Event log that never blocks the caller and never raises a write error.

    Levels: `error`: a request failed in the proxy or upstream. `warning`: something failed, but the
    exchange continued. `info`: start, drain, stop, and one line for each successful exchange.
    """

    def __init__(
        self, level: str, form: str, stream: IO[str] | None = None, *, fields: str = "default"
    ) -> None:
        """
        Choose the level, the format and the output stream.

        Args:
            level: `debug`, `info`, `warning` or `error`; events below it are not written.
            form: `json`, `text`, or `auto`: text on a terminal, JSON elsewhere.
            stream: None: standard output.
            fields: Names of the fields in JSON: a key of FIELD_NAMES.
        """
        stream = sys.stdout if stream is None else stream
        self._level = _LEVELS[level]
        is_text = form == "text" or (form == "auto" and stream.isatty())
        self._line: Callable[[float, str, str, Mapping[str, Value]], str]
        if is_text:
            self._line = partial(text_line, coloured=is_coloured(stream))
        else:
            self._line = partial(_json_line, fields)
        self._writer: LineWriter | None = None
        self._stream = stream
        with contextlib.suppress(OSError, ValueError, AttributeError):  # a stream in memory
            self._writer = LineWriter(stream.fileno(), self._lost)

    def takes(self, level: str) -> bool:
        """Return whether events of this level are written."""
        return _LEVELS[level] >= self._level

    def info(self, event: str, **fields: Value) -> None:
        """Log an event of normal operation."""
        self.write("info", event, fields)

    def warning(self, event: str, **fields: Value) -> None:
        """Log a failure that did not stop the exchange."""
        self.write("warning", event, fields)

    def error(self, event: str, **fields: Value) -> None:
        """Log a failure that reached a client."""
        self.write("error", event, fields)

    def write(self, level: str, event: str, fields: Mapping[str, Value]) -> None:
        """Log an event; fields that are None are omitted."""
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
        """Wait up to one second until all lines are written; the log stays usable."""
        if self._writer is not None:
            self._writer.close()


@lru_cache(maxsize=2)
def _second(now_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_s))


def _json_line(
    naming: str, now_s: float, level: str, event: str, fields: Mapping[str, Value]
) -> str:
    """Format an event as JSON, with the names of a collector."""
    line: dict[str, Value] = {
        "time": f"{_second(int(now_s))}.{int(now_s % 1 * 1000):03}Z",
        "level": level.upper() if naming == _UPPER_CASE else level,
        "event": event,
        **_ALSO.get(naming, {}),
    }
    if None in fields.values():
        fields = {key: value for key, value in fields.items() if value is not None}
    line |= fields
    if names := FIELD_NAMES[naming]:
        line = {names.get(key, key): value for key, value in line.items()}
    try:
        return msgspec.json.encode(line).decode()
    except UnicodeEncodeError:  # a lone surrogate, in a name that a client or upstream chose
        return json.dumps(line)
