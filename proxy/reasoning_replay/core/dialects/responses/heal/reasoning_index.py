"""Reasoning index: captured reasoning by blob and by id."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import takewhile
from typing import NamedTuple

from reasoning_replay.core.dialects.responses.emitted import blob_digest
from reasoning_replay.core.dialects.responses.items import ResponsesItem
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.turns import Emitted, Reasoning, Turn

__all__ = ["KnownReasoning", "ReasoningIndex"]


class KnownReasoning(NamedTuple):
    """Captured reasoning: the n-th item of the run before the k-th item that a turn emitted."""

    turn: Turn
    k: int
    n: int

    @property
    def part(self) -> Reasoning:
        """The reasoning item as it was captured."""
        return self.turn.items[self.k].run[self.n]

    @property
    def place(self) -> tuple[int, int]:
        """Sort key in the turn: before the k-th item, which is at (k, 0)."""
        return self.k, self.n - len(self.follower.run)

    @property
    def follower(self) -> Emitted:
        """The item that it led to."""
        return self.turn.items[self.k]

    @property
    def group(self) -> list[Emitted]:
        """The item that it led to and the items after that, up to the next reasoning."""
        first, *others = self.turn.items[self.k :]
        return [first, *takewhile(lambda item: not (item.run or item.withheld), others)]

    @property
    def whole_run(self) -> "list[KnownReasoning]":
        """All reasoning that led to the same item, in order."""
        return [KnownReasoning(self.turn, self.k, n) for n in range(len(self.follower.run))]


class ReasoningIndex:
    """An index of the reasoning in the turns that were looked up."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        """Index each item by its id, and by every blob that was seen for it."""
        self._by_id: dict[str, list[KnownReasoning]] = defaultdict(list)
        self._by_blob: dict[bytes, list[KnownReasoning]] = defaultdict(list)
        for turn in turns:
            for k, item in enumerate(turn.items):
                for n, part in enumerate(item.run):
                    thought = KnownReasoning(turn, k, n)
                    self._by_id[part.id].append(thought)
                    for blob in part.blobs:
                        self._by_blob[blob].append(thought)

    def of(self, item: ResponsesItem) -> KnownReasoning | None:
        """Return the captured reasoning that an item is; None if unknown or ambiguous."""
        if not self._by_id:
            return None  # the turns have no reasoning
        found = self._by_blob.get(blob_digest(item), [])
        if not found and item.id:  # two items may have the same id (xAI)
            found = self._by_id.get(item.id, [])
        return found[0] if len(found) == 1 else None

    def certain(self, item: ResponsesItem) -> KnownReasoning | None:
        """Return the captured reasoning by a name that is unique: a random id, or else the blob."""
        if item.id:
            found = self._by_id.get(item.id, []) if is_distinctive(item.id, "") else []
        else:
            found = self._by_blob.get(blob_digest(item), [])
        return found[0] if len(found) == 1 else None
