"""
Gemini items: the parts of a request's contents, parsed only as far as matching needs.

Each part is one item, except that the texts of a model that follow each other in one content are
one: a stream cuts a text anywhere, and clients join the pieces or do not. A summary of thoughts is
no item, and neither is a part with nothing but a signature: clients drop them. Only a content that
has no other part is one item, of the client's reasoning.
A content of unknown shape must never fail a request, so parsing is lenient: a value of an
unexpected type counts as absent, and a content that cannot be read is one item.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Raw
from typing_extensions import override

from reasoning_replay.core.dialects.gemini.parts import TEXT, Part, plain_members, read_part
from reasoning_replay.core.dialects.item_content import (
    arguments,
    canonical,
    chars_of,
    whole_numbers,
)
from reasoning_replay.core.dialects.lenient import body_of, string_of
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.digest import digest, utf8
from reasoning_replay.core.wire.json_spans import NONE, Unspliceable
from reasoning_replay.core.wire.text_folding import folded

MESSAGE = "message"  # type of the text of either side, and of what a user attaches
CALL = "functionCall"
OUTPUT = "functionResponse"
BARE = "thoughtSignature"  # of a content with nothing but thoughts and signatures
# Some gateways write a signature into the id of a call, after this: the id is theirs.
_THOUGHT = "__thought__"
_NAMES = frozenset({"id", "name"})


class ModelContent(msgspec.Struct, frozen=True, gc=False, eq=False):
    """
    One content of the model.

    Attributes:
        start: Offset of its first byte in the document.
        spans: Byte range of each part.
        parts: The parts.
    """

    start: int
    spans: list[tuple[int, int]]
    parts: list[Part]


NO_CONTENT = ModelContent(0, [], [])


class GeminiItem(HistoryItem, gc=False, eq=False):
    """
    One item of a request: a part, or the texts of a model that follow each other.

    Attributes:
        value: Its data; of a content that cannot be read, all of it.
        raw: JSON of the part as received, or of all parts from the first to the last.
        holder: The content of the model that holds it; an empty one for the client's.
        numbers: Indices of its parts in the content.
        words: Folded text of a model's text; "" for other items.
    """

    value: Raw
    raw: bytes
    holder: ModelContent = NO_CONTENT
    numbers: tuple[int, ...] = ()
    words: str = ""

    @override
    def _read_content(self) -> bytes:
        """Return a digest that is equal for text in pieces, and for any spelling of arguments."""
        if self.type == MESSAGE:
            return digest(b"m", utf8(self.words))
        members = plain_members(self.value)
        if self.type == CALL:
            given = whole_numbers(canonical(bytes(members.get("args", NONE))))
            return digest(b"c", utf8(self.name), arguments(given))
        said = {name: canonical(bytes(raw)) for name, raw in members.items() if name != "id"}
        flat = [part for name in sorted(said) for part in (utf8(name), said[name])]
        return digest(b"p", utf8(self.type), *flat)

    @override
    def _read_text(self) -> str:
        return json_spans.text(self.value) or "" if self.type == MESSAGE else ""

    @override
    def _count_chars(self) -> int:
        if self.type == MESSAGE:
            return len(self.words or json_spans.text(self.value) or "")
        members = plain_members(self.value)
        if self.type == OUTPUT:  # an SDK puts the output under a word of its own
            members = plain_members(members.get("response", NONE))
        # Short calls recur, however long their names and ids are.
        return sum(chars_of(bytes(raw)) for name, raw in members.items() if name not in _NAMES)

    @override
    def _read_said(self) -> bytes:
        # Without the call's id: some clients renumber their calls.
        if self.type == OUTPUT:
            members = plain_members(self.value)
            response = canonical(bytes(members.get("response", NONE)))
            return digest(b"o", utf8(self.name), response, bytes(members.get("parts", NONE)))
        words = json_spans.text(self.value)
        return digest(b"u", self.raw if words is None else utf8(folded(words)))


def read_content(raw: bytes, start: int = 0, end: int = 0) -> list[GeminiItem]:
    """Return the items of one content; never raises, whatever the bytes are."""
    try:
        members = json_spans.members(raw)
        given = members.get("parts")
        if given is None:
            return []
        spans = [(given.start, given.end)]  # the API accepts one part without a list
        is_list = raw[given.start : given.start + 1] == b"["
        if is_list:
            spans = json_spans.elements(raw, given.start, given.end)
    except Unspliceable:  # not an object, or a key occurs twice
        return [GeminiItem("", Role.CLIENT, start, end, "", "", Raw(raw), raw)]
    said_by = members.get("role")
    raws = [raw[first:last] for first, last in spans]
    parts = [*map(read_part, raws)]
    places = [(start + first, start + last) for first, last in spans]
    if said_by is None or raw[said_by.start : said_by.end] != b'"model"':
        return [*map(_of_client, parts, raws, places)]
    if not is_list:  # nothing can be put next to the part
        return []
    holder = ModelContent(start, places, parts)
    rows = _rows_of(parts)
    if not rows and any(part.signed for part in parts):  # libraries may put it here alone
        own = raw[spans[0][0] : spans[-1][1]]
        place = places[0][0], places[-1][1]
        return [GeminiItem(BARE, Role.REASONING, *place, "", "", NONE, own, holder)]
    return [_of_row(holder, row, raw) for row in rows]


def _of_client(part: Part, raw: bytes, place: tuple[int, int]) -> GeminiItem:
    if part.kind != OUTPUT:
        return GeminiItem(MESSAGE, Role.CLIENT, *place, "", "", part.value, raw)
    call_id, name = _names(part.value)
    return GeminiItem(OUTPUT, Role.CLIENT, *place, call_id, name, part.value, raw)


def _rows_of(parts: Sequence[Part]) -> list[list[int]]:
    """Return the indices of the parts of each item."""
    rows: list[list[int]] = []
    for number, part in enumerate(parts):
        if part.is_silent:
            continue
        if part.kind == TEXT and rows and parts[rows[-1][0]].kind == TEXT:
            rows[-1].append(number)
        else:
            rows.append([number])
    return rows


def _of_row(holder: ModelContent, row: Sequence[int], raw: bytes) -> GeminiItem:
    """Return the item of some parts; `raw` is their content."""
    kind, value = holder.parts[row[0]].kind, holder.parts[row[0]].value
    start, end = holder.spans[row[0]][0], holder.spans[row[-1]][1]
    call_id = name = words = ""
    if kind == TEXT:
        # Joined without decoding: a stream may cut a text inside a character.
        body = b"".join([body_of(bytes(holder.parts[number].value)) for number in row])
        value = Raw(surrogates.unmarked(string_of(body)))
        kind, words = MESSAGE, folded(json_spans.text(value) or "")
    else:
        call_id, name = _names(value)
    own = raw[start - holder.start : end - holder.start]
    place = start, end
    return GeminiItem(
        kind, Role.MODEL, *place, call_id, name, value, own, holder, tuple(row), words
    )


def _names(value: Raw) -> tuple[str, str]:
    """Return the id and the name of a call, or of its output."""
    members = plain_members(value)
    call_id = json_spans.text(members.get("id", NONE)) or ""
    return "" if _THOUGHT in call_id else call_id, json_spans.text(members.get("name", NONE)) or ""
