"""Parsed request: the body of a request to `/responses`, parsed as far as injection needs it."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from reasoning_replay.core.dialects.request_body import ParsedRequest, read_items, read_values
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.history.prefix_cache import PrefixCache
from reasoning_replay.core.history.request_history import HistoryPrefix
from reasoning_replay.core.tenancy.scope import hint_of
from reasoning_replay.core.wire.digest import digest

__all__ = ["ParsedInput", "Request", "read_request"]

ParsedInput = HistoryPrefix[ResponsesItem]


@dataclass(slots=True)
class Request(ParsedRequest[ResponsesItem]):
    """One parsed request; `places` is [] if `input` is a string or missing."""

    @property
    def head(self) -> tuple[bytes, ...]:
        """JSON of the members that a model reads before the items."""
        return self.raw("instructions"), self.raw("tools")

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
    body, values = read_values(body)
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
        read_items(request, "input", _read_element, cache, tenant)
    elif words := request.text("input"):
        as_message = msgspec.json.encode({"role": "user", "content": words})
        request.said.append(read_item(as_message).said)
    return request


def _read_element(raw: bytes, start: int, end: int) -> tuple[ResponsesItem]:
    return (read_item(raw, start, end),)
