"""Parsed request: the body of a request to `/responses`, parsed as far as injection needs it."""

from dataclasses import dataclass

import msgspec
from typing_extensions import override

from reasoning_replay.core.dialects.request_body import ParsedRequest, RequestReader
from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.wire.digest import digest


@dataclass(slots=True)
class Request(ParsedRequest[ResponsesItem]):
    """
    One parsed request.

    Attributes:
        restored: Number of reasoning items that a repair has added to the client's.
    """

    restored: int = 0

    @property
    def reasoning_count(self) -> int:
        """Number of reasoning items in it."""
        return sum(place.item.is_reasoning for place in self.places)

    @property
    @override
    def stores(self) -> bool:
        # It is the API's default.
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


def _note_frame(request: Request) -> None:
    request.continues = request.text("previous_response_id")
    if not _STATEFUL.isdisjoint(request.values):
        given = (request.raw(key) for key in _STATEFUL if key in request.values)
        request.is_stateful = any(value != b"null" for value in given)
    if request.text("instructions"):
        request.frame = digest(request.raw("instructions"))
    if words := request.text("input"):
        as_message = msgspec.json.encode({"role": "user", "content": words})
        request.said.append(read_item(as_message).said)


def _read_element(raw: bytes, start: int, end: int) -> tuple[ResponsesItem]:
    return (read_item(raw, start, end),)


read_request = RequestReader(Request, "input", _read_element, _note_frame)
