"""Captured item: the stored part of one output item, from when it is complete until it is saved."""

import sys

import msgspec

from reasoning_replay.core.dialects.captures import ITEM_BYTES, size_of
from reasoning_replay.core.dialects.responses.emitted import emitted_of, reasoning_of
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.turns import Emitted, Reasoning


class CapturedItem(msgspec.Struct, frozen=True, gc=False):
    """
    The stored part of one output item. Its other bytes are freed at once: an image can be large.

    Attributes:
        reasoning: None if the item is not reasoning, or cannot be injected.
        emitted: None if the item is reasoning.
    """

    id: str
    reasoning: Reasoning | None = None
    emitted: Emitted | None = None
    is_finished: bool = True

    @property
    def size_bytes(self) -> int:
        """Estimated memory, with that of all texts."""
        size = size_of(self.emitted) if self.emitted is not None else ITEM_BYTES
        size += len(self.reasoning.raw) if self.reasoning is not None else 0
        return size + sys.getsizeof(self.id)


def captured(item: ResponsesItem) -> CapturedItem:
    """Return the stored part of an item."""
    if item.role is Role.REASONING:
        return CapturedItem(item.id, reasoning=reasoning_of(item))
    return CapturedItem(item.id, emitted=emitted_of(item), is_finished=item.is_finished)
