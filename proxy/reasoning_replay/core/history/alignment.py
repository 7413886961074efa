"""
Alignment: which captured turn each item of a request came from, decided for the whole request.

The items that a model made between two messages of the other side are a block: they come from one
response, in its order. Blocks are given to turns in four passes. Each fixes what it finds, and a
later pass never decides against an earlier one:

1. certain names: an id or a `call_id` that was drawn at random gives a block to its turn;
2. ancestry: each turn knows its parent, and how much had been said before it, so the turns before
   a block that is fixed fall into their places;
3. sayings: what a block says, after the same history as its turn. Of all explanations the one that
   covers most of the history wins; those that differ and cover as much leave it ambiguous;
4. descent: the turn behind a fixed one, where only one of its children says what follows.

What is left open is missed or ambiguous; neither gets anything. Cost grows with the history, and
with the turns that say what it says, of which a bounded number is compared.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from reasoning_replay.core.history.blocks import Block, blocks_of
from reasoning_replay.core.history.candidates import Candidates
from reasoning_replay.core.history.evidence import LINKS_WEIGHED, Evidence, Pairs
from reasoning_replay.core.history.fingerprints import TRACE_BYTES
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import LookupResult
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.seen import Seen, decided, seen_of
from reasoning_replay.core.history.turns import Turn

__all__ = ["Alignment"]

# What fits more turns than this is no evidence, and comparing them all is not linear.
CANDIDATES_WEIGHED = 32
# A turn whose place has moved, as messages came and went before it, is looked for so far away.
NEIGHBOURS = 4
# So many turns of a line are looked at, or one after another that have no place.
ANCESTORS_WEIGHED = 32


class Explanation(NamedTuple):
    """
    One way in which a block, and blocks before it, came from turns.

    Attributes:
        weight: Whether a block before it has one of the turn's ancestors, how many blocks it
            explains, and how much of what was said before the block the turn had heard.
        tie: Whether the conversation's name is the same, and the frame.
        turn: Of the block.
        path: By the number of a block: its turn, and how their items pair.
    """

    weight: tuple[bool, int, int]
    tie: tuple[bool, bool]
    turn: Turn
    path: dict[int, tuple[Turn, Pairs]]


class Alignment:
    """
    Gives the blocks of one request to turns.

    Attributes:
        matches, ambiguous, seen: As of `matching.Matches`; filled by `run`.
    """

    def __init__(self, request: RequestHistory[HistoryItem], looked_up: LookupResult) -> None:
        """Look at a request and what was found for it."""
        self._request = request
        self._places = request.places
        self._crowded = looked_up.crowded
        self.matches: dict[int, Match] = {}
        self.ambiguous: set[int] = set()
        self._known = Candidates(looked_up.turns)
        self._turns: Mapping[bytes, Turn] = self._known.turns
        self._evidence = Evidence(request, self._known)
        self._blocks: list[Block] = []
        self._given: dict[bytes, int] = {}  # turns that have a block, with its number
        self.seen: Seen | None = None
        self._basis, self._since = b"", 0

    def run(self, *, anew: bool = False) -> None:
        """Give as many blocks as evidence allows; `anew`: whatever was decided before."""
        self.matches, is_all = self._known.settle(self._places)
        if is_all and (anew or not self._is_remembered()):
            return
        self._blocks = blocks_of(self._request, self._known.types)
        self._children: dict[bytes, list[Turn]] = defaultdict(list)
        for turn in self._turns.values():
            self._children[turn.parent].append(turn)
        self._by_content: dict[bytes, list[Turn]] = defaultdict(list)
        self._by_whole: dict[bytes, list[Turn]] = defaultdict(list)
        for turn in self._turns.values():
            self._by_whole[turn.context.whole].append(turn)
            for content in {item.content for item in turn.items if item.content}:
                self._by_content[content].append(turn)
        if not anew:
            self._follow()
        self._give_by_names()
        for block in self._blocks:
            self._give_ancestors(block)
        self._give_by_sayings()
        for block in self._blocks:
            self._give_descendants(block)
        matched = (
            (self._places[n].heard, match.turn.id, match.k)
            for n, match in sorted(self.matches.items())
            if self._places[n].item.role is not Role.REFERENCE
        )
        self.seen = seen_of(self._basis, self._since, matched)

    # 0. What was decided before.

    def _is_remembered(self) -> bool:
        """Tell whether the newest turn remembers anything but names that are certain."""
        return bool(self.matches) and self.matches[max(self.matches)].turn.seen is not None

    def _follow(self) -> None:
        """Decide as before about what stood ahead of the newest turn that heard just that."""
        for block in reversed(self._blocks):
            turns = self._answers(block)
            if turns:
                self._follow_all(block, turns)
                return

    def _answers(self, block: Block) -> list[Turn]:
        """Return the turns that a block may be, all that was said before being the same."""
        turns = self._by_whole.get(self._evidence.whole(block), ())
        named = {match.turn.id for n in block.places if (match := self.matches.get(n)) is not None}
        if named:
            return [turn for turn in turns if {turn.id} == named]
        options = [(turn, self._evidence.pairs(block, turn)) for turn in turns]
        found = [
            Explanation((False, 1, 1), self._tie(block, turn), turn, {block.number: (turn, pairs)})
            for turn, pairs in options
            if pairs
        ]
        found = [one for one in found if self._is_plain(block, one)]
        tie = max((one.tie for one in found), default=None)
        return [one.turn for one in found if one.tie == tie]

    def _follow_all(self, block: Block, turns: Sequence[Turn]) -> None:
        """Decide as these turns remember it; where they differ, it is nobody's."""
        since, known = 0, dict[int, tuple[bytes, int]]()
        for number, turn in enumerate(turns):
            if turn.seen is None:
                return
            first, theirs = decided(turn.seen, self._seen_of)
            since = max(since, first)
            known = theirs if not number else dict(known.items() & theirs.items())
        for older in self._blocks[: block.number]:
            for n in [*older.places]:
                place = self._places[n]
                if place.heard < since or place.item.role is Role.REFERENCE:
                    continue
                this, k = known.get(place.heard, (b"", 0))
                its = self._turns.get(this)
                self.matches.pop(n, None)
                if its is not None and k < len(its.items):
                    self.matches[n] = Match(its, k)
                    self._known.use(self.matches[n])
                else:
                    older.places.remove(n)
        self._blocks = [one for one in self._blocks if one.places]
        if len(turns) == 1:
            self._basis = turns[0].id
            self._since = self._places[block.places[0]].heard

    def _seen_of(self, this: bytes) -> Seen | None:
        turn = self._turns.get(this)
        return turn.seen if turn is not None else None

    # 1. Certain names.

    def _give_by_names(self) -> None:
        """Give blocks to the turns that their items name; what is no item of these is apart."""
        blocks, self._blocks = self._blocks, []
        found: list[tuple[Block, Turn, Pairs]] = []
        for block in blocks:
            for places, turn in self._by_turn(block.places):
                pairs = self._pairs_of_own(places, turn) if turn is not None else {}
                owned = [at for at, n in enumerate(places) if n in pairs]
                first, last = (owned[0], owned[-1] + 1) if owned else (0, len(places))
                for some in (places[:first], places[first:last], places[last:]):
                    if some:
                        self._blocks.append(Block(len(self._blocks), some, block.depth))
                        if turn is not None and some[0] in pairs:
                            found.append((self._blocks[-1], turn, pairs))
        for block, turn, pairs in found:
            self._note(block, turn, pairs)
        for block, turn, pairs in found:
            self._give(block, turn, pairs)

    def _by_turn(self, places: Sequence[int]) -> Iterator[tuple[list[int], Turn | None]]:
        """Yield runs of items with the one turn that they name, if they name any."""
        some: list[int] = []
        named: Turn | None = None
        for n in places:
            match = self.matches.get(n)
            if match is not None and named is not None and match.turn.id != named.id:
                yield some, named
                some, named = [], None
            some.append(n)
            if match is not None:
                named = match.turn
        yield some, named

    def _pairs_of_own(self, places: list[int], turn: Turn) -> Pairs:
        """
        Pair the items of a block that is a turn's for certain.

        Between two that are sure, those that say the same are paired, in their order; if just as
        many are left there of the same types, they are the same ones, whatever a client made of
        their words.
        """
        sure = {n: self.matches[n].k for n in places if n in self.matches}
        ends = [(-1, -1), *((at, sure[n]) for at, n in enumerate(places) if n in sure)]
        ends.append((len(places), len(turn.items)))
        if any(k >= later for (_, k), (_, later) in itertools.pairwise(ends)):
            return sure  # a client has put them into another order
        pairs = dict(sure)
        for (at, k), (to, until) in itertools.pairwise(ends):
            between = places[at + 1 : to]
            emitted = list(range(k + 1, until))
            if not between:
                continue
            same = self._evidence.in_order(between, turn, emitted)
            if len(same) < len(between) and len(between) == len(emitted):
                both = list(zip(between, emitted, strict=True))
                if all(self._evidence.may_be(n, Match(turn, e)) for n, e in both):
                    same = dict(both)
            pairs |= same
        return pairs

    # 2. Ancestry.

    def _give_ancestors(self, block: Block) -> None:
        """Give the blocks before one to the turns before its own."""
        if block.turn is not None and block.turn.context.is_known:
            for other, turn, pairs in self._ancestry(block, block.turn):
                self._give(other, turn, pairs)

    def _ancestry(self, block: Block, turn: Turn) -> Iterator[tuple[Block, Turn, Pairs]]:
        """Yield the blocks before one that are the turns' before a turn, newest first."""
        shift, before = self._shift(block, turn), block.number
        seen = {turn.id}
        unplaced = 0
        parent = self._turns.get(turn.parent)
        while parent is not None and parent.id not in seen and before:
            seen.add(parent.id)
            if not parent.context.is_known or parent.id in self._given:
                return  # one that is given has its own line
            for other in reversed(self._blocks[max(0, before - NEIGHBOURS) : before]):
                if other.turn is not None:
                    break
                if pairs := self._evidence.pairs_in_place(other, parent, shift):
                    yield other, parent, pairs
                    before, unplaced = other.number, -1
                    break
            unplaced += 1
            if unplaced > ANCESTORS_WEIGHED:
                return
            parent = self._turns.get(parent.parent)

    def _shift(self, block: Block, turn: Turn) -> int:
        """Return how many more messages stand before a turn's first block than it had heard."""
        first = self._blocks[self._given.get(turn.id, block.number)]
        return first.depth - turn.context.depth

    # 3. Sayings.

    def _give_by_sayings(self) -> None:
        for _ in range(2):  # what is given says more of what was left open behind it
            for block in reversed(self._blocks):
                if block.turn is None and not block.is_tied:
                    self._explain(block)

    def _explain(self, block: Block) -> None:
        """Give a block, and those before it, to the turns that explain most of the history."""
        options = self._options(block)
        if options is None:
            self.ambiguous.add(block.places[0])
            return
        if not options:
            return
        explained = [self._explanation(block, *option) for option in options]
        best = max(one.weight for one in explained)
        left = [one for one in explained if one.weight == best]
        tie = max(one.tie for one in left)
        left = [one for one in left if one.tie == tie]
        if not any(self._is_plain(block, one) for one in left):
            self.ambiguous.add(block.places[0])
            return
        common = {
            number: (turn, pairs)
            for number, (turn, pairs) in left[0].path.items()
            if all(number in one.path and one.path[number][0].id == turn.id for one in left)
        }
        for number in set.intersection(*(set(one.path) for one in left)) - common.keys():
            self._blocks[number].is_tied = True
            self.ambiguous.add(self._blocks[number].places[0])
        for number, (turn, pairs) in common.items():
            self._give(self._blocks[number], turn, pairs)

    def _explanation(self, block: Block, turn: Turn, pairs: Pairs, reach: int) -> Explanation:
        """Follow the line of a turn that a block may be."""
        path = {block.number: (turn, pairs)}
        for other, ancestor, its in self._ancestry(block, turn):
            path[other.number] = (ancestor, its)
        weight = self._is_kin(block, turn), len(path), reach
        return Explanation(weight, self._tie(block, turn), turn, path)

    def _tie(self, block: Block, turn: Turn) -> tuple[bool, bool]:
        hint, theirs = self._request.hint, turn.context
        return bool(hint) and theirs.hint == hint, theirs.frame == self._frame_of(block)

    def _frame_of(self, block: Block) -> bytes:
        return self._places[block.places[0]].frame

    def _options(self, block: Block) -> list[tuple[Turn, Pairs, int]] | None:
        """Return the turns that a block may be by what it says; None: more than can be weighed."""
        contents = {self._places[n].item.content for n in block.places} - {b""}
        turns = {t.id: t for content in contents for t in self._by_content.get(content, ())}
        if len(turns) > CANDIDATES_WEIGHED:
            exact = self._by_whole.get(self._evidence.whole(block), ())
            turns = {t.id: t for t in exact if t.id in turns}
            if not 0 < len(turns) <= CANDIDATES_WEIGHED:
                return None
        is_crowded = not self._crowded.isdisjoint(block.places)
        options = []
        for turn in turns.values():
            if turn.id in self._given or not turn.context.is_known:
                continue
            if is_crowded and not self._is_kin(block, turn):
                continue
            pairs = self._evidence.pairs(block, turn)
            reach = self._evidence.reach(block, turn, pairs) if pairs else 0
            if reach and not self._contradicts(block, turn):
                options.append((turn, pairs, reach))
        return options

    def _is_plain(self, block: Block, explained: Explanation) -> bool:
        """
        Tell whether what a block says is enough for a turn, if no other explains as much.

        Where nothing that is said is long, all that can be seen has to be the same: every message
        from the head on, the frame, and the conversation's name.
        """
        theirs, (is_kin, _, _) = explained.turn.context, explained.weight
        _, pairs = explained.path[block.number]
        if is_kin or self._evidence.says_much(pairs, block, LINKS_WEIGHED):
            return True
        if theirs.hint != self._request.hint:
            return False
        frame = self._frame_of(block)
        if not block.depth:  # the head was cut right up to the block
            return not block.number and frame in (b"", theirs.frame)
        if frame != theirs.frame:
            return False
        return theirs.whole == self._evidence.whole(block)

    def _contradicts(self, block: Block, turn: Turn) -> bool:
        """Tell whether what the model had said before is known to be something else."""
        before = self._blocks[block.number - 1] if block.number else None
        parent = self._turns.get(turn.parent)
        if before is not None and before.turn is not None:
            if turn.parent == before.turn.id:
                return False
            if turn.parent and parent is not None and before.turn.id not in self._line(turn):
                return True
        place = self._places[block.places[0]]
        return _differ(place.answered, turn.context.answered) and not (
            parent is not None and before is not None and before.turn is parent
        )

    def _is_kin(self, block: Block, turn: Turn) -> bool:
        """Tell whether a turn descends from one that a block before it has."""
        return any(self._given.get(one, block.number) < block.number for one in self._line(turn))

    def _line(self, turn: Turn) -> Iterator[bytes]:
        """Yield the ids of the turns before one, the newest first, as many as are worth a look."""
        at: Turn | None = turn
        for _ in range(ANCESTORS_WEIGHED):
            if at is None or not at.parent:
                return
            yield at.parent
            at = self._turns.get(at.parent)

    # 4. Descent.

    def _give_descendants(self, block: Block) -> None:
        """Give the blocks behind one to the turns behind its own, while each is the only one."""
        turn = block.turn
        if turn is None:
            return
        shift = self._shift(block, turn)
        for number in range(block.number + 1, len(self._blocks)):
            after = self._blocks[number]
            if after.turn is turn:
                continue  # the rest of it
            if after.turn is not None:
                return
            options = self._next_of(turn, after, shift)
            if len(options) != 1:
                if options:
                    self.ambiguous.add(after.places[0])
                return
            turn, pairs = options[0]
            self._give(after, turn, pairs)
            shift = self._shift(after, turn)

    def _next_of(self, turn: Turn, block: Block, shift: int) -> list[tuple[Turn, Pairs]]:
        """Return the children of a turn that may have a block."""
        children = [child for child in self._children.get(turn.id, ()) if child.context.is_known]
        options = [
            (child, pairs)
            for child in children
            if child.id not in self._given
            and (pairs := self._evidence.pairs_in_place(block, child, shift))
        ]
        frame = self._frame_of(block)
        same = [one for one in options if one[0].context.frame == frame]
        return same if same and len(options) > 1 else options

    # Giving.

    def _give(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        """Give a block to a turn, and with it those around it that are the rest of the turn."""
        self._note(block, turn, pairs)
        first, last = min(pairs.values(), default=0), max(pairs.values(), default=0)
        for step, rest in ((-1, range(first)), (1, range(last + 1, len(turn.items)))):
            at, left = block, rest
            while left and (after := self._beside(at, step)) is not None:
                more = self._evidence.in_order(after.places, turn, left)
                if len(more) < len(after.places):
                    break
                self._note(after, turn, more)
                ends = min(more.values()), max(more.values())
                left = range(left.start, ends[0]) if step < 0 else range(ends[1] + 1, left.stop)
                at = after

    def _beside(self, block: Block, step: int) -> Block | None:
        """Return the next block, if nobody has it and only outputs stand between."""
        number = block.number + step
        if not 0 <= number < len(self._blocks) or self._blocks[number].turn is not None:
            return None
        other = self._blocks[number]
        one, two = (other, block) if step < 0 else (block, other)
        between = self._places[one.places[-1] + 1 : two.places[0]]
        return None if any(place.item.type == "message" for place in between) else other

    def _note(self, block: Block, turn: Turn, pairs: Pairs) -> None:
        block.turn = turn
        self._given[turn.id] = min(block.number, self._given.get(turn.id, block.number))
        for n, k in pairs.items():
            if n not in self.matches:
                match = Match(turn, k)
                self.matches[n] = match
                self._known.use(match)
            self.ambiguous.discard(n)


def _differ(ours: bytes, theirs: bytes) -> bool:
    """Tell whether two runs that a model is known to have made have nothing in common."""
    if not ours or not theirs:
        return False
    traces = {theirs[at : at + TRACE_BYTES] for at in range(0, len(theirs), TRACE_BYTES)}
    return traces.isdisjoint(ours[at : at + TRACE_BYTES] for at in range(0, len(ours), TRACE_BYTES))
