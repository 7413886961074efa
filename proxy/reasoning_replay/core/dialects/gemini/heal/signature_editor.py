"""Signature editor: takes signatures out of the contents of a request."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reasoning_replay.core.dialects.gemini.items import ModelContent
from reasoning_replay.core.dialects.gemini.parts import Part, blob_of, is_sentinel
from reasoning_replay.core.dialects.gemini.request import GeminiRequest
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["Signature", "signatures_in", "without"]


class Signature(NamedTuple):
    """A signature in a request: the content and the part that hold it, and its digest."""

    content: int
    number: int
    part: Part
    holder: ModelContent
    blob: bytes


def signatures_in(request: GeminiRequest) -> Iterator[Signature]:
    """Yield the signatures of the contents that have items, in order."""
    index_of = {start: index for index, (start, _) in enumerate(request.contents)}
    seen: set[int] = set()
    for place in request.places:
        holder = place.item.holder
        if holder.start in seen:
            continue
        seen.add(holder.start)
        for number, part in enumerate(holder.parts):
            if part.signed:
                blob = blob_of(part.signature)
                yield Signature(index_of[holder.start], number, part, holder, blob)


def without(request: GeminiRequest, gone: Sequence[Signature]) -> bytes:
    """
    Return a request without some signatures.

    A part that says nothing else goes as a whole, unless nothing would be left of its content.
    """
    edits: list[Edit] = []
    empty: dict[int, tuple[ModelContent, set[int]]] = {}
    for one in gone:
        if is_sentinel(one.part.signature):
            continue
        start, end = one.holder.spans[one.number]
        if one.part.is_silent and not one.part.is_thought:
            empty.setdefault(one.content, (one.holder, set()))[1].add(one.number)
            continue
        members = json_spans.members(request.body, start, end)
        edits.append(json_spans.remove(request.body, members, one.part.signed))
    for holder, numbers in empty.values():
        if len(numbers) < len(holder.spans):
            edits += json_spans.removals(holder.spans, numbers)
    return json_spans.apply(request.body, edits)
