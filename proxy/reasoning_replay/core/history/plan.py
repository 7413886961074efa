"""Plan: what is decided about the reasoning of one request, as edits and counted outcomes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["Anchors", "Outcome", "Plan", "PlanNote"]


class Anchors(StrEnum):
    """Which items reasoning is injected ahead of."""

    ALL = "all"
    TOOL_CALLS = "tool_calls"


class Outcome(StrEnum):
    """What became of the reasoning that a request should carry; the unit is one reasoning item."""

    INJECTED = "injected"
    PRESENT = "present"  # the client replays it itself
    MISSED = "missed"  # an emitted item of which nothing is known (counted once a run of them)
    AMBIGUOUS = "ambiguous"  # more than one turn could have emitted the item
    GUARDED_MODEL = "guarded_model"  # made by another model family
    GUARDED_UNFINISHED = "guarded_unfinished"  # what it led to never finished
    GUARDED_FORM = "guarded_form"  # no form of it that this request may carry
    SKIPPED = "skipped"  # by setting: it led to no tool call
    REFUSED = "refused"  # upstream refused the request with it, and got it without
    DEGRADED = "degraded"  # items whose id was left out, so that they pass without reasoning


class PlanNote(NamedTuple):
    """
    What became of reasoning at one place of a request.

    Attributes:
        place: Index into `RequestHistory.places`.
        outcome: What became of it.
        items: Of how many reasoning items.
        size_bytes: Of the item that was injected ahead of the place; else 0.
        reasoning_id: The id that the injected item was captured under; else "".
    """

    place: int
    outcome: Outcome
    items: int = 1
    size_bytes: int = 0
    reasoning_id: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """
    The decided edits of a request, and what each reasoning item's fate was.

    Attributes:
        outcomes: How many there are of each; the sums of the notes.
        notes: Where that was; a place may have several.
    """

    edits: tuple[Edit, ...] = ()
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    notes: tuple[PlanNote, ...] = ()

    @property
    def injected_bytes(self) -> int:
        """How many bytes of reasoning the edits put in."""
        return sum([note.size_bytes for note in self.notes])

    def apply(self, body: bytes) -> bytes:
        """Carry the edits out; a plan without edits returns the same object."""
        return json_spans.apply(body, self.edits)
