"""
Request body: the parsing of a JSON request that every dialect shares.

A dialect adds how it reads one item, and which top-level values it looks at.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from msgspec import Raw

from reasoning_replay.core.history.items import HistoryItem
from reasoning_replay.core.history.prefix_cache import ParsedPrefix, PrefixCache
from reasoning_replay.core.history.request_history import (
    HistoryPrefix,
    RequestHistory,
    empty_prefix,
    extend,
)
from reasoning_replay.core.tenancy.scope import hint_of
from reasoning_replay.core.wire import json_spans, surrogates
from reasoning_replay.core.wire.json_spans import Member, TooMany, Unspliceable

__all__ = ["ITEMS_MAX", "VALUES_MAX", "ParsedRequest", "RequestReader", "read_values"]

# Limits of items in a request's history, and of values in its whole body. Real requests have some
# thousands of items. A request above a limit is forwarded without parsing.
ITEMS_MAX = 20_000
VALUES_MAX = 200_000

ItemT = TypeVar("ItemT", bound=HistoryItem)
ItemT_co = TypeVar("ItemT_co", bound=HistoryItem, covariant=True)


@dataclass(slots=True)
class ParsedRequest(RequestHistory[ItemT_co], ABC):
    """
    One parsed request.

    Attributes:
        body: Body as received, except that lone surrogate escapes may be replaced by U+FFFD.
        values: JSON of each top-level value.
        is_mended: Whether such escapes were replaced, so that `body` must not be sent.
    """

    body: bytes = b""
    values: Mapping[str, Raw] = field(default_factory=dict)
    is_mended: bool = False

    @property
    @abstractmethod
    def head(self) -> tuple[bytes, ...]:
        """JSON of the members that a model reads before the items."""

    @property
    def stores(self) -> bool:
        """Whether upstream stores the items of this exchange."""
        return False

    @property
    def is_switched_off(self) -> bool:
        """Whether it switches reasoning off."""
        return False

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
        model_in: Returns the model that the path names, where the body names none; "": none.
    """

    make: type[RequestT]
    key: str
    read: Callable[[bytes, int, int], Sequence[ItemT]]
    note_frame: Callable[[RequestT], None] = lambda _: None
    model_in: Callable[[str], str] = lambda _: ""

    def __call__(
        self,
        body: bytes,
        headers: Mapping[str, str],
        cache: PrefixCache[HistoryPrefix[ItemT]] | None = None,
        tenant: bytes = b"",
        path: str = "",
    ) -> RequestT:
        """
        Parse the body of a request, as far as injection needs it.

        Args:
            body: UTF-8 JSON, after content decoding; the caller limits its size.
            headers: Request headers, for the name of the conversation.
            cache: Parsed prefixes; the request is added to it.
            tenant: Owner of the request; prefixes of other tenants are never used.
            path: Path of the request, without its query.

        Raises:
            TooMany: The request has too many values or items to process.
            Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
                caller forwards such a body unchanged, and upstream reports its own error.

        Cost: linear; about three C passes over the body, and some Python for each new item.
        """
        readable, values = read_values(body)
        request = self.make("", b"", body=readable, values=values)
        request.is_mended = readable is not body
        request.model = request.text("model") or self.model_in(path)
        request.hint = hint_of(headers, request.text)
        self.note_frame(request)
        if request.raw(self.key).startswith(b"["):
            _read_items(request, self.key, self.read, cache, tenant)
        return request


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
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise Unspliceable(str(error)) from error
    try:
        return body, json_spans.unambiguous(body)
    except Unspliceable:
        mended = surrogates.readable(body)
        if mended is body:
            raise
        return mended, json_spans.unambiguous(mended)


def _read_items(
    request: ParsedRequest[Any],
    key: str,
    read: Callable[[bytes, int, int], Sequence[ItemT]],
    cache: PrefixCache[HistoryPrefix[ItemT]] | None,
    tenant: bytes,
) -> None:
    """
    Read the history of a request, which is the array under a top-level key.

    Args:
        request: Its frame is what precedes the array; the history is added to it.
        key: Key of the array.
        read: Returns the items of one element: its JSON, its first offset and the one after it.
        cache: Parsed prefixes; the request is added to it.
        tenant: Owner of the request; prefixes of other tenants are never used.

    Raises:
        TooMany: The request has too many items to process.
    """
    body, began = request.body, request.frame
    given = json_spans.place_of(request.values, body, key)
    prefix: HistoryPrefix[ItemT] = empty_prefix(began)
    at = 0
    kept = cache.find(tenant, body, given.start, began) if cache is not None else None
    # After the last item, the array continues with a comma or ends: "12" does not continue "1".
    if kept is not None and body[len(kept.prefix)] in b",]":
        prefix, at = kept.parsed, len(kept.prefix)
    elements = _elements(body, given, at)
    if len(prefix.places) + len(elements) > ITEMS_MAX:
        raise TooMany(f"more than {ITEMS_MAX} items")
    items = [item for start, end in elements for item in read(body[start:end], start, end)]
    if len(prefix.places) + len(items) > ITEMS_MAX:
        raise TooMany(f"more than {ITEMS_MAX} items")
    whole = extend(prefix, items)
    request.places, request.anchors, request.said = whole.places, whole.anchors, whole.said
    request.has_reasoning, request.heard = whole.has_reasoning, whole.heard
    request.frame, request.run = whole.frame, whole.run
    if cache is not None and elements:
        parsed = ParsedPrefix(body[: elements[-1][1]], whole, len(whole.places))
        cache.keep(tenant, parsed, given.start, began, grown_from=kept if at else None)


def _elements(body: bytes, given: Member, at: int) -> list[tuple[int, int]]:
    """Return the byte ranges of an array's elements: all of them (0), or those after an offset."""
    if not at:
        return json_spans.elements(body, given.start, given.end)
    if body[at : at + 1] == b"]":
        return []
    rest = b"[" + body[at + 1 : given.end]
    return [(at + start, at + end) for start, end in json_spans.elements(rest, 0, len(rest))]
