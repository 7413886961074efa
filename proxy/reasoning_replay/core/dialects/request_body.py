"""
Request body: the parsing of a JSON request that every dialect shares.

A dialect adds how it reads one item, and which top-level values it looks at.
"""

import codecs
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Self, TypeVar
from urllib.parse import unquote

from msgspec import Raw

from reasoning_replay.core.dialects.lenient import value_of
from reasoning_replay.core.history.decided import NOTHING, Decided
from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.prefix_cache import Known, ParsedPrefix
from reasoning_replay.core.history.request_history import (
    HistoryPrefix,
    RequestHistory,
    empty_history,
    extend,
)
from reasoning_replay.core.tenancy.scope import hint_of
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.json_spans import Member, TooMany, Unspliceable

# Limits of items in a request's history, and of values in its whole body. Real requests have some
# thousands of items. A request above a limit is forwarded without parsing.
ITEMS_MAX = 20_000
VALUES_MAX = 200_000
# A longer element is read only if it is ASCII, as images are: other text takes up to four bytes for
# each character, in several copies.
ELEMENT_MAX_BYTES = 32 << 20

_SEGMENT_BYTES = 1024 * 1024  # of a body, checked at once
_ALONE = b'{"":[%b]}'  # the document in which new items are read

KnownT = TypeVar("KnownT", bound=Known)
ItemT = TypeVar("ItemT", bound=HistoryItem)
ItemT_co = TypeVar("ItemT_co", bound=HistoryItem, covariant=True)


@dataclass(slots=True)
class ParsedRequest(RequestHistory[ItemT_co]):
    """
    One parsed request; `places` is [] if the array with the history is missing or no array.

    Attributes:
        switches: Values that switch reasoning off, by their key and their place; "" is the value
            itself.
        body: Body as received, except that lone surrogate escapes may be replaced by U+FFFD.
        values: JSON of each top-level value.
        is_mended: Whether such escapes were replaced, so that `body` must not be sent.
        history: The history after what is decided; None if the request has no array of items.
        history_key: Its key.
        history_start, history_end: Offsets of that array, and after its last item.
        began_with: Digest of the frame before the first item.
        elements: Byte ranges of the elements after what is decided; None: nothing is decided.
        bound_to: The `Origin.binding` of what is decided.
    """

    switches: ClassVar[Mapping[str, Sequence[tuple[str, object]]]] = {}

    body: bytes = b""
    values: Mapping[str, Raw] = field(default_factory=dict)
    is_mended: bool = False
    history: HistoryPrefix[ItemT_co] | None = None
    history_key: str = ""
    history_start: int = 0
    history_end: int = 0
    began_with: bytes = b""
    elements: Sequence[tuple[int, int]] | None = None
    bound_to: bytes = b""

    @property
    def stores(self) -> bool:
        """Whether upstream stores the items of this exchange."""
        return False

    @property
    def is_switched_off(self) -> bool:
        """Whether it switches reasoning off."""
        given = self.switches.keys() & self.values.keys()
        return any(_is_off(self.raw(key), self.switches[key]) for key in given)

    def set_history(self, history: HistoryPrefix[Any], end: int) -> None:
        """Set the history, and the offset after its last item."""
        self.history, self.history_end = history, end
        self.places, self.anchors, self.said = history.places, history.anchors, history.said
        self.has_reasoning, self.heard = history.has_reasoning, history.heard
        self.frame, self.run = history.frame, history.run
        self.chain_at_end, self.whole_at_end = history.chain, history.whole

    def prefix(
        self, known: KnownT | None = None
    ) -> ParsedPrefix[HistoryPrefix[Any], KnownT] | None:
        """Return the request as a parsed prefix, with what is known; None if it has no history."""
        if self.history is None or self.is_mended or (known is None and self.elements is not None):
            return None
        parsed = self.history if known is None else None
        return ParsedPrefix(
            self.body, self.history_end, self.began_with, parsed, len(self.places), known
        )

    def outline(self) -> Self:
        """Return the request without its items: what it shares with one that goes on from it."""
        known = replace(
            self,
            body=b"",
            decided=NOTHING,
            elements=None,
            values={
                name: Raw(b"" if name == self.history_key else bytes(raw))
                for name, raw in self.values.items()
            },
            _chains=None,
            _wholes=None,
        )
        known.set_history(empty_history(NOTHING, self.began_with), self.history_end)
        return known

    def spans(self, key: str) -> list[tuple[int, int]]:
        """Return the byte range of each element of the history that was read, under `key`."""
        if self.elements is not None:
            return [*self.elements]
        start = self.history_start
        return json_spans.elements(self.body, start, start + len(self.raw(key))) if start else []

    def raw(self, key: str) -> bytes:
        """Return the JSON of a top-level value; b"" if it is absent."""
        return bytes(self.values.get(key, b""))

    def text(self, key: str) -> str:
        """Return a top-level string; "" if it is absent or of another type."""
        raw = self.values.get(key)
        return (json_spans.text(raw) or "") if raw is not None else ""


