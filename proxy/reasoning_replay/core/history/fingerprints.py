"""Fingerprints: which names of an item are unique enough to stand for that item alone."""

import re
from functools import lru_cache

__all__ = ["ID_CHARS", "TRACE_BYTES", "is_distinctive"]

TRACE_BYTES = 8
ID_CHARS = 256  # The API's own bound is 64.

# Long enough to be drawn at random, and not a word of some language: it has a digit, or both cases.
_RUNS = re.compile(
    r"(?<![A-Za-z0-9])(?=[A-Za-z0-9]{8})(?=[A-Za-z]*[0-9]|[a-z]+[A-Z]|[A-Z]+[a-z])[A-Za-z0-9]+"
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# A counter that is padded has few different characters; one of digits alone may be a time.
LEAST_SYMBOLS = 6
PADDING = "00000"
LEAST_DIGITS = 20


def is_distinctive(call_id: str, name: str) -> bool:
    """
    Tell whether an id looks drawn at random, and so can stand for one item alone.

    `call_0` (Bedrock, in every response) and `functions.get_weather:0` cannot: they say where a
    call stood, not which call it is. An id counts as random with eight characters that hold a
    digit or both cases, once the tool's own name is removed.

    Args:
        call_id: The id or `call_id`.
        name: The tool's name; "" for items that have none.
    """
    return len(call_id) <= ID_CHARS >= len(name) and _is_random(call_id, name)


@lru_cache(maxsize=4096)
def _is_random(call_id: str, name: str) -> bool:
    rest = call_id.replace(name, " ") if name else call_id
    if "-" in rest and (uuid := _UUID.search(rest)) is not None:
        return len(set(uuid[0])) > LEAST_SYMBOLS  # with its dash
    return any(map(_is_drawn, _RUNS.findall(rest)))


def _is_drawn(run: str) -> bool:
    """Tell whether letters and digits look drawn at random: no counter, no time, no padding."""
    if run.isdigit() and len(run) < LEAST_DIGITS:
        return False
    return len(set(run)) >= LEAST_SYMBOLS and PADDING not in run
