"""
Surrogates: escapes of half a character in raw JSON, which are valid grammar but no valid Unicode.

JavaScript writes one for a string that was cut in the middle of a character, and some upstreams cut
a stream between the two halves. msgspec rejects them.
"""

import re
from itertools import islice

from reasoning_replay.core.wire.json_spans import Edit, apply

# Most escapes of surrogates, and of lone ones, in a document that `readable` or `marked` changes.
# Each costs up to 0.1 and 2 microseconds. Real requests have some hundred, and one or two.
SURROGATES_MAX = 50_000
LONE_MAX = 10_000
# The hex digits of a lone surrogate escape: without a low one after it, or a high one before it.
_HEX = rb"[0-9a-fA-F]"
_LONE = (
    rb"[dD](?:[89abAB]" + _HEX * 2 + rb"(?!\\u[dD][c-fC-F]" + _HEX * 2 + rb")"
    rb"|[c-fC-F]" + _HEX * 2 + rb"(?<!\\u[dD][89abAB]" + _HEX * 2 + rb".{6}))"
)
_TO_REPLACE = re.compile(rb"\\u" + _LONE)
_TO_MARK = re.compile(rb"\\u(?=" + _LONE + rb")")
# Stands for the start of a lone surrogate escape; its four hex digits follow.
_MARK = rb"\ufdd0"
_MARKED = re.compile(rb"\\ufdd0(?=[dD][89a-fA-F]" + _HEX * 2 + rb")")
# While lone surrogates are looked for, two bytes that JSON never holds stand for each escaped
# backslash: any other backslash then begins an escape.
_BACKSLASH, _HIDDEN = rb"\\", b"\0\0"


def readable(document: bytes) -> bytes:
    """
    Return a document of the same length with each lone surrogate escape replaced by U+FFFD.

    Offsets into the result are offsets into the document.

    Returns:
        The same object if it has no lone surrogates, more surrogates than the limits, or bytes
        that JSON cannot hold.

    Cost: some C passes, four times as much as decoding the document; 2 µs for each lone surrogate.
    """
    return _without_lone(document, _TO_REPLACE, rb"\ufffd")


def marked(document: bytes) -> bytes:
    r"""
    Return a document with each lone surrogate escape turned into a mark and its hex digits.

    Some upstreams cut a stream inside a character, between its two escapes. msgspec rejects each
    half, but reads the mark, which is not a character. `unmarked` restores the escapes once the
    halves are joined. The same object is returned, and the cost is bounded, as for `readable`.
    """
    return _without_lone(document, _TO_MARK, rb"\ufdd0")


def unmarked(document: bytes) -> bytes:
    """Return a JSON document with the lone surrogate escapes that `marked` replaced."""
    if _MARK not in document:
        return document
    hidden = document.replace(_BACKSLASH, _HIDDEN)
    return _MARKED.sub(rb"\\u", hidden).replace(_HIDDEN, _BACKSLASH)


def _without_lone(document: bytes, lone: re.Pattern[bytes], new: bytes) -> bytes:
    """Return a document with the part of each lone surrogate escape that a pattern finds as new."""
    hidden = document.replace(_BACKSLASH, _HIDDEN)
    surrogates = hidden.count(rb"\ud") + hidden.count(rb"\uD")
    if not 0 < surrogates <= SURROGATES_MAX or b"\0" in document:
        return document
    places = islice(lone.finditer(hidden), LONE_MAX + 1)
    edits = [Edit(*place.span(), new) for place in places]
    return apply(document, edits) if len(edits) <= LONE_MAX else document
