"""Parsed request: the body of a request to `/responses`, parsed as far as injection needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.history.prefix_cache import ParsedPrefix, PrefixCache
from reasoning_replay.core.history.request_history import (
    HistoryPrefix,
    RequestHistory,
    empty_prefix,
    extend,
)
from reasoning_replay.core.tenancy.scope import hint_of
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.digest import digest
from reasoning_replay.core.wire.json_spans import Member, TooMany, Unspliceable

__all__ = ["ParsedInput", "Request", "read_request"]

ParsedInput = HistoryPrefix[ResponsesItem]


# Limits of items in a request's input, and of values in its whole body. Real requests have some
# thousands of items. A request above a limit is forwarded without parsing.
ITEMS_MAX = 20_000
VALUES_MAX = 200_000


@dataclass(slots=True)
class Request(RequestHistory[ResponsesItem]):
    """
    One parsed request; `places` is [] if `input` is a string or missing.

    Attributes:
        body: Body as received, except that lone surrogate escapes may be replaced by U+FFFD.
        values: JSON of each top-level value.
    """

    body: bytes = b""
    values: Mapping[str, Raw] = field(default_factory=dict)

    def raw(self, key: str) -> bytes:
        """Return the JSON of a top-level value; b"" if it is absent."""
        return bytes(self.values.get(key, b""))

    @property
    def head(self) -> tuple[bytes, ...]:
        """JSON of the members that a model reads before the items."""
        return self.raw("instructions"), self.raw("tools")

    def text(self, key: str) -> str:
        """Return a top-level string; "" if it is absent or of another type."""
        raw = self.values.get(key)
        return (json_spans.text(raw) or "") if raw is not None else ""

    @property
    def stores(self) -> bool:
        """Whether upstream stores the items of this exchange, which is the API's default."""
        return self.raw("store") != b"false"

    @property
    def has_easy_form(self) -> bool:
        """Whether it holds a model message that cannot have an id: its reasoning needs a blob."""
        items = (self.places[n].item for n in reversed(self.anchors))
        return any(item.type == "message" and not (item.id or item.takes_id) for item in items)

    @property
    def is_background(self) -> bool:
        """Whether the client fetches the response later."""
        return self.raw("background") == b"true"


_STATEFUL = frozenset({"previous_response_id", "conversation"})


def read_request(
    body: bytes,
    headers: Mapping[str, str],
    cache: PrefixCache[ParsedInput] | None = None,
    tenant: bytes = b"",
) -> Request:
    """
    Parse the body of a request to `/responses`.

    Args:
        body: UTF-8 JSON, after content decoding; the caller limits its size.
        headers: Request headers, for the name of the conversation.
        cache: Parsed prefixes; the request is added to it.
        tenant: Owner of the request; prefixes of other tenants are never used.

    Raises:
        TooMany: The request has too many values or items to process.
        Unspliceable: Not a JSON object in UTF-8, nested too deep, or a key occurs twice. The
            caller forwards such a body unchanged, and upstream reports its own error.

    Cost: linear; about three C passes over the body, and some Python for each new item.
    """
    json_spans.bound(body, VALUES_MAX)
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise Unspliceable(str(error)) from error
    try:
        values = json_spans.unambiguous(body)
    except Unspliceable:
        # The lengths stay the same, so offsets in the new body are valid in the original one.
        body = json_spans.readable(body)
        values = json_spans.unambiguous(body)
    request = Request("", b"", body=body, values=values)
    request.model = request.text("model")
    request.continues = request.text("previous_response_id")
    if not _STATEFUL.isdisjoint(values):
        given = (request.raw(key) for key in _STATEFUL if key in values)
        request.is_stateful = any(value != b"null" for value in given)
    request.hint = hint_of(headers, request.text)
    if request.text("instructions"):
        request.frame = digest(request.raw("instructions"))
    if request.raw("input").startswith(b"["):
        _read_items(request, json_spans.place_of(values, body, "input"), cache, tenant)
    elif words := request.text("input"):
        as_message = msgspec.json.encode({"role": "user", "content": words})
        request.said.append(read_item(as_message).said)
    return request


def _read_items(
    request: Request, given: Member, cache: PrefixCache[ParsedInput] | None, tenant: bytes
) -> None:
    body, began = request.body, request.frame
    prefix: ParsedInput = empty_prefix(began)
    at = 0
    kept = cache.find(tenant, body, given.start) if cache is not None else None
    # After the last item, the input continues with a comma or ends: "12" does not continue "1".
    if kept is not None and kept.parsed.began == began and body[len(kept.prefix)] in b",]":
        prefix, at = kept.parsed, len(kept.prefix)
    elements = _elements(body, given, at)
    if len(prefix.places) + len(elements) > ITEMS_MAX:
        raise TooMany(f"more than {ITEMS_MAX} items")
    whole = extend(prefix, [read_item(body[start:end], start, end) for start, end in elements])
    places = whole.places
    request.places, request.anchors, request.said = places, whole.anchors, whole.said
    request.has_reasoning, request.heard = whole.has_reasoning, whole.heard
    request.frame, request.run = whole.frame, whole.run
    if cache is not None and places and len(places) > len(prefix.places):
        parsed = ParsedPrefix(body[: places[-1].item.end], whole, len(places))
        cache.keep(tenant, parsed, given.start, grown_from=kept if prefix.places else None)


def _elements(body: bytes, given: Member, at: int) -> list[tuple[int, int]]:
    """Return the byte ranges of an input's items: all of them (0), or those after an offset."""
    if not at:
        return json_spans.elements(body, given.start, given.end)
    if body[at : at + 1] == b"]":
        return []
    rest = b"[" + body[at + 1 : given.end]
    return [(at + start, at + end) for start, end in json_spans.elements(rest, 0, len(rest))]
