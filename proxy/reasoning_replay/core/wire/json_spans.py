"""
JSON spans: byte ranges inside raw JSON, and edits of these ranges.

The law of this file: bytes outside the edited ranges keep their values and their order.
Bodies are never decoded and encoded again, because number spelling, escapes, key order
and duplicate keys would be lost (docs/internals/decisions.md, D2).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import NamedTuple

from msgspec import MsgspecError, Raw, json

# The bytes between two values: white space, at most one comma, and the opening bracket.
_TO_KEY = re.compile(rb'[ \t\r\n{,]*("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_TO_ELEMENT = re.compile(rb"[ \t\r\n,]*")
_COMMA_AFTER = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_CLOSE = re.compile(rb"[ \t\r\n{]*\}[ \t\r\n]*")
_SPACE = b" \t\r\n"
PLACE = itemgetter(0, 1)  # the range of an edit

NONE = Raw(b"")
COMMA = b","

_MEMBERS = json.Decoder(dict[str, Raw])
_ELEMENTS = json.Decoder(list[Raw])
_STRING = json.Decoder(str)
_ENCODE = json.Encoder().encode

# `bound` counts in segments, so that its memory is bounded, too.
_SEGMENT_BYTES = 64 * 1024
_NEITHER_QUOTE_NOR_COMMA = bytes(set(range(256)) - set(b'",'))


class Unspliceable(ValueError):
    """The bytes are not one JSON value of the expected type, or parsers could disagree on them."""


class TooMany(Unspliceable):
    """The document has more values than the limit."""


class Member(NamedTuple):
    """One `"key": value` of an object, as byte offsets into the whole document."""

    key_start: int
    start: int
    end: int


class Edit(NamedTuple):
    """Replace `body[start:end]` by `new`; start == end inserts, an empty `new` removes."""

    start: int
    end: int
    new: bytes


def bound(body: bytes, max_values: int) -> None:
    """
    Reject a document with too many values before it is decoded: each value may be only two bytes.

    Raises:
        TooMany: It has more than `max_values` commas outside strings.

    Cost: one count of commas; if there are too many, some C passes up to the last one that is
    allowed. Memory: a few MB.
    """
    if len(body) < 2 * max_values or _commas(body) <= max_values:
        return
    at = found = 0
    is_inside = False  # whether a string has begun
    while at < len(body):
        segment = body[at : at + _SEGMENT_BYTES]
        if (len(segment) - len(segment.rstrip(b"\\"))) % 2:  # it ends inside an escape
            segment = body[at : at + len(segment) + 1]
        at += len(segment)
        segment = segment.replace(rb"\\", b"").replace(rb"\"", b"")
        # Two quotes in a row are a string without commas, or what is between two strings.
        marks = segment.translate(None, _NEITHER_QUOTE_NOR_COMMA).replace(b'""', b"")
        pieces = marks.split(b'"')
        found += b"".join(pieces[is_inside::2]).count(b",")
        is_inside ^= len(pieces) % 2 == 0
        if found > max_values:
            raise TooMany(f"more than {max_values} values")


def _commas(body: bytes) -> int:
    """Return the number of commas; a segment without any, as in base64, costs next to nothing."""
    found = 0
    for at in range(0, len(body), _SEGMENT_BYTES):
        end = at + _SEGMENT_BYTES
        first = body.find(b",", at, end)
        if first >= 0:
            found += body.count(b",", first, end)
    return found


def members(body: bytes, start: int = 0, end: int | None = None) -> dict[str, Member]:
    """
    Locate every member of a JSON object without decoding the values.

    Args:
        body: The document, UTF-8. The caller limits its size.
        start: Byte offset of the object in the document.
        end: Byte offset after the object; None is the end of the document.

    Returns:
        Decoded key -> Member, in wire order; {} for an empty object.

    Raises:
        Unspliceable: Not one object, nested too deep, or a key occurs twice. Parsers disagree
            on which of the two wins (RFC 8259, section 4), so the caller must forward the bytes
            unchanged.

    Cost: one C pass and some Python for each key; with white space between members, one
    regular-expression match for each key.
    """
    stop = len(body) if end is None else end
    values = _decoded(body if stop - start == len(body) else memoryview(body)[start:stop])
    if not _is_compact(values, stop - start):
        return _walk(values, body, start, stop)
    found: dict[str, Member] = {}
    at = start + 1
    for key, raw in values.items():
        value_at = at + len(key.encode()) + 3
        end = value_at + len(memoryview(raw))
        found[key] = Member(at, value_at, end)
        at = end + 1
    return found


def unambiguous(document: bytes) -> dict[str, Raw]:
    """
    Return the raw values of a JSON object by key, in wire order.

    Raises:
        Unspliceable: As for `members`.

    Cost: two C passes; with white space between members, also one regular-expression match for
    each key.
    """
    values = _decoded(document)
    # The encoded copy has each key once, without escapes and white space. A document that repeats
    # or escapes a key is longer than that. It is never shorter.
    if len(_ENCODE(values)) != len(document):
        _walk(values, document, 0, len(document))  # raises if a key occurs twice
    return values


def place_of(values: Mapping[str, Raw], document: bytes, key: str) -> Member:
    """
    Locate one member of an object; `values` is the result of `unambiguous` for it.

    Raises:
        KeyError: The object has no such member.
    """
    at = 0
    for name, raw in values.items():
        match = _TO_KEY.match(document, at)
        at = (match.end() if match else at) + len(memoryview(raw))
        if match and name == key:
            return Member(match.start(1), match.end(), at)
    raise KeyError(key)


def _decoded(document: bytes | memoryview) -> dict[str, Raw]:
    try:
        return _MEMBERS.decode(document)
    except (MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise Unspliceable(str(error)) from error


def _is_compact(values: Mapping[str, Raw], size: int) -> bool:
    """
    Return whether only quotes, colons and commas separate the members of an object.

    White space, an escape in a key and a repeated key each make the object longer than the sum of
    its decoded keys and last values. It is never shorter, so comparing sizes (in bytes) is enough.
    """
    keys = len("".join(values).encode())
    held = sum([len(memoryview(raw)) for raw in values.values()])
    return keys + held + 4 * len(values) + 1 == size


def _walk(values: Mapping[str, Raw], body: bytes, start: int, stop: int) -> dict[str, Member]:
    """Locate members with any white space or escapes around and in their keys."""
    found: dict[str, Member] = {}
    at = start
    to_key, is_at = _TO_KEY.match, body.startswith
    for key, raw in values.items():
        value = bytes(raw)
        match = to_key(body, at, stop)
        # A key that occurs twice breaks the walk here: the dict holds the last value only.
        if match is None or not is_at(value, value_at := match.end()):
            raise Unspliceable("a key occurs twice")
        at = value_at + len(value)
        found[key] = Member(match.start(1), value_at, at)
    if _CLOSE.fullmatch(body, at, stop) is None:
        raise Unspliceable("a key occurs twice")
    return found


def elements(body: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """
    Locate every element of the JSON array at `body[start:end]`.

    Returns:
        (start, end) byte offsets into the whole document, in order; [] for an empty array.

    Raises:
        Unspliceable: Not one array, or nested too deep.
    """
    try:
        values = _ELEMENTS.decode(memoryview(body)[start:end])
    except (MsgspecError, RecursionError) as error:
        raise Unspliceable(str(error)) from error
    sizes = [len(memoryview(raw)) for raw in values]
    if start + 1 + sum(sizes) + len(sizes) == end:  # nothing between them but commas
        ends = accumulate(sizes, lambda at, size: at + 1 + size, initial=start)
        return [(at + 1, stop) for at, stop in pairwise(ends)]
    found: list[tuple[int, int]] = []
    at = body.index(b"[", start) + 1
    for size in sizes:
        match = _TO_ELEMENT.match(body, at, end)
        at = match.end() if match else at
        stop = at + size
        found.append((at, stop))
        at = stop
    return found


def text(raw: bytes | Raw) -> str | None:
    """Return the string in a raw JSON value; None for another type or a damaged string."""
    value = bytes(raw)
    if not value.startswith(b'"'):
        return None
    try:
        return _STRING.decode(value)
    except (MsgspecError, UnicodeDecodeError):
        return None


def remove(body: bytes, found: Mapping[str, Member], key: str) -> Edit:
    """
    Return the edit that removes one member of an object and one comma next to it.

    Raises:
        KeyError: The object has no such member.
    """
    member = found[key]
    after = _COMMA_AFTER.match(body, member.end)
    if after is not None:
        return Edit(member.key_start, after.end(), b"")
    before = member.key_start
    while body[before - 1] in _SPACE:
        before -= 1
    start = before - 1 if body[before - 1 : before] == b"," else member.key_start
    return Edit(start, member.end, b"")


def removals(spans: Sequence[tuple[int, int]], gone: Collection[int]) -> list[Edit]:
    """
    Return the edits that remove elements of an array, each with one of the commas around it.

    `gone` are their indices in `spans`; at least one element must stay.
    """
    last_kept = max(n for n in range(len(spans)) if n not in gone)
    edits = [Edit(spans[n][0], spans[n + 1][0], b"") for n in sorted(gone) if n < last_kept]
    if last_kept + 1 < len(spans):
        edits.append(Edit(spans[last_kept][1], spans[-1][1], b""))
    return edits


def without(value: bytes, keys: Iterable[str]) -> bytes:
    """
    Return a JSON object without some members; all other bytes are kept.

    Returns:
        The same object if it has none of the members.

    Raises:
        Unspliceable: As for `members`.
    """
    values = unambiguous(value)
    present = [key for key in keys if key in values]
    if not present:
        return value
    if len(present) > 1:  # edits of two neighbours could both remove the same comma
        return without(without(value, present[:1]), present[1:])
    key = present[0]
    return apply(value, [remove(value, {key: place_of(values, value, key)}, key)])


def inserted(at: int, value: bytes) -> tuple[Edit, Edit]:
    """
    Return the edits that insert an element of an array before another one, at its first byte.

    The comma is an edit of its own, so that the value is not copied for it.
    """
    return Edit(at, at, value), Edit(at, at, COMMA)


def apply(body: bytes, edits: Iterable[Edit]) -> bytes:
    """
    Apply edits to a document; without edits, return the identical object, not a copy.

    Edits of the same range are applied in the order given. Other ranges must not overlap.
    """
    by_place = sorted(edits, key=PLACE)
    return b"".join(spliced(body, by_place)) if by_place else body


def spliced(body: bytes, by_place: Iterable[tuple[int, int, bytes]]) -> list[bytes | memoryview]:
    """Return the pieces of a document with sorted edits: views of it, and new bytes."""
    pieces: list[bytes | memoryview] = []
    view = memoryview(body)
    at = 0
    for start, end, new in by_place:
        if start > at:
            pieces.append(view[at:start])
        pieces.append(new)
        at = end
    pieces.append(view[at:])
    return pieces
