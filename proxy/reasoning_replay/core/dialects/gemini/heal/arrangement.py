"""
Arrangement: the parts of each known response in the content, and in the order, of its emission.

Gemini looks for a signature at the first call of a content. Some clients put parallel calls into
contents of their own, turn them round, or hand the signature of one to another. Only where upstream
refused that, and then for the same conversation:

- Contents that hold parts of one response, with nothing but results of its calls between them,
  become one. All results follow it, in the order of the calls.
- Parts go into the order in which they were emitted. What says nothing, such as a thought, stays
  after the part that it follows.
- A signature on another part of its response is left out there, so that its own part gets it.

A content that is not certain to hold parts of one response alone stays as it is. All of it is pure.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple

from reasoning_replay.core.dialects.gemini.items import CALL, OUTPUT, GeminiItem, ModelContent
from reasoning_replay.core.dialects.gemini.parts import Part, blob_of
from reasoning_replay.core.dialects.gemini.request import GeminiRequest
from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.matches import Matches
from reasoning_replay.core.history.turns import Emitted, Turn
from reasoning_replay.core.wire import json_spans
from reasoning_replay.core.wire.json_spans import Edit, Unspliceable

_Item = tuple[int, GeminiItem]  # and the number of the emitted item that it is


class _Chunk(NamedTuple):
    """
    An item with the parts that stay with it.

    Attributes:
        k: Number of the emitted item that it is.
        holder: The content that holds it.
        numbers: Numbers of the parts in it.
    """

    k: int
    holder: ModelContent
    numbers: range

    @property
    def parts(self) -> list[Part]:
        """The parts."""
        return [self.holder.parts[number] for number in self.numbers]


def arranged(request: GeminiRequest, matched: Matches, turns: Sequence[Turn]) -> bytes:
    """
    Return the body with the parts of each known response as they were emitted.

    The same object if they are so already, or if a part repeats a member.

    Args:
        request: The request as the client sent it.
        matched: Its matches.
        turns: All turns that were found for it: calls in another order match none without ids.

    Cost: linear in the items of the request and of the turns.
    """
    try:
        return json_spans.apply(request.body, list(_Arranger(request, matched, turns).edits()))
    except Unspliceable:
        return request.body


class _Arranger:
    def __init__(self, request: GeminiRequest, matched: Matches, turns: Sequence[Turn]) -> None:
        self._body = request.body
        self._request = request
        self._matches = matched.matches
        self._items = [place.item for place in request.places]
        self._spans = request.contents
        starts = [start for start, _ in self._spans]
        self._contents: list[list[int]] = [[] for _ in starts]  # indices of the items of each
        for index, item in enumerate(self._items):
            self._contents[bisect_right(starts, item.start) - 1].append(index)
        self._claimed: dict[bytes, set[int]] = {}  # of each turn, its items that are matched
        for match in self._matches.values():
            self._claimed.setdefault(match.turn.id, set()).add(match.k)
        self._left: dict[bytes, dict[tuple[str, bytes], deque[int]]] = {}
        free = [turn for turn in turns if turn.id not in self._claimed and len(turn.items) > 1]
        by_age = sorted(free, key=attrgetter("created_ms"))  # of equal turns, the newest one counts
        self._free = {(turn.context.chain, _said(turn.items)): turn for turn in by_age}

    def edits(self) -> Iterator[Edit]:
        """Yield the edits of all responses, in order."""
        turns = self._turns()
        at = 0
        while at < len(self._contents):
            turn = turns[at]
            rows = self._rows(at, turn) if turn is not None else []
            if turn is None or not rows:
                at += 1
                continue
            answers, end = self._answers(at, rows)
            if answers is None:  # what was not answered is not joined
                rows, end = rows[:1], at
            yield from self._edits_of(turn, rows, answers or [])
            at = end + 1

    def _turns(self) -> list[Turn | None]:
        """Return for each content the first known turn from there on, in the same round."""
        found: list[Turn | None] = [None] * len(self._contents)
        following: Turn | None = None
        for at in range(len(self._contents) - 1, -1, -1):
            indices = self._contents[at]
            if not (self._is_models(indices) or self._leading(indices) == len(indices)):
                following = None
            own = (self._matches[index].turn for index in indices if index in self._matches)
            found[at] = following = next(own, None) or self._same_items(indices) or following
        return found

    def _same_items(self, indices: Sequence[int]) -> Turn | None:
        """Return the turn that emitted these items in another order, after the same history."""
        if not self._is_models(indices):
            return None
        chain = self._request.chain(self._request.places[indices[0]].depth)
        return self._free.get((chain, _said([self._items[index] for index in indices])))

    def _is_models(self, indices: Sequence[int]) -> bool:
        return bool(indices) and all(self._items[one].role is Role.MODEL for one in indices)

    def _leading(self, indices: Sequence[int]) -> int:
        """Return the number of results with which a content begins; -1 if it has no items."""
        kinds = [self._items[index].type == OUTPUT for index in indices]
        return -1 if not kinds else [*kinds, False].index(False)

    def _rows(self, start: int, turn: Turn) -> list[tuple[int, list[_Item]]]:
        """Return the contents from one on that hold items of one turn alone, and these items."""
        rows: list[tuple[int, list[_Item]]] = []
        left = self._left_of(turn)
        for at in range(start, len(self._contents)):
            indices = self._contents[at]
            if self._is_models(indices):
                found: list[_Item] = []
                for index in indices:
                    number = self._number_of(index, turn, left, is_joined=bool(rows))
                    if number is None:
                        return rows
                    found.append((number, self._items[index]))
                rows.append((at, found))
            elif self._leading(indices) != len(indices) or not rows:
                break
        return rows

    def _left_of(self, turn: Turn) -> Mapping[tuple[str, bytes], deque[int]]:
        """Return the items of a turn that no match has, by what they say."""
        if turn.id not in self._left:
            left = self._left[turn.id] = {}
            claimed = self._claimed.get(turn.id, ())
            for k, emitted in enumerate(turn.items):
                if k not in claimed:
                    left.setdefault((emitted.type, emitted.content), deque()).append(k)
        return self._left[turn.id]

    def _number_of(
        self,
        index: int,
        turn: Turn,
        left: Mapping[tuple[str, bytes], deque[int]],
        *,
        is_joined: bool,
    ) -> int | None:
        """Return which item of a turn an item is; None if it is not certain to be one."""
        match, item = self._matches.get(index), self._items[index]
        if match is not None and (match.turn.id != turn.id or not is_joined):
            return match.k if match.turn.id == turn.id else None
        equal = left.get((item.type, item.content)) if match is None else deque([match.k])
        if not equal:
            return None
        # A client may rename calls; but an equal call with another id may be of a later response.
        emitted = turn.items[equal[0]]
        if item.call_id and emitted.call_id and item.call_id != emitted.call_id:
            return None
        return equal.popleft()

    def _answers(
        self, start: int, rows: Sequence[tuple[int, list[_Item]]]
    ) -> tuple[list[GeminiItem] | None, int]:
        """Return the results of the calls in emitted order, and the last content with one."""
        last = rows[-1][0]
        end = min(last + 1, len(self._contents) - 1)
        outputs: list[GeminiItem] = []
        for at in range(start, end + 1):
            indices = self._contents[at]
            outputs += [self._items[index] for index in indices[: max(self._leading(indices), 0)]]
        calls = [one for _, items in rows for one in items if one[1].type == CALL]
        is_answered = end > last and self._leading(self._contents[end]) > 0
        if not (calls and is_answered and len(calls) == len(outputs)):
            return None, last
        has_ids = all(item.call_id for item in (*outputs, *(call for _, call in calls)))
        left: dict[str, deque[GeminiItem]] = {}
        for output in outputs:
            left.setdefault(output.call_id if has_ids else output.name, deque()).append(output)
        answers = []
        for k, call in calls:
            found = left.get(call.call_id if has_ids else call.name)
            if not found:
                return None, last
            answers.append((k, found.popleft()))
        return [output for _, output in sorted(answers, key=itemgetter(0))], end

    def _edits_of(
        self, turn: Turn, rows: Sequence[tuple[int, list[_Item]]], answers: Sequence[GeminiItem]
    ) -> Iterator[Edit]:
        """Yield the edits of one response: its contents, and the results after them."""
        given = [chunk for _, items in rows for chunk in _chunks(items)]
        chunks = sorted(given, key=itemgetter(0))
        moved = _moved(turn, chunks)
        if len(rows) == 1 and chunks == given and not moved:
            return
        first, last = rows[0][1][0][1].holder, rows[-1][0]
        parts = [
            raw
            for chunk in chunks
            for number in chunk.numbers
            if (raw := self._part(chunk.holder, number, moved))
        ]
        yield Edit(first.spans[0][0], first.spans[-1][1], b",".join(parts))
        if not answers:
            return
        if len(rows) > 1:
            yield Edit(self._spans[rows[0][0]][1], self._spans[last + 1][0], b",")
        there = self._contents[last + 1][: self._leading(self._contents[last + 1])]
        start, end = self._items[there[0]].start, self._items[there[-1]].end
        yield Edit(start, end, b",".join([self._body[one.start : one.end] for one in answers]))

    def _part(self, holder: ModelContent, number: int, moved: frozenset[bytes]) -> bytes:
        """Return a part without a moved signature; b"" if it says nothing else."""
        start, end = holder.spans[number]
        part = holder.parts[number]
        if not part.signed or blob_of(part.signature) not in moved:
            return self._body[start:end]
        if part.is_silent and not part.is_thought:
            return b""
        members = json_spans.members(self._body, start, end)
        gone = json_spans.remove(self._body, members, part.signed)
        return self._body[start : gone.start] + gone.new + self._body[gone.end : end]


def _said(items: Sequence[GeminiItem] | Sequence[Emitted]) -> tuple[tuple[str, bytes], ...]:
    """Return what items say, in no order."""
    return tuple(sorted((item.type, item.content) for item in items))


def _chunks(items: Sequence[_Item]) -> Iterator[_Chunk]:
    """Yield the items of one content with all of its parts."""
    holder = items[0][1].holder
    starts = [item.numbers[0] for _, item in items]
    ends = [*starts[1:], len(holder.parts)]
    for (k, _), start, end in zip(items, [0, *starts[1:]], ends, strict=True):
        yield _Chunk(k, holder, range(start, end))


def _moved(turn: Turn, chunks: Sequence[_Chunk]) -> frozenset[bytes]:
    """Return the signatures that are on another part of their response, and not on their own."""
    owner_of = {
        blob: k
        for k, emitted in enumerate(turn.items)
        for part in emitted.run
        for blob in part.blobs
    }
    there = {chunk.k for chunk in chunks}
    own: set[bytes] = set()
    other: set[bytes] = set()
    for chunk in chunks:
        for blob in (blob_of(part.signature) for part in chunk.parts if part.signed):
            owner = owner_of.get(blob)
            if owner == chunk.k:
                own.add(blob)
            elif owner in there:
                other.add(blob)
    return frozenset(other - own)
