"""
Placement: decides which signatures the parts of a request lack, and injects them.

`plan_injection` is pure and total: it takes the matches and returns edits, with counted reasons.

- A signature goes to the part that it was emitted on, under the name that it was emitted with, at
  the end of the part. A text that came in several parts may be one part now; then it goes there.
- A part with nothing but a signature, or a signed thought, goes after the part that it followed. If
  the client has it without its signature, only that is added.
- What the client sends itself is left alone, wherever it sends it: the emitted signature, another
  one, or a value that asks the API not to check, which counts apart (`unchecked`). The emitted one
  takes the place of such a value by setting alone; of another one only if upstream refused what
  the client makes of a signature (*completed*).
- A text that is not the emitted one gets nothing. A call that its random id identifies gets its
  signature whatever its arguments are.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import NamedTuple

from reasoning_replay.core.dialects.gemini.items import (
    MESSAGE,
    GeminiItem,
    ModelContent,
)
from reasoning_replay.core.dialects.gemini.parts import (
    SIGNATURES,
    Part,
    Place,
    blob_of,
    is_sentinel,
    place_of,
    read_part,
)
from reasoning_replay.core.dialects.gemini.request import GeminiRequest
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.model_names import family
from reasoning_replay.core.history.plan import (
    Outcome,
    Plan,
    PlanNote,
    outcome_of_withheld,
    outcomes_of,
)
from reasoning_replay.core.history.turns import Reasoning, Turn
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable

_NO_PLAN = Plan()


def plan_injection(
    request: GeminiRequest,
    matched: Matches,
    completes: Callable[[Turn], bool] = lambda _: False,
    *,
    replaces_sentinels: bool = False,
) -> Plan:
    """
    Return a plan with edits that do not overlap.

    They insert members and parts, or replace signatures that are empty, or that are completed:
    those of a turn for which `completes` says so. Values that ask the API not to check are replaced
    only with `replaces_sentinels`.
    """
    if not request.run:
        return _NO_PLAN
    return _Planner(request, matched, completes, replaces_sentinels).run()


class _Row(NamedTuple):
    """
    The contents of the model between two of the client.

    Attributes:
        places: Indices of their items.
        signed: Their parts that the client sends with a signature.
    """

    places: list[int]
    signed: list[Part]


class _Planner:
    def __init__(
        self,
        request: GeminiRequest,
        matched: Matches,
        completes: Callable[[Turn], bool],
        replaces_sentinels: bool,  # noqa: FBT001 (only `plan_injection` calls this)
    ) -> None:
        self._request = request
        self._matched = matched
        self._completes = completes
        self._replaces_sentinels = replaces_sentinels
        self._replaced = 0  # sentinels
        self._completed: dict[int, bytes] = {}
        self._family = family(request.model)
        self._edits: list[Edit] = []
        self._notes: list[PlanNote] = []
        self._signed: set[int] = set()  # offsets of the parts that get a signature
        self._sent: set[bytes] = set()  # the client's signatures

    def run(self) -> Plan:
        rows = list(self._rows())
        for row in rows:
            self._sent |= {blob_of(part.signature) for part in row.signed}
        for row in rows:
            sentinels = sum(is_sentinel(part.signature) for part in row.signed)
            self._note(row.places[0], Outcome.PRESENT, len(row.signed) - sentinels)
            sentinels += self._replaced
            matches = self._matched.matches
            found = [(index, matches[index]) for index in row.places if index in matches]
            for index, match in found:
                self._decide(index, match, is_replayed=bool(row.signed))
            self._note(row.places[0], Outcome.UNCHECKED, sentinels - self._replaced)
            if not (found or row.signed):
                self._note_unknown(row.places)
        notes = tuple(self._notes)
        return Plan(tuple(self._edits), outcomes_of(notes), notes, self._completed)

    def _rows(self) -> Iterator[_Row]:
        """Yield the rows of contents of the model that hold items."""
        items = [place.item for place in self._request.places]
        for is_clients, row in groupby(range(len(items)), lambda at: items[at].role is Role.CLIENT):
            if not is_clients:
                places = [*row]
                holders = {items[at].holder.start: items[at].holder for at in places}
                parts = (part for holder in holders.values() for part in holder.parts)
                yield _Row(places, [part for part in parts if part.signed])

    def _note_unknown(self, places: list[int]) -> None:
        """Note a row of which nothing is known."""
        ambiguous = [index for index in places if index in self._matched.ambiguous]
        self._notes += [PlanNote(index, Outcome.AMBIGUOUS) for index in ambiguous]
        if not ambiguous:
            self._notes.append(PlanNote(places[0], Outcome.MISSED))

    def _decide(self, index: int, match: Match, *, is_replayed: bool) -> None:
        """Inject the signatures of an item, or note why not."""
        item, emitted, turn = self._request.places[index].item, match.emitted, match.turn
        if emitted.withheld and not is_replayed:
            self._note(index, outcome_of_withheld([emitted]), 1)
        lacking = [part for part in emitted.run if part.blobs[0] not in self._sent]
        if not lacking:
            return
        if self._family not in turn.models:
            self._note(index, Outcome.GUARDED_MODEL, len(lacking))
        elif item.type == MESSAGE and item.content != emitted.content:
            self._note(index, Outcome.GUARDED_FORM, len(lacking))
        else:
            for part in lacking:
                self._inject(index, item, part, turn)

    def _inject(self, index: int, item: GeminiItem, part: Reasoning, turn: Turn) -> None:
        """Inject one signature, or note why not."""
        holder, place = item.holder, place_of(part)
        number = _number_at(item, place)
        if number is None:
            self._note(index, Outcome.GUARDED_FORM, 1)
            return
        raw = part.raw
        target: int | None = number
        if place.is_whole:
            emitted = read_part(raw)
            target = _twin(holder, number, emitted, is_before=not place.number)
            raw = emitted.member
        if target is None:
            edit = _insertion(holder.spans[number], part.raw, is_before=not place.number)
        elif (theirs := holder.parts[target]).signed and not self._is_replaced(theirs, turn):
            return  # present
        else:
            if theirs.signed and is_sentinel(theirs.signature):
                self._replaced += 1
            elif theirs.signed:
                self._completed[holder.start] = turn.conversation
            start, end = holder.spans[target]
            made = None if start in self._signed else _member(self._request.body, start, end, raw)
            if made is None:
                self._note(index, Outcome.GUARDED_FORM, 1)
                return
            self._signed.add(start)
            edit = made
        self._edits.append(edit)
        name = part.id.partition(" ")[0]
        self._notes.append(PlanNote(index, Outcome.INJECTED, 1, len(part.raw), name))

    def _is_replaced(self, theirs: Part, turn: Turn) -> bool:
        """Return whether the emitted signature takes the place of the client's."""
        if is_sentinel(theirs.signature):
            return self._replaces_sentinels
        return self._completes(turn)

    def _note(self, index: int, outcome: Outcome, count: int) -> None:
        if count:
            self._notes.append(PlanNote(index, outcome, count))


