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

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from typing_extensions import override

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
from reasoning_replay.core.dialects.planner import Planner
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.plan import Outcome, Plan, outcome_of_withheld
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
    rows = [*_rows(request)]
    sent = {blob_of(part.signature) for row in rows for part in row.signed}
    planner = _Planner(request, matched, rows, completes, sent=sent)
    planner.replaces_sentinels = replaces_sentinels
    return planner.plan()


class _Row(NamedTuple):
    """
    The contents of the model between two of the client.

    Attributes:
        places: Indices of their items.
        signed: Their parts that the client sends with a signature.
    """

    places: list[int]
    signed: list[Part]


@dataclass(eq=False, kw_only=True)
class _Planner(Planner[GeminiRequest, _Row]):
    """
    The planner of a request.

    Attributes:
        sent: The client's signatures.
        replaced: Number of its sentinels that are replaced in the current row.
        signed: Offsets of the parts that get a signature.
    """

    sent: Collection[bytes]
    replaces_sentinels: bool = False
    replaced: int = 0
    signed: set[int] = field(default_factory=set)

    @override
    def decide(self, group: _Row) -> None:
        first, matches = group.places[0], self.matched.matches
        sentinels = sum(is_sentinel(part.signature) for part in group.signed)
        known = [(index, matches[index]) for index in group.places if index in matches]
        self.replaced = 0
        self.note(first, Outcome.PRESENT, len(group.signed) - sentinels)
        for index, match in known:
            self._decide(index, match, is_replayed=bool(group.signed))
        self.note(first, Outcome.UNCHECKED, sentinels - self.replaced)
        if not (known or group.signed):
            self.note_unknown(group.places)

    def _decide(self, index: int, match: Match, *, is_replayed: bool) -> None:
        """Inject the signatures of an item, or note why not."""
        item, emitted, turn = self.request.places[index].item, match.emitted, match.turn
        if emitted.withheld and not is_replayed:
            self.note(index, outcome_of_withheld([emitted]), emitted.lacks)
        lacking = [part for part in emitted.run if part.blobs[0] not in self.sent]
        if not self.is_of_model(turn):
            self.note(index, Outcome.GUARDED_MODEL, len(lacking))
        elif item.type == MESSAGE and item.content != emitted.content:
            self.note(index, Outcome.GUARDED_FORM, len(lacking))
        else:
            for part in lacking:
                self._inject(index, item, part, turn)

    def _inject(self, index: int, item: GeminiItem, part: Reasoning, turn: Turn) -> None:
        """Inject one signature, or note why not."""
        holder, place = item.holder, place_of(part)
        number = _number_at(item, place)
        if number is None:
            self.note(index, Outcome.GUARDED_FORM, 1)
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
                self.replaced += 1
            elif theirs.signed:
                self.completed[holder.start] = turn.conversation
            start, end = holder.spans[target]
            made = None if start in self.signed else _member(self.request.body, start, end, raw)
            if made is None:
                self.note(index, Outcome.GUARDED_FORM, 1)
                return
            self.signed.add(start)
            edit = made
        self.edits.append(edit)
        self.note_injected(index, part.raw, part.id.partition(" ")[0])

    def _is_replaced(self, theirs: Part, turn: Turn) -> bool:
        """Return whether the emitted signature takes the place of the client's."""
        if is_sentinel(theirs.signature):
            return self.replaces_sentinels
        return self.completes(turn)


def _rows(request: GeminiRequest) -> Iterator[_Row]:
    """Yield the rows of contents of the model that hold items."""
    items = [place.item for place in request.places]
    for is_clients, row in groupby(range(len(items)), lambda at: items[at].role is Role.CLIENT):
        if not is_clients:
            places = [*row]
            holders = {items[at].holder.start: items[at].holder for at in places}
            parts = (part for holder in holders.values() for part in holder.parts)
            yield _Row(places, [part for part in parts if part.signed])


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
    theirs = next((members[name] for name in SIGNATURES if name in members), None)
    if theirs is not None:
        return Edit(theirs.start, theirs.end, raw.partition(b":")[2])
    at = next(reversed(members.values())).end
    return Edit(at, at, b"," + raw)