RequestT = TypeVar("RequestT", bound=ParsedRequest[HistoryItem])


@dataclass(frozen=True, slots=True)
class RequestReader(Generic[RequestT, ItemT]):
    """
    Reader of the requests to one API.

    Attributes:
        make: Class of a parsed request.
        key: Key of the array that holds the history. Without that array, a request has no items.
        read: Returns the items of one element: its JSON, its first offset and the one after it.
        note_frame: Records what precedes the history.
        model_in: Finds the model in a path, where the body names none; None: no path has it.
        wrappers: Keys of an object that may hold the whole request, the first of them that does.
    """

    make: type[RequestT]
    key: str
    read: Callable[[bytes, int, int], Sequence[ItemT]]
    note_frame: Callable[[RequestT], None] = lambda _: None
    model_in: re.Pattern[str] | None = None
    wrappers: Sequence[str] = ()

    def __call__(
        self,
        body: bytes,
        headers: Mapping[str, str],
        prefix: ParsedPrefix[HistoryPrefix[ItemT], Any] | None = None,
        path: str = "",
    ) -> RequestT:
        """
        Parse the body of a request, as far as injection needs it.

        Args:
            body: UTF-8 JSON, after content decoding; the caller limits its size.
            headers: Request headers, for the name of the conversation.
            prefix: A parsed prefix of the body, of the same tenant.
            path: Path of the request, without its query.

        Raises:
            TooMany: The request has too many values or items to process.
            Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
                caller forwards such a body unchanged, and upstream reports its own error.

        Cost: linear; about three C passes over the body, and some Python for each new item.
        """
        readable, values = read_values(body)
        values, given = self._found_in(readable, values)
        request = self.make("", b"", body=readable, values=values, history_key=self.key)
        request.is_mended = readable is not body
        request.model = request.text("model")
        if (
            not request.model
            and self.model_in is not None
            and (named := self.model_in.search(path))
        ):
            request.model = unquote(named[1])
        request.hint = hint_of(headers, request.text)
        self.note_frame(request)
        if given is not None and readable[given.start : given.start + 1] == b"[":
            self._read_history(request, given, prefix)
        return request

    def again(self, request: RequestT, body: bytes) -> RequestT:
        """Return a request with another body; the same object if that is its own."""
        if body is request.body:
            return request
        changed = self(body, {})
        changed.model, changed.hint = request.model, request.hint
        return changed

    def _found_in(
        self, body: bytes, values: dict[str, Raw]
    ) -> tuple[dict[str, Raw], Member | None]:
        """Return the values of the request in a body, and the place of its history, if any."""
        wrapper = next((key for key in self.wrappers if key in values), "")
        if not wrapper:
            has_history = self.key in values
            return values, json_spans.place_of(values, body, self.key) if has_history else None
        around = json_spans.place_of(values, body, wrapper)
        inner = json_spans.members(body, around.start, around.end)
        inner_values = {key: Raw(body[one.start : one.end]) for key, one in inner.items()}
        return inner_values, inner.get(self.key)

    def _read_history(
        self,
        request: RequestT,
        given: Member,
        prefix: ParsedPrefix[HistoryPrefix[ItemT], Any] | None,
    ) -> None:
        """Read the array with the history; the request's frame is what precedes it."""
        body = request.body
        request.history_start = given.start
        history: HistoryPrefix[ItemT] = empty_history(NOTHING, request.frame)
        at = 0
        # After the last item, the array continues with a comma or ends: "12" is no start of "123".
        if (
            prefix is not None
            and prefix.parsed is not None
            and prefix.frame == request.frame
            and given.start < prefix.end < given.end
            and body[prefix.end] in b",]"
        ):
            history, at = prefix.parsed, prefix.end
        elements = _elements(body, given, at)
        items = self._items_of(body, elements, len(history.places))
        request.began_with = request.frame
        request.set_history(extend(history, items), elements[-1][1] if elements else at)

    def after(
        self,
        body: bytes,
        headers: Mapping[str, str],
        prefix: ParsedPrefix[HistoryPrefix[ItemT], Any],
        earlier: tuple[RequestT, int, Decided],
    ) -> RequestT | None:
        """
        Parse only what a request has after what is decided of an earlier one.

        Args:
            body: As above.
            headers: As above.
            prefix: Prefix of the body.
            earlier: The outline of the earlier request (`ParsedRequest.outline`); the offset after
                the last item that is decided, in the prefix; and what is decided.

        Returns:
            The request, with only the new items. None if the two differ in more than their
            history, or if what is new must be read with what is before it.
        """
        outline, start, decided = earlier
        around, end = prefix.around, len(body) - len(prefix.around)
        if end < start or body[end:] != around or hint_of(headers, outline.text) != outline.hint:
            return None
        elements: list[tuple[int, int]] = []
        if end > start:
            if body[start] not in b",":
                return None
            told = _ALONE % body[start + 1 : end]
            try:
                readable, read = read_values(told)
            except Unspliceable:
                return None
            if readable is not told or len(read) > 1:
                return None
            at = len(_ALONE) - len(b"%b]}")
            shift = start + 1 - at
            elements = [
                (one + shift, other + shift)
                for one, other in json_spans.elements(told, at - 1, len(told) - 1)
            ]
            if not elements:
                return None
        items = self._items_of(body, elements, decided.items)
        closed = end + around.index(b"]") + 1
        history = Raw(memoryview(body)[outline.history_start : closed])
        values = {**outline.values, self.key: history}
        new = replace(outline, body=body, values=values, elements=elements, decided=decided)
        new.set_history(
            extend(empty_history(decided, decided.frame), items),
            elements[-1][1] if elements else start,
        )
        return new

    def _items_of(
        self, body: bytes, elements: Sequence[tuple[int, int]], before: int
    ) -> list[ItemT]:
        """
        Read elements of the history that come after so many items.

        Raises:
            TooMany: The request has too many items to process, or too long ones.
        """
        if before + len(elements) > ITEMS_MAX:
            raise TooMany(f"more than {ITEMS_MAX} items")
        if any(_is_wide(body, start, end) for start, end in elements):
            raise TooMany(f"an element of text has more than {ELEMENT_MAX_BYTES} bytes")
        items = [item for start, end in elements for item in self.read(body[start:end], start, end)]
        if before + len(items) > ITEMS_MAX:
            raise TooMany(f"more than {ITEMS_MAX} items")
        return items


