"""Fingerprints: which ids are unique enough to identify one item, and which have one origin."""

import re
from collections.abc import Sequence
from functools import lru_cache

from reasoning_replay.core.wire.digest import digest, utf8

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
# Length of a random upstream id, prefix included; Copilot's are the longest.
RANDOM_ID_CHARS = range(16, 1025)
# A longer `call_id` holds other data, so its length does not tell its origin.
NAMED_CHARS = 64
_DIGITS = "0123456789"
_FIRST_WORD = re.compile(r"[A-Za-z]*(?![A-Za-z0-9])")


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


def trace_of(names: Sequence[bytes], content: bytes, kind: str) -> bytes:
    """
    Return eight bytes that distinguish an item of a model from those of other conversations.

    Args:
        names: The random names that identify it; () if there are none.
        content: As `HistoryItem.content`.
        kind: Its type.
    """
    whole = digest(b"i", *names) if names else content or digest(b"t", utf8(kind))
    return whole[:TRACE_BYTES]


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


def are_two_counts(one: str, other: str) -> bool:
    """Return whether two ids are different values of one counter."""
    stem = one.rstrip(_DIGITS)
    return one != other and stem not in (one, other) and stem == other.rstrip(_DIGITS)


def are_two_items(one: str, other: str) -> bool:
    """
    Return whether two different random ids have the same origin, so that they name two items.

    A client may replace an item's id by its own (`msg_0`, a UUID), so a different id alone proves
    nothing. But a different id in upstream's format is from upstream. It then names another item
    with the same content, and that item was not captured.
    """
    return one != other and _origin(one) is not None and _origin(one) == _origin(other)


def _origin(name: str) -> tuple[str, int, bool] | None:
    """Return the format that ids of one origin share; None for an id that is not random."""
    return _origin_of(name) if len(name) in RANDOM_ID_CHARS else None


@lru_cache(maxsize=4096)
def _origin_of(name: str) -> tuple[str, int, bool] | None:
    kind, _, rest = name.rpartition("_")
    if len(set(rest)) < LEAST_SYMBOLS:
        return None
    return kind, len(rest), not rest.strip("0123456789abcdef")


def have_one_origin(one: str, other: str, tool: str) -> bool:
    """
    Return whether two random ids of calls may come from the same upstream.

    They have the same first word and the same length; with or without the tool's name, which some
    upstreams write into them.

    Clients and gateways of some APIs replace the ids of calls, in a call and in its output. Such an
    id says nothing, so content and position decide, as for counted ids. But most clients keep
    upstream's ids. To them an unknown id means a response that was not captured, even if it says
    the same.
    """
    if max(len(one), len(other)) > NAMED_CHARS:
        return True
    return _form(one) == _form(other) or (
        bool(tool) and _form(one.replace(tool, "")) == _form(other.replace(tool, ""))
    )


def _form(name: str) -> tuple[str, int]:
    first = _FIRST_WORD.match(name)
    return first[0] if first is not None else "", len(name)
