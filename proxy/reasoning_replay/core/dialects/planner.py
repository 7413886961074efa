"""
Planner: how a plan is made, the same in every dialect.

A dialect divides the history into groups, which are what its reasoning belongs to: an item and
those after it, a message, a row of contents. It decides about each of them in order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from reasoning_replay.core.dialects.request_body import ParsedRequest
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import Outcome, Plan, PlanNote, forms_of, outcomes_of
from reasoning_replay.core.history.turns import Turn
from reasoning_replay.core.wire.json_spans import Edit

RequestT = TypeVar("RequestT", bound=ParsedRequest[Any])
UnitT = TypeVar("UnitT")


@dataclass(eq=False)
class Planner(ABC, Generic[RequestT, UnitT]):
    """
    The plan of one request, while it is made.

    Attributes:
        matched: The captured items that those of the request came from.
        groups: All groups, in the order of the history.
        completes: Says whether captured reasoning of a turn takes the place of what the client
            makes of it, because upstream refused that.
        edits, completed: As in `Plan`.
        notes: As in `Plan`, in any order.
    """

    request: RequestT
    matched: Matches
    groups: Sequence[UnitT]
    completes: Callable[[Turn], bool] = lambda _: False
    edits: list[Edit] = field(default_factory=list, init=False)
    notes: list[PlanNote] = field(default_factory=list, init=False)
    completed: dict[int, bytes] = field(default_factory=dict, init=False)

    @cached_property
    def _family(self) -> str:
        return family(self.request.model)

    def is_of_model(self, turn: Turn) -> bool:
        """Return whether a model of the requested one's family made a turn."""
        return self._family in turn.models

    @abstractmethod
    def decide(self, group: UnitT) -> None:
        """Inject the reasoning that a group lacks, or note why not."""

    def decide_rest(self) -> None:
        """Decide about items that are in no group; only some dialects have such items."""

    def plan(self, binding: bytes | None = None, open_from: int | None = None) -> Plan:
        """Return the plan for all groups; `binding` and `open_from` as in `Plan`."""
        for group in self.groups:
            self.decide(group)
        self.decide_rest()
        notes = tuple(sorted(self.notes, key=lambda note: note.place))
        outcomes, forms = outcomes_of(notes), forms_of(notes)
        edits = tuple(self.edits)
        return Plan(edits, outcomes, notes, self.completed, binding, open_from, forms=forms)

    def note(self, place: int, outcome: Outcome, count: int) -> None:
        """Note what becomes of so many pieces of reasoning that are due at a place."""
        if count:
            self.notes.append(PlanNote(place, outcome, count))

    def note_injected(self, place: int, raw: bytes, name: str) -> None:
        """Note one that is injected."""
        self.notes.append(PlanNote(place, Outcome.INJECTED, 1, len(raw), name))

    def note_unknown(self, places: Sequence[int], *, is_counted: bool = False) -> bool:
        """
        Note items of which nothing is known; return whether they are lost.

        Each that is ambiguous counts for itself. Without any, all of them are one loss, unless
        that `is_counted` already.
        """
        ambiguous = [index for index in places if index in self.matched.ambiguous]
        self.notes += [PlanNote(index, Outcome.AMBIGUOUS) for index in ambiguous]
        if not (ambiguous or is_counted):
            self.notes.append(PlanNote(places[0], Outcome.MISSED))
        return not ambiguous