def _is_off(raw: bytes, switches: Sequence[tuple[str, object]]) -> bool:
    value = value_of(raw)
    for name, off in switches:
        given = value
        if name:
            given = value.get(name) if isinstance(value, dict) else None
        if given is off or (isinstance(off, str) and given == off):
            return True
    return False


def read_values(body: bytes) -> tuple[bytes, dict[str, Raw]]:
    """
    Return a body that can be edited, and its top-level values.

    The body is the same object, unless lone surrogate escapes had to be replaced by U+FFFD.
    Lengths stay the same, so offsets in the new body are valid in the original one.

    Raises:
        TooMany: The request has too many values to process.
        Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
            caller forwards such a body unchanged, and upstream reports its own error.
    """
    json_spans.bound(body, VALUES_MAX)
    _check_utf8(body)
    try:
        return body, json_spans.unambiguous(body)
    except Unspliceable:
        mended = surrogates.readable(body)
        if mended is body:
            raise
        return mended, json_spans.unambiguous(mended)


def _is_wide(body: bytes, start: int, end: int) -> bool:
    """Return whether an element is too long to be decoded."""
    if end - start <= ELEMENT_MAX_BYTES:
        return False
    return not body[start:end].isascii() or body.find(rb"\u", start, end) >= 0


def _check_utf8(body: bytes) -> None:
    """Check the encoding of a body in segments: decoded, it could take four times its memory."""
    if body.isascii():
        return
    decode, view = codecs.getincrementaldecoder("utf-8")().decode, memoryview(body)
    try:
        for at in range(0, len(body), _SEGMENT_BYTES):
            decode(view[at : at + _SEGMENT_BYTES])
        decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise Unspliceable(str(error)) from error


def _elements(body: bytes, given: Member, at: int) -> list[tuple[int, int]]:
    """Return the byte ranges of an array's elements: all of them (0), or those after an offset."""
    if not at:
        return json_spans.elements(body, given.start, given.end)
    if body[at : at + 1] == b"]":
        return []
    rest = b"[" + body[at + 1 : given.end]
    return [(at + start, at + end) for start, end in json_spans.elements(rest, 0, len(rest))]
