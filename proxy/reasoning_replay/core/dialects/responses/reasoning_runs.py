"""
Reasoning runs: the items of a request that each run of reasoning led to.

A group is the item that a run led to and the items after it, up to the next run.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.dialects.responses.request import Request
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.request_history import Place
from reasoning_replay.core.history.turns import Reasoning, Turn

_REPLAYED = (Role.REASONING, Role.REFERENCE)

RunPosition = tuple[bytes, int, int]  # turn, index of the run's item in it, position in the run


class ReasoningRun(msgspec.Struct, gc=False):
    """
    A run of reasoning with the items of its group that the request holds.

    Attributes:
        head: Index in the turn of the item directly after the run.
        places: Indices into `Request.places`, in ascending order.
    """

    turn: Turn
    head: int
    places: list[int]

    @property
    def run(self) -> tuple[Reasoning, ...]:
        """The reasoning items of the run."""
        return self.turn.items[self.head].run

    @property
    def positions(self) -> list[RunPosition]:
        """Position of each reasoning item of the run."""
        return [(self.turn.id, self.head, n) for n in range(len(self.run))]


def groups_of(matches: Mapping[int, Match]) -> list[ReasoningRun]:
    """Return the groups of the matched items, ordered by their first place in the request."""
    groups: dict[tuple[bytes, int], ReasoningRun] = {}
    for index in sorted(matches):
        match = matches[index]
        turn, head = match.turn, head_of_group(match)
        if head is None:
            continue
        group = groups.get((turn.id, head))
        if group is None:
            groups[turn.id, head] = ReasoningRun(turn, head, [index])
        else:
            group.places.append(index)
    return list(groups.values())


def head_of_group(match: Match) -> int | None:
    """
    Return the index of the run with which an item's group begins; None if it has none.

    A compaction includes the reasoning before it, which is never injected.
    """
    items, k = match.turn.items, match.k
    while k >= 0:
        item = items[k]
        if item.type == "compaction":
            return None
        if item.run or item.withheld:
            return k
        k -= 1
    return None


def replayed_reasoning(request: Request, groups: Sequence[ReasoningRun]) -> dict[RunPosition, int]:
    """Return the reasoning that the client replays: position -> index of its place."""
    if not (groups and request.has_reasoning):
        return {}
    places = request.places
    by_blob: dict[bytes, list[RunPosition]] = defaultdict(list)
    by_id: dict[str, list[RunPosition]] = defaultdict(list)
    by_anchor: dict[int, list[RunPosition]] = {}
    for group in groups:
        by_anchor |= dict.fromkeys(group.places, group.positions)
        for position, part in zip(group.positions, group.run, strict=True):
            by_id[part.id].append(position)
            for blob in part.blobs:
                by_blob[blob].append(position)
    found: dict[RunPosition, int] = {}
    nameless: list[int] = []
    for index, place in enumerate(places):
        item = place.item
        if item.role not in _REPLAYED:
            continue
        # Two items may have the same id (xAI), so a blob is better evidence than an id.
        named = by_blob.get(blob_digest(item)) or by_id.get(item.id or "?", [])
        if named:
            _take_first(named, found, index)
        elif item.is_reasoning:
            nameless.append(index)
    anchors = _anchors_after(places, nameless)
    for index in nameless:
        _take_first(by_anchor.get(anchors[index], []), found, index)
    return found


def _anchors_after(places: Sequence[Place[ResponsesItem]], indices: list[int]) -> dict[int, int]:
    """Return, for each reasoning item, the first place after it that is not reasoning."""
    after: dict[int, int] = {}
    anchor = len(places)
    for index in range(len(places) - 1, -1, -1) if indices else ():
        if not places[index].item.is_reasoning:
            anchor = index
        after[index] = anchor
    return after


def _take_first(
    positions: Iterable[RunPosition], found: dict[RunPosition, int], index: int
) -> None:
    """Assign an item of the request to the first of these positions that is still free."""
    free = next((one for one in positions if one not in found), None)
    if free is not None:
        found[free] = index
