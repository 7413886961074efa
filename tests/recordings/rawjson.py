"""Positions in JSON text: the judge's own reader, which shares no code with the proxy."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Span(NamedTuple):
    """A range of characters."""

    start: int
    end: int


class Member(NamedTuple):
    """One `"key": value` of an object: the start of its key, and the range of its value."""

    key: str
    key_start: int
    start: int
    end: int


class Edit(NamedTuple):
    """A range of characters and its replacement."""

    start: int
    end: int
    text: str


def elements(text: str, at: int) -> list[Span]:
    """Locate the elements of the array that begins at `at`."""
    found: list[Span] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        found.append(Span(at, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def members(text: str) -> list[Member]:
    """Locate the members of an object, in wire order."""
    found: list[Member] = []
    at = _skip(text, _skip(text, 0) + 1)
    while text[at] != "}":
        key, key_end = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, key_end) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        found.append(Member(key, at, start, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def member(text: str, key: str) -> Member | None:
    """Locate one member of an object."""
    return next((found for found in members(text) if found.key == key), None)


def without_member(text: str, key: str) -> str:
    """Return an object without one member and its comma; all other characters stay."""
    found = members(text)
    index = next((n for n, one in enumerate(found) if one.key == key), None)
    if index is None:
        return text
    this = found[index]
    if index + 1 < len(found):
        return text[: this.key_start] + text[text.index(",", this.end) + 1 :]
    before = found[index - 1].end if index else this.key_start
    return text[:before] + text[this.end :]


def removals(spans: Sequence[Span], removed: Iterable[int]) -> list[Edit]:
    """Return the edits that remove elements from an array, each with the comma after it."""
    gone = set(removed)
    last_kept = max((n for n in range(len(spans)) if n not in gone), default=-1)
    edits = []
    for n in sorted(gone):
        if n < last_kept:
            edits.append(Edit(spans[n].start, spans[n + 1].start, ""))
        else:
            edits.append(Edit(spans[n - 1].end if n else spans[n].start, spans[n].end, ""))
    return edits


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits that do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
