"""
Evidence: comparison of a block of a request with a captured turn, by content and history.

A block is the items of a model between two messages of the client's side.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

from reasoning_replay.core.history.decided import MUCH_CHARS
from reasoning_replay.core.history.fingerprints import are_two_counts
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.matching.candidates import (
    Candidates,
    ids_allow,
    says_the_same,
)
from reasoning_replay.core.history.request_history import RequestHistory
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS, Context, Emitted, Turn

Pairs = dict[int, int]  # index of a place -> index of the matching item in a turn


@dataclass(slots=True)
class Block:
    """
    One block of a request.

    Attributes:
        number: Index among the blocks.
        places: Indices of its items, without reasoning.
        depth: Number of messages of the client's side before it.
        turn: The turn that emitted it; None if unknown.
        is_tied: Whether several turns explain it equally well.
        whole: Digest of the whole history before it; b"" until first use.
    """

    number: int
    places: list[int]
    depth: int
    turn: Turn | None = None
    is_tied: bool = False
    whole: bytes = b""


def blocks_of(request: RequestHistory[HistoryItem], emitted_types: AbstractSet[str]) -> list[Block]:
    """
    Return the blocks of a request, in order.

    Some outputs come from upstream itself, for example from a hosted search. So an item of a type
    that a turn emitted belongs to a block, regardless of its role; messages are the exception.
    """
    blocks: list[Block] = []
    is_open = False
    for n, place in enumerate(request.places):
        role, kind = place.item.role, place.item.type
        is_emitted = role is Role.MODEL or role is Role.REFERENCE
        if is_emitted or (kind in emitted_types and kind != "message"):
            if is_open:
                blocks[-1].places.append(n)
            else:
                blocks.append(Block(len(blocks), [n], place.depth))
            is_open = True
        elif role is Role.CLIENT:
            is_open = False
    return blocks


class Evidence:
    """Evidence that a request gives about the turns that were found for it."""

    def __init__(self, request: RequestHistory[HistoryItem], known: Candidates) -> None:
        self._request = request
        self._places = request.places
        self._known = known
        self._renamed: bool | None = None  # computed on first use

    def pairs_in_place(
        self, block: Block, turn: Turn, contexts: Sequence[Context], offset: int | None
    ) -> Pairs:
        """
        Pair a whole block with an ancestor or child of another block's turn, if its position fits.

        Args:
            block: A block that is not assigned yet.
            turn: The ancestor or child.
            contexts: Contexts in which the turn may stand (`Alignment.contexts`).
            offset: Number of client messages before the other block, minus the number before its
                turn; None if positions are no evidence.

        Returns:
            {} if the block is not in the turn's position or not all of its items can be paired.
        """
        pairs = self.pairs(block, turn)
        is_there = len(pairs) == len(block.places) and any(
            self._fits(block, turn, each, pairs, offset) for each in contexts
        )
        return pairs if is_there else {}

    def _fits(
        self, block: Block, turn: Turn, context: Context, pairs: Pairs, offset: int | None
    ) -> bool:
        """
        Return whether a block is in the position of a turn.

        Any of these is enough: the whole history before both is the same; the number of messages
        before both is the same, and so is the last one; the last eight messages are the same; the
        content, with these messages, is not short, and the last message or the position fits.
        Nothing is enough if the model said something before the block, but not before the turn.
        """
        if context.whole == self.whole(block):
            return True
        if self._places[block.places[0]].model_traces and not context.model_traces:
            return False
        equal = self.equal_messages(block, context)
        if equal == TAIL_LINKS:
            return True
        if offset == 0 and block.depth == context.depth and (equal or not block.depth):
            return True
        is_there = equal > 0 or (offset is not None and block.depth == context.depth + offset)
        return is_there and self.says_much(turn, pairs, block, equal)

    def is_next(self, block: Block, turn: Turn, before: Block, parent: Turn) -> bool:
        """Return whether nothing is missing between two blocks, as of a turn and its parent."""
        gap = block.depth - before.depth
        return (
            gap == turn.context.depth - parent.context.depth
            and gap <= self.equal_messages(block, turn.context)
            and self._places[block.places[0]].model_traces == turn.context.model_traces
        )

    def equal_messages(self, block: Block, context: Context) -> int:
        """Count the last client messages before a block that equal the last before a turn."""
        newest, tail, link = block.depth - 1, context.tail, self._request.link
        equal = 0
        for at in range(len(tail) - LINK_BYTES, -1, -LINK_BYTES):
            if newest < equal or link(newest - equal) != tail[at : at + LINK_BYTES]:
                break
            equal += 1
        return equal

    def agreeing_messages(self, block: Block, turn: Turn, context: Context, pairs: Pairs) -> int:
        """
        Return how many client messages before a block and before a turn agree; 0: too few.

        Older messages that only the turn has count as cut off by the client. Then the messages that
        agree must not be short. If the block has other older ones, its text must not be short.
        """
        request, depth = self._request, block.depth
        if context.depth == depth and context.chain == request.chain(depth):
            if depth:
                return depth
            return int(bool(context.frame) and context.frame == self._places[block.places[0]].frame)
        equal = self.equal_messages(block, context)
        if equal == TAIL_LINKS:
            return equal
        is_near = abs(context.depth - depth) <= 1
        if equal >= context.depth or not (is_near or self.says_much(turn, {}, block, equal)):
            return 0
        return equal if equal == depth or self.says_much(turn, pairs, block, 0) else 0

    def is_after_the_same(self, block: Block, context: Context) -> bool:
        """
        Return whether a block and a turn stand after the same exchange, and it is not short.

        That is the model's last run and the message that it answered. The message after it may
        differ: the application may have written into it.
        """
        first, before = block.places[0], self._places[block.places[0]].before
        _, *asked = islice(self._request.asked_before(first), 2)
        if [one.said[:LINK_BYTES] for one in asked] != [
            context.tail[-2 * LINK_BYTES : -LINK_BYTES]
        ]:
            return False
        if before.traces != context.model_traces:
            return False
        return before.chars + asked[0].chars >= MUCH_CHARS

    def says_much(self, turn: Turn, pairs: Pairs, block: Block, messages: int) -> bool:
        """
        Return whether items, with up to so many `messages` before them, hardly recur by chance.

        Equal content counts once. A text in another spelling than the turn's does not count: two
        responses may differ in nothing else.
        """
        both = [(self._places[n].item, turn.items[k].spelling) for n, k in pairs.items()]
        items = [item for item, spelling in both if spelling in (None, item.spelling)]
        chars = sum({item.content: item.chars for item in items}.values())
        said: set[bytes] = set()
        if chars >= MUCH_CHARS or not messages:
            return chars >= MUCH_CHARS
        for one in islice(self._request.asked_before(block.places[0]), messages):
            chars += one.chars if one.said not in said else 0
            said.add(one.said)
            if chars >= MUCH_CHARS:
                return True
        return False

    def pairs(self, block: Block, turn: Turn) -> Pairs:
        """
        Pair the items of a block with those of a turn that have the same content, in order.

        Returns:
            {} unless all items of one side are paired: clients leave out items, or add messages. {}
            also if there are two ways to pair them, unless the turn began exactly here.
        """
        emitted = range(len(turn.items))
        pairs = self.in_order(block.places, turn, emitted)
        is_one_to_one = len(pairs) == len(block.places) == len(emitted)  # then no other way fits
        if (
            not is_one_to_one
            and turn.context.whole != self.whole(block)
            and pairs != self.in_order(block.places[::-1], turn, emitted[::-1])
        ):
            return {}
        if len(pairs) == len(block.places):
            if len(pairs) == len(turn.items) or self.says_much(turn, pairs, block, 0):
                return pairs
            # After exactly the same history, the client left out the rest of the turn.
            return pairs if turn.context.whole == self.whole(block) else {}
        are_messages = all(self._places[n].item.type == "message" for n in block.places)
        return pairs if are_messages and len(pairs) == len(turn.items) else {}

    def in_order(self, places: Sequence[int], turn: Turn, emitted: Sequence[int]) -> Pairs:
        """
        Pair items with the same content, in order.

        Places without a counterpart are left out, and so are items of the turn that `emitted` does
        not name.
        """
        pairs: Pairs = {}
        at = 0

        for n in places:
            item = self._places[n].item

            def are_renumbered(item: HistoryItem = item) -> bool:
                """Return whether the client may count anew: the number is of no equal call here."""
                if turn.context.whole != self._request.whole(self._places[min(places)]):
                    return False
                same = (e for e in turn.items if e.content == item.content)
                return not any(e.call_id and e.call_id == item.call_id for e in same)

            for step in range(at, len(emitted)):
                said = turn.items[emitted[step]]
                if not says_the_same(item, said):
                    continue
                if self._ids_allow(item, said, are_renumbered):
                    pairs[n] = emitted[step]
                    at = step + 1
                    break
                if are_two_counts(item.call_id, said.call_id):
                    break  # an equal call is left out, or the client counts anew: not to be told
        return pairs

    def whole(self, block: Block) -> bytes:
        """Return a digest of the whole history before a block, as `Context.whole`."""
        if not block.whole:
            block.whole = self._request.whole(self._places[block.places[0]])
        return block.whole

    def may_be(self, n: int, match: Match) -> bool:
        """Return whether an item can be a captured one, regardless of its content."""
        item, emitted = self._places[n].item, match.emitted
        return self._known.is_free(match, item) and self._ids_allow(item, emitted)

    def _ids_allow(
        self, item: HistoryItem, emitted: Emitted, are_renumbered: Callable[[], bool] = bool
    ) -> bool:
        return ids_allow(item, emitted, self._are_renamed, are_renumbered)

    def _are_renamed(self) -> bool:
        """Return whether the client may replace ids of calls: it keeps none that is known."""
        if self._renamed is None:
            may_be = self._request.may_rename
            self._renamed = may_be and not self._known.knows_call_of(self._places)
        return self._renamed
