"""
Draft: the input of a request as it will be sent, with its items in order and the text of each.

Items are never changed. A draft records new texts, removals, moves and insertions, and turns them
into one edit of the body. Untouched bytes stay, also the white space between two neighbours.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise

import msgspec

from reasoning_replay.core.dialects.responses.items import ResponsesItem, read_item
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable

__all__ = ["Draft", "is_answered", "is_output"]

# Types of model items that need an output from the client; all others are complete.
_ANSWERED = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "computer_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
        "mcp_approval_request",
        "program",
    }
)


def is_output(item: ResponsesItem) -> bool:
    """Return whether an item is the output of a call."""
    return item.role is Role.CLIENT and item.type.endswith("_output")


def is_answered(kind: str, call_id: str) -> bool:
    """Return whether such an item has an output: half of a unit is never removed."""
    return bool(call_id) or kind in _ANSWERED


class Draft:
    """
    The edits of one request's input.

    Attributes:
        items: Items in the order in which they will be sent. Those that were added have no range.
    """

    def __init__(self, request: Request) -> None:
        """Start without edits."""
        self.items = [place.item for place in request.places]
        self._request = request
        self._texts: dict[ResponsesItem, bytes] = {}

    @property
    def edited(self) -> Collection[ResponsesItem]:
        """The items that get another text."""
        return self._texts.keys()

    def text(self, item: ResponsesItem) -> bytes:
        """Return the JSON with which an item will be sent."""
        return self._texts.get(item, item.raw)

    def set_text(self, item: ResponsesItem, raw: bytes) -> None:
        """Send other JSON for an item; edits still treat it as the item that it was."""
        if raw != self.text(item):
            self._texts[item] = raw

    def complete(self, wholes: Mapping[ResponsesItem, bytes]) -> None:
        """Send whole items in place of bare ids; edits treat each as that item from now on."""
        self.items = [
            read_item(wholes[item], item.start, item.end) if item in wholes else item
            for item in self.items
        ]

    def leave_out(self, member: str, *items: ResponsesItem) -> None:
        """Remove a member of items; those whose bytes cannot be cut safely stay as they are."""
        for item in items:
            try:
                self.set_text(item, json_spans.without(self.text(item), (member,)))
            except Unspliceable:
                continue

    def set_id(self, item: ResponsesItem, item_id: str) -> None:
        """Set the id of an item, in place of any present one."""
        try:
            raw = json_spans.without(self.text(item), ("id",))
        except Unspliceable:
            return
        comma = b"" if raw[1:].lstrip(b" \t\r\n")[:1] == b"}" else b","
        self.set_text(item, b'{"id":' + msgspec.json.encode(item_id) + comma + raw[1:])

    def remove(self, items: Collection[ResponsesItem]) -> None:
        """Remove items."""
        self.items = [item for item in self.items if item not in items]

    def body(self) -> bytes:
        """Return the edited body; the same object if nothing changed."""
        body, places = self._request.body, self._request.places
        given = [(place.item.start, place.item.raw) for place in places]
        if given == [(item.start, self.text(item)) for item in self.items]:
            return body
        after = dict(pairwise(start for start, _ in given))
        written = [self.text(item) for item in self.items[:1]]
        for before, item in pairwise(self.items):
            are_neighbours = item.start and after.get(before.start) == item.start
            written.append(body[before.end : item.start] if are_neighbours else b",")
            written.append(self.text(item))
        whole = Edit(places[0].item.start, places[-1].item.end, b"".join(written))
        return json_spans.apply(body, [whole])