def _number_at(item: GeminiItem, place: Place) -> int | None:
    """Return the index of the part that stands for an emitted one; None if it is not certain."""
    numbers = item.numbers
    at = max(place.number, 1) - 1
    if len(numbers) == place.total:
        return numbers[at]
    if not place.is_whole:
        return numbers[0] if len(numbers) == 1 else None
    if place.number in (0, place.total):
        return numbers[0] if not place.number else numbers[-1]
    return None


def _twin(holder: ModelContent, number: int, emitted: Part, *, is_before: bool) -> int | None:
    """Return the index of the same part without its signature; None if the client has none."""
    step = -1 if is_before else 1
    at = number + step
    while 0 <= at < len(holder.parts) and holder.parts[at].is_silent:
        mine = holder.parts[at]
        if mine.is_thought == emitted.is_thought and bytes(mine.value) == bytes(emitted.value):
            return at
        at += step
    return None


def _insertion(span: tuple[int, int], raw: bytes, *, is_before: bool) -> Edit:
    """Return the edit that puts a part before another one, or after it."""
    start, end = span
    if is_before:
        return Edit(start, start, raw + b",")
    # Inside the braces of the other part, so that the edit counts as one of its item.
    return Edit(end - 1, end - 1, b"}," + raw[:-1])


def _member(body: bytes, start: int, end: int, raw: bytes) -> Edit | None:
    """Return the edit that adds a signature to a part; None if the part repeats a member."""
    try:
        members = json_spans.members(body, start, end)
    except Unspliceable:
        return None
    less = next((members[name] for name in SIGNATURES if name in members), None)
    if less is not None:
        return Edit(less.start, less.end, raw.partition(b":")[2])
    at = next(reversed(members.values())).end
    return Edit(at, at, b"," + raw)
