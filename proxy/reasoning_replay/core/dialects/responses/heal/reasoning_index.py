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
    """The n-th item of the run of reasoning ahead of the k-th item that a turn emitted."""

    turn: Turn
    k: int
    n: int

    @property
    def part(self) -> Reasoning:
        """The reasoning as it was captured."""
        return self.turn.items[self.k].run[self.n]

    @property
    def place(self) -> tuple[int, int]:
        """What its place in the turn sorts by: ahead of the k-th item, which is at (k, 0)."""
        return self.k, self.n - len(self.follower.run)

    @property
    def follower(self) -> Emitted:
        """What it led to."""
        return self.turn.items[self.k]

    @property
    def group(self) -> list[Emitted]:
        """What it led to, and what was emitted behind that, up to the next reasoning."""
        first, *others = self.turn.items[self.k :]
        return [first, *takewhile(lambda item: not (item.run or item.withheld), others)]

    @property
    def whole_run(self) -> "list[KnownReasoning]":
        """All the reasoning that led to the same item, in its order."""
        return [KnownReasoning(self.turn, self.k, n) for n in range(len(self.follower.run))]


class ReasoningIndex:
    """The reasoning of recalled turns."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        """Find each by its id, and by every blob that was seen of it."""
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
        """Return what an item is; None when that is not known, or not clear."""
        if not self._by_id:
            return None  # nothing was recalled
        found = self._by_blob.get(blob_digest(item), [])
        if not found and item.id:  # one id may stand for two items (xAI)
            found = self._by_id.get(item.id, [])
        return found[0] if len(found) == 1 else None

    def certain(self, item: ResponsesItem) -> KnownReasoning | None:
        """Return what an item is by a name that no other could have: its id, else its blob."""
        if item.id:
            found = self._by_id.get(item.id, []) if is_distinctive(item.id, "") else []
        else:
            found = self._by_blob.get(blob_digest(item), [])
        return found[0] if len(found) == 1 else None
