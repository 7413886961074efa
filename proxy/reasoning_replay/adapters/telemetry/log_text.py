"""Text log format: short, aligned lines with units, for people. Programs read JSON instead."""

import json
import os
import re
import time
from collections.abc import Mapping
from typing import IO

Value = str | int | float | bool | None
# A value that needs no quotes: one word, without control characters.
_WORD = re.compile(r"[!#-<>-\[\]-~]+")
# The columns of an exchange, and their widths.
_COLUMNS = {"route": 12, "status": 3, "outcome": 14, "total_ms": 7}
_USUAL = {"asked": "planned"}
_FOR_PROGRAMS = frozenset(
    {
        *("scope", "upstream_request_id", "trace_id", "client"),
        *("injected_bytes", "captured_bytes", "cached_tokens", "between_ms", "after_ms"),
    }
)
_MS, _BYTES = "_ms", "_bytes"
_SECOND_MS = 1000
_THOUSAND = 1000
_RESET, _DIM, _RED, _YELLOW = "\x1b[0m", "\x1b[2m", "\x1b[31m", "\x1b[33m"
_COLOURS = {"debug": _DIM, "info": "", "warning": _YELLOW, "error": _RED}


def is_coloured(stream: IO[str]) -> bool:
    """Return whether a stream is a terminal with colours: NO_COLOR unset, TERM not `dumb`."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def text_line(
    now_s: float, level: str, event: str, fields: Mapping[str, Value], *, coloured: bool
) -> str:
    """
    Format an event, at `now_s` seconds since the epoch, with the local time of day.

    Fields that are None are omitted; values are quoted if they need more than a word. The line of
    an exchange begins with columns, and omits fields that are 0 or empty. At level `info`, it also
    omits usual values and fields that only programs need. A conversation is written with its scope,
    as the paths of the admin port have it.
    """
    clock = time.strftime("%H:%M:%S", time.localtime(now_s))
    rest = {key: value for key, value in fields.items() if value is not None}
    first = event
    if event == "exchange":
        cells = (_value(name, rest.pop(name, None)) for name in _COLUMNS)
        first = " ".join(
            f"{cell:{width}}" for cell, width in zip(cells, _COLUMNS.values(), strict=True)
        )
        rest = {key: value for key, value in rest.items() if value}
        if "scope" in rest and "conversation" in rest:
            rest["conversation"] = f"{rest.pop('scope')}:{rest['conversation']}"
        if level == "info":
            rest = {key: value for key, value in rest.items() if _is_for_people(key, value)}
    words = [first, *(f"{_name(key, rest)}={_value(key, value)}" for key, value in rest.items())]
    line = " ".join(words).rstrip()
    if not coloured:
        return f"{clock} {level:7} {line}"
    return f"{_DIM}{clock}{_RESET} {_COLOURS[level]}{level:7}{_RESET} {line}"


def _is_for_people(key: str, value: Value) -> bool:
    return key not in _FOR_PROGRAMS and value != _USUAL.get(key)


def _name(key: str, fields: Mapping[str, Value]) -> str:
    """Return a field's name without its unit, which the value shows; in full if that is taken."""
    short = key.removesuffix(_MS).removesuffix(_BYTES)
    return key if short in fields else short


def _value(key: str, value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) else json.dumps(value)
    if value is None:
        return "-"
    if key.endswith(_MS):
        return f"{value:g}ms" if value < _SECOND_MS else f"{value / _SECOND_MS:.1f}s"
    return _size(value) if key.endswith(_BYTES) else f"{value}"


def _size(size: float) -> str:
    """Format a number of bytes with a decimal unit and about three digits."""
    unit = "B"
    for larger in ("kB", "MB", "GB"):
        if size < _THOUSAND:
            break
        size, unit = size / _THOUSAND, larger
    return f"{size}B" if unit == "B" else f"{size:.1f}{unit}"
