"""Plan: the decisions about the reasoning of one request, as edits and counted outcomes."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, TypeVar

from reasoning_replay.core.history.turns import Emitted
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit


class Outcome(StrEnum):
    """
    Outcomes for the reasoning that is due in a request, counted in reasoning items.

    Each item that is due has one, so their sum is what is due. All but the first two say why an
    item is *lacking*: due, and neither injected nor sent by the client.
    """

    INJECTED = "injected"
    PRESENT = "present"  # the client replayed it
    UNCHECKED = "unchecked"  # in its place, the client asks the API not to check (Gemini)
    MISSED = "missed"  # no turn is known for an emitted item; counted once for a run of items
    AMBIGUOUS = "ambiguous"  # more than one turn could have emitted the item
    GUARDED_MODEL = "guarded_model"  # made by another model family
    GUARDED_UNFINISHED = "guarded_unfinished"  # the item that it led to never finished
    GUARDED_PREFIX = "guarded_prefix"  # bound to another history than the one before it
    GUARDED_FORM = "guarded_form"  # it has no form that this request may carry
    SKIPPED = "skipped"  # the request switches reasoning off, or by setting: an older round
    REFUSED = "refused"  # upstream refused the request with it; the retry left it out


class ItemForm(StrEnum):
    """Forms in which other items are sent than the client sent them; no outcome of reasoning."""

    DEGRADED = "degraded"  # without their id, or with a filler, so that they need no reasoning
    PHASE = "phase"  # messages: with the `phase` that upstream emitted them with


_INJECTED = Outcome.INJECTED
# The outcomes of which each is a reason why reasoning is lacking.
LACKING = frozenset(Outcome) - {Outcome.INJECTED, Outcome.PRESENT}


WhatT = TypeVar("WhatT", Outcome, ItemForm)


class PlanNote(NamedTuple):
    """
    Outcome for the reasoning at one place of a request, or the form of the item there.

    Attributes:
        place: Index into `RequestHistory.places`.
        what: The outcome, or the form.
        items: Number of reasoning items with this outcome, or of items in this form.
        size_bytes: Size of the item that was injected before the place; else 0.
        reasoning_id: Id that the injected item was captured with; else "".
    """

    place: int
    what: Outcome | ItemForm
    items: int = 1
    size_bytes: int = 0
    reasoning_id: str = ""


def outcome_of_withheld(items: Iterable[Emitted]) -> Outcome:
    """Return why reasoning of these items is withheld."""
    is_refused = any(item.refused for item in items)
    return Outcome.REFUSED if is_refused else Outcome.GUARDED_UNFINISHED


def outcomes_of(notes: Iterable[PlanNote]) -> dict[Outcome, int]:
    """Return the number of items for each outcome."""
    sums: dict[Outcome, int] = {}
    injected = 0
    for note in notes:
        what = note.what
        if what is _INJECTED:  # the usual case, without the slow hash of an enum member
            injected += note.items
        elif isinstance(what, Outcome):
            sums[what] = sums.get(what, 0) + note.items
    return {_INJECTED: injected, **sums} if injected else sums


def sums_of(one: Mapping[WhatT, int], other: Mapping[WhatT, int]) -> dict[WhatT, int]:
    """Return the counts of both."""
    sums = {**one}
    for what, count in other.items():
        sums[what] = sums.get(what, 0) + count
    return sums


def forms_of(notes: Iterable[PlanNote]) -> dict[ItemForm, int]:
    """Return the number of items in each form."""
    return dict(Counter(note.what for note in notes if isinstance(note.what, ItemForm)))


@dataclass(frozen=True, slots=True)
class Plan:
    """
    The edits of a request, and the outcome for each reasoning item.

    Attributes:
        outcomes: Number of reasoning items for each outcome; the sums of the notes.
        forms: Number of items in each form.
        notes: The outcomes and forms by place; a place may have several.
        completed: Offset of each message in which captured reasoning replaces what the client makes
            of it -> the conversation.
        binding: As in `Turn`, of the request with the edits; None if the plan does not say.
        open_from: Index of the first item for which later items may still change the plan; None:
            there is none. 0 says the same of what is decided, if that was open.
    """

    edits: tuple[Edit, ...] = ()
    outcomes: Mapping[Outcome, int] = field(default_factory=dict)
    forms: Mapping[ItemForm, int] = field(default_factory=dict, kw_only=True)
    notes: tuple[PlanNote, ...] = ()
    completed: Mapping[int, bytes] = field(default_factory=dict)
    binding: bytes | None = None
    open_from: int | None = None

    def refused(self) -> "Plan":
        """Return the plan without its edits: what it would inject counts as refused."""
        notes = tuple(
            note._replace(what=Outcome.REFUSED, size_bytes=0, reasoning_id="")
            if note.what is _INJECTED
            else note
            for note in self.notes
            if not isinstance(note.what, ItemForm)
        )
        return Plan(outcomes=outcomes_of(notes), notes=notes, open_from=self.open_from)

    def after(self, given: "Plan") -> "Plan":
        """Return the plan with the counts of what is before it."""
        outcomes = sums_of(given.outcomes, self.outcomes)
        return replace(self, outcomes=outcomes, forms=sums_of(given.forms, self.forms))

    @property
    def injected_bytes(self) -> int:
        """Number of bytes of reasoning that the edits inject."""
        return sum([note.size_bytes for note in self.notes])

    def apply(self, body: bytes) -> bytes:
        """Apply the edits to a body; without edits, return the identical object."""
        return json_spans.apply(body, self.edits)
