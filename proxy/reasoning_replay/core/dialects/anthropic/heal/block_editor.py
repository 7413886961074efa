"""Block editor: takes reasoning blocks out of the assistant messages of a request."""

from collections.abc import Callable

from reasoning_replay.core.dialects.anthropic.items import MessagesItem
from reasoning_replay.core.dialects.anthropic.message_groups import rows_of
from reasoning_replay.core.dialects.anthropic.request import MessagesRequest
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["IsGone", "reasoning_in", "without_blocks"]

# Whether a reasoning block must be left out, with all of its row, by the index of its message.
IsGone = Callable[[int, MessagesItem], bool]


def reasoning_in(request: MessagesRequest) -> dict[int, list[MessagesItem]]:
    """Return the reasoning blocks of a request, by the index of their message."""
    index_of = {start: index for index, (start, _) in enumerate(request.messages)}
    found: dict[int, list[MessagesItem]] = {}
    for place in request.places:
        item = place.item
        if item.role is Role.REASONING and item.message is not None:
            found.setdefault(index_of[item.message.start], []).append(item)
    return found


def without_blocks(request: MessagesRequest, is_gone: IsGone) -> tuple[bytes, int]:
    """
    Return the body of a request without some reasoning blocks, and their number.

    Adjacent assistant messages lose all their blocks or none: the API accepts no part of a turn. A
    message of which nothing would be left stays as it is: the API accepts no empty message.
    """
    held = reasoning_in(request)
    index_of = {start: index for index, (start, _) in enumerate(request.messages)}
    edits: list[Edit] = []
    count = 0
    for row in rows_of(request):
        indexes = {index_of[message.start] for _, message in row}
        theirs = {index: held[index] for index in indexes if index in held}
        if not any(is_gone(index, item) for index, items in theirs.items() for item in items):
            continue
        for items in theirs.values():
            message = items[0].message
            if message is not None and len(items) < len(message.blocks):
                edits += json_spans.removals(message.blocks, {item.number for item in items})
                count += len(items)
    return json_spans.apply(request.body, edits), count
