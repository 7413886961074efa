"""A line of the log for people: short, aligned, with units. Programs read JSON instead."""

import json
import os
import re
import time
from collections.abc import Mapping
from typing import IO

from reasoning_replay.adapters.telemetry.log import Value

__all__ = ["is_coloured", "text_line"]

# What needs no quotes: it is one word, and neither ends the line nor steers a terminal.
_WORD = re.compile(r"[!#-<>-\[\]-~]+")
# The ids by which something is deleted are long, and whole in JSON alone.
_HASHES = frozenset({"scope", "conversation", "trace_id"})
_HASH_DIGITS = 8
# Of an exchange: its columns, and how wide they are.
_COLUMNS = {"route": 12, "status": 3, "outcome": 14, "total_ms": 7}
_USUAL = {"asked": "planned"}
_FOR_PROGRAMS = frozenset(
    {
        *("scope", "request_id", "upstream_request_id", "trace_id"),
        *("injected_bytes", "captured_bytes", "cached_tokens", "between_ms", "after_ms"),
    }
)
_MS, _BYTES = "_ms", "_bytes"
_SECOND_MS = 1000
_THOUSAND = 1000
_RESET, _DIM, _RED, _YELLOW = "\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[33m"
_COLOURS = {"debug": _DIM, "info": "", "warning": _YELLOW, "error": _RED}


def is_coloured(stream: IO[str]) -> bool:
    """Tell whether a stream is a terminal whose user has nothing against colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def text_line(
    now_s: float, level: str, event: str, fields: Mapping[str, Value], *, coloured: bool
) -> str:
    """
    Spell an event.

    An exchange begins with what is the same of all, in columns. One that went well is told in
    short: what is 0, usual, or for looking things up elsewhere is left out.

    Args:
        now_s: Since the epoch; told as the local time of day.
        level: How bad it is.
        event: What happened.
        fields: What is None is left out. Values may be anybody's: they stay on their line.
        coloured: Whether the level may have a colour.
    """
    clock = time.strftime("%H:%M:%S", time.localtime(now_s))
    left = {key: value for key, value in fields.items() if value is not None}
    said = event
    if event == "exchange":
        cells = (_told(name, left.pop(name, None)) for name in _COLUMNS)
        said = " ".join(
            f"{cell:{width}}" for cell, width in zip(cells, _COLUMNS.values(), strict=True)
        )
        left = {key: value for key, value in left.items() if value}
        if level == "info":
            left = {key: value for key, value in left.items() if _is_telling(key, value)}
    words = [said, *(f"{_named(key, left)}={_told(key, value)}" for key, value in left.items())]
    line = " ".join(words).rstrip()
    if not coloured:
        return f"{clock} {level:7} {line}"
    return f"{_DIM}{clock}{_RESET} {_COLOURS[level]}{level:7}{_RESET} {line}"


def _is_telling(key: str, value: Value) -> bool:
    return key not in _FOR_PROGRAMS and value != _USUAL.get(key)


def _named(key: str, fields: Mapping[str, Value]) -> str:
    """Leave the unit to the value, where nothing else has that name."""
    short = key.removesuffix(_MS).removesuffix(_BYTES)
    return key if short in fields else short


def _told(key: str, value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        if key in _HASHES and len(value) > _HASH_DIGITS and value.isascii() and value.isalnum():
            return value[:_HASH_DIGITS] + ".."
        return value if _WORD.fullmatch(value) else json.dumps(value)
    if value is None:
        return "-"
    if key.endswith(_MS):
        return f"{value:g}ms" if value < _SECOND_MS else f"{value / _SECOND_MS:.1f}s"
    return _size(value) if key.endswith(_BYTES) else f"{value}"


def _size(size: float) -> str:
    """Return a number of bytes with three digits or so."""
    unit = "B"
    for larger in ("kB", "MB", "GB"):
        if size < _THOUSAND:
            break
        size, unit = size / _THOUSAND, larger
    return f"{size}B" if unit == "B" else f"{size:.1f}{unit}"
