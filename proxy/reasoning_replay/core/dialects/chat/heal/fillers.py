"""
Fillers: values that say that there is no reasoning, for upstreams that demand a value.

They cure a history that began elsewhere, or that was deleted: the request is accepted, and the
model works without that reasoning. So they are used only if the operator allows them, only after a
refusal, and they are counted as degraded.
"""

from bisect import bisect
from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from reasoning_replay.core.dialects.chat.heal.message_editor import (
    edited,
    filled,
    messages_of,
)
from reasoning_replay.core.dialects.chat.members import ChatMessage
from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request
from reasoning_replay.core.history.plan import Outcome, Plan, PlanNote
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


def with_fillers_for(request: ChatRequest, plan: Plan, names: Iterable[str]) -> Plan:
    """Return a plan that also puts these fillers where they are lacking, and notes them."""
    body, filled_in = plan.apply(request.body), list[int]()
    for name in names:
        body, indexes = with_fillers(read_request(body, {}), FILLERS[name])
        filled_in += indexes
    if not filled_in:
        return plan
    given, now = messages_of(request), messages_of(read_request(body, {}))
    filled = [(given[index], now[index].raw) for index in sorted({*filled_in})]
    ends = [0, *(message.end for message, _ in filled)]
    starts = [-1, *(message.start for message, _ in filled)]
    others = (edit for edit in plan.edits if edit.start >= ends[bisect(starts, edit.start) - 1])
    # A message with a filler has no known reasoning; the first of its items stands for it.
    firsts: dict[int, int] = {}
    for place, of in enumerate(request.places):
        firsts.setdefault(of.item.message.start, place)
    places = (firsts.get(given[index].start) for index in filled_in)
    notes = (PlanNote(place, Outcome.DEGRADED) for place in places if place is not None)
    return replace(
        plan,
        edits=(*others, *(Edit(message.start, message.end, raw) for message, raw in filled)),
        outcomes={**plan.outcomes, Outcome.DEGRADED: len(filled_in)},
        notes=(*plan.notes, *notes),
    )


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
