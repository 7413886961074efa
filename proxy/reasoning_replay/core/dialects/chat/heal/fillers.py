"""
Fillers: values that say that there is no reasoning, for upstreams that demand a value.

They cure a history that began elsewhere, or that was deleted: the request is accepted, and the
model works without that reasoning. So they are used only if the operator allows them, only after a
refusal, and they are counted as degraded.
"""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from reasoning_replay.core.dialects.chat.heal.message_editor import (
    edited,
    filled,
    messages_of,
)
from reasoning_replay.core.dialects.chat.members import ChatMessage
from reasoning_replay.core.dialects.chat.request import ChatRequest
from reasoning_replay.core.history.plan import ItemForm, Plan, PlanNote, sums_of
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit


class Filler(NamedTuple):
    """
    One filler.

    Attributes:
        name: Member that it is the value of.
        value: Its JSON.
        is_of_call: Whether it belongs to the first tool call of a message, and not to the message.
    """

    name: str
    value: bytes
    is_of_call: bool

    def is_lacking(self, message: ChatMessage) -> bool:
        """Return whether a message has no value where the filler belongs."""
        if self.is_of_call and not message.calls:
            return False
        call = 0 if self.is_of_call else None
        return all((part.call, part.name) != (call, self.name) for part in message.parts)


# By the member that a refusal misses. DeepSeek accepts an empty text wherever it demands one.
# Google documents its value for histories of other models (ai.google.dev, thought signatures).
FILLERS = MappingProxyType(
    {
        filler.name: filler
        for filler in (
            Filler("reasoning_content", b'""', is_of_call=False),
            Filler(
                "extra_content",
                b'{"google":{"thought_signature":"skip_thought_signature_validator"}}',
                is_of_call=True,
            ),
        )
    }
)


def with_fillers_for(request: ChatRequest, plan: Plan, names: Sequence[str]) -> Plan:
    """Return a plan that also puts these fillers where they are lacking, and notes them."""
    # A message with a filler has no known reasoning; the first of its items stands for it.
    firsts: dict[int, int] = {}
    for place, of in enumerate(request.places):
        firsts.setdefault(of.item.message.start, place)
    messages = [*messages_of(request).values()]
    starts = [message.start for message in messages]
    inside: dict[int, list[Edit]] = {}  # by the number of the message; -1: outside of all
    for edit in plan.edits:
        at = bisect(starts, edit.start) - 1
        inside.setdefault(at if at >= 0 and edit.start < messages[at].end else -1, []).append(edit)
    edits, notes, count = inside.get(-1, []), [*plan.notes], 0
    for at, given in enumerate(messages):
        own, start = inside.get(at, []), given.start
        here = [Edit(edit.start - start, edit.end - start, edit.new) for edit in own]
        raw = before = json_spans.apply(given.raw, here)
        for filler in (FILLERS[name] for name in names):
            now = ChatMessage(raw, start)
            if filler.is_lacking(now):
                raw, count = filled(now, filler.name, filler.value), count + 1
                if start in firsts:
                    notes.append(PlanNote(firsts[start], ItemForm.DEGRADED))
        edits += own if raw is before else [Edit(start, given.end, raw)]
    if not count:
        return plan
    forms = sums_of(plan.forms, {ItemForm.DEGRADED: count})
    return replace(plan, edits=tuple(edits), forms=forms, notes=tuple(notes))


def with_fillers(request: ChatRequest, filler: Filler) -> tuple[bytes, list[int]]:
    """
    Return the body of a request with a filler in each message that lacks it, and their indexes.

    Every such message gets one, whatever its place, so that the prefix of later requests is the
    same.
    """
    new = {
        index: filled(message, filler.name, filler.value)
        for index, message in messages_of(request).items()
        if filler.is_lacking(message)
    }
    return edited(request, new), list(new)
