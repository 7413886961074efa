"""Fingerprints: which ids are unique enough to identify one item."""

import re
from functools import lru_cache

__all__ = ["ID_CHARS", "TRACE_BYTES", "is_distinctive"]

TRACE_BYTES = 8
ID_CHARS = 256  # The API's own bound is 64.

# Runs that are long enough to be random and are not a word of a language: with a digit or both
# cases.
_RUNS = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]{8})(?=[A-Za-z]*[0-9]|[a-z]+[A-Z]|[A-Z]+[a-z])[A-Za-z0-9]+"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# A word with a counter (`websearch1`, `step12ab`), and a date or a time with letters
# (`20261123T031903Z`). A word has no four consonants in a row, and not hexadecimal digits alone.
_COUNTER = re.compile(
    r"(?=.*[g-zG-Z])(?=(?:[A-Z]?[a-z]{2,})+[^A-Z]|[A-Z]+[^a-z])"
    r"(?i:(?=[a-z]{4})(?:[^aeiouy\d]{0,3}+[aeiouy]++)++[^aeiouy\d]{0,3}+)"
    r"(?:[1-9]\d{0,2}|[1-9]\d{1,2}[A-Za-z]{1,2})"
)
_TIME = re.compile(
    r"(?=.*[g-zG-Z])[A-Za-z]{0,9}(?:1[5-9]|20)\d{6,}(?:T\d{4,9})?[A-Za-z]{0,2}\d{0,2}"
)
# A padded counter has few different characters; a run of digits alone may be a timestamp.
LEAST_SYMBOLS = 6
PADDING = "00000"
LEAST_DIGITS = 20


def is_distinctive(call_id: str, name: str) -> bool:
    """
    Return whether an id looks random, so that it can identify one item.

    `call_0` (Bedrock, in every response) and `functions.get_weather:0` do not: they give the
    position of a call, not its identity. An id counts as random if, without the tool's name, it has
    a run of at least eight letters and digits that includes a digit or both cases. Counters,
    timestamps and padded numbers do not count.

    Args:
        call_id: The id or `call_id`.
        name: The tool's name; "" for items without one.
    """
    return len(call_id) <= ID_CHARS >= len(name) and _is_random(call_id, name)


@lru_cache(maxsize=4096)
def _is_random(call_id: str, name: str) -> bool:
    rest = call_id.replace(name, " ") if name else call_id
    if "-" in rest and (uuid := _UUID.search(rest)) is not None:
        return len(set(uuid[0])) > LEAST_SYMBOLS  # more than, because the dash is one symbol
    return any(map(_is_drawn, _RUNS.findall(rest)))


def _is_drawn(run: str) -> bool:
    """Return whether letters and digits look random: not a counter, a timestamp or padding."""
    if run.isdigit() and len(run) < LEAST_DIGITS:
        return False
    if _COUNTER.fullmatch(run) is not None or _TIME.fullmatch(run) is not None:
        return False
    return len(set(run)) >= LEAST_SYMBOLS and PADDING not in run
