"""What is decided of a request: the words for it, and the edits that carry it out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from reasoning_replay.core.dialects.responses.profiles import GENERIC, Profile
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit

__all__ = ["Anchors", "Outcome", "Plan", "PlanNote", "Policy"]


class Anchors(StrEnum):
    """Which items reasoning is restored ahead of."""

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


@dataclass(frozen=True, slots=True)
class Policy:
    """What the operator and the upstream allow."""

    anchors: Anchors = Anchors.ALL
    profile: Profile = GENERIC


# Where in Request.places, what became of it and of how many; where one was put ahead of the place,
# how many bytes, and the id that it was captured under.
PlanNote = tuple[int, Outcome, int, int, str]


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
        return sum([size for _, _, _, size, _ in self.notes])

    def apply(self, body: bytes) -> bytes:
        """Carry the edits out; a plan without edits returns the same object."""
        return json_spans.apply(body, self.edits)
