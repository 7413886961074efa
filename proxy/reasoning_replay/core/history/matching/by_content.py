"""
Content: the pass that assigns blocks to turns by content and by the history before it.

An explanation covers a block and blocks before it. The one that covers most of the history wins.
Different explanations that cover as much leave the block ambiguous.
"""

from typing import NamedTuple

from reasoning_replay.core.history.decided import MESSAGES_WEIGHED
from reasoning_replay.core.history.matching.alignment import Alignment, Block, Pairs
from reasoning_replay.core.history.matching.ancestry import ancestry
from reasoning_replay.core.history.matching.claims import (
    CANDIDATES_WEIGHED,
    Said,
    children_of,
    contents_after,
    is_followed,
    says_much,
)
from reasoning_replay.core.history.matching.evidence import TEXTS, proof
from reasoning_replay.core.history.matching.pairing import assign, pairs_of
from reasoning_replay.core.history.turns import Turn

# Number of later blocks that are searched for an assigned one, which may rule out a turn.
LATER_BLOCKS = 8


class _Explanation(NamedTuple):
    """
    One possible assignment of a block, and of blocks before it, to turns.

    Attributes:
        weight: What decides between explanations, the most important first: whether a block before
            it is assigned to an ancestor of the turn; the items of the block that are paired;
            whether the number of messages since that ancestor is the same; the blocks that are
            covered; the messages that agree; and whether the block has all of the turn.
        preference: What decides between those of the same weight: whether the turn has the
            request's hint; whether the whole history before both is equal; and the frame.
        is_cut: Whether the turn had older messages, which the client has cut off.
        turn: Turn of the block.
        path: Block number -> its turn, and the pairs of their items.
    """

    weight: tuple[bool, int, bool, int, int, bool]
    preference: tuple[bool, bool, bool]
    is_cut: bool
    turn: Turn
    path: dict[int, tuple[Turn, Pairs]]

    def may_be_as_good(self, best: "_Explanation") -> bool:
        """Return whether it may lose only because the turn's parent is unknown."""
        (_, items, _, _, *rest), (_, most, _, _, *others) = self.weight, best.weight
        return self.turn.lacks_parent and (items, *rest) >= (most, *others)


def assign_by_content(found: Alignment) -> None:
    """Assign the remaining blocks, newest first, each together with blocks before it."""
    for _ in range(2):  # a block assigned in the first round is evidence for later open blocks
        for block in reversed(found.blocks):
            if block.turn is None and not block.is_tied:
                _explain(found, block)


def is_enough(found: Alignment, block: Block, turn: Turn, pairs: Pairs) -> bool:
    """
    Return whether a block's content is enough evidence for a turn without competitors.

    If the text is short, everything visible must be the same: every message from the head on, the
    frame, and the conversation's name.
    """
    context = turn.context
    claim = Said(found, block, turn, pairs, context)
    if says_much(claim, MESSAGES_WEIGHED):
        return True
    if context.hint != found.request.hint:
        return False
    frame = found.first(block).frame
    if not (block.number or block.depth) and claim.has_call:  # the client cut up to it
        return frame in (b"", context.frame)
    return frame == context.frame and context.whole == found.whole(block)


def preference(found: Alignment, block: Block, turn: Turn) -> tuple[bool, bool]:
    """Return whether a turn has the request's hint, and whether it has the block's frame."""
    hint, context = found.request.hint, turn.context
    return bool(hint) and context.hint == hint, context.frame == found.first(block).frame


def _explain(found: Alignment, block: Block) -> None:
    """Assign a block, and blocks before it, to the turns that explain most of the history."""
    explained = _explanations(found, block)
    if explained is None:
        found.doubt(block)
    if not explained:
        return
    best = max(explained, key=lambda one: one.weight)
    left = [one for one in explained if one.weight == best.weight or one.may_be_as_good(best)]
    preferences = [one.preference for one in left]
    if any(one.is_cut for one in left) and any(is_exact for _, is_exact, _ in preferences):
        # The client may have cut its history, so neither the beginning nor the frame tells.
        preferences = [(has_hint, False, False) for has_hint, _, _ in preferences]
    highest = max(preferences)
    left = [one for one, its in zip(left, preferences, strict=True) if its == highest]
    if found.is_refused and len(left) > 1 and highest[1] and _say_the_same(left):
        # Upstream demands some reasoning there, and any of them fits. The oldest stays the same one
        # at every replica, and later: all that is said after it continues that one.
        found.chosen.update(block.places)
        left = [min(left, key=lambda one: (one.turn.created_ms, one.turn.id))]
    if not any(_may_go_on(found, block, one) for one in left) or not any(
        (one.weight[0] and one.weight[2]) or is_enough(found, block, *one.path[block.number])
        for one in left
    ):
        found.doubt(block)
        return
    for number, (turn, pairs) in left[0].path.items():
        turns = {one.path[number][0].id if number in one.path else b"" for one in left}
        if turns == {turn.id}:
            assign(found, found.blocks[number], turn, pairs)
        elif b"" not in turns:
            found.doubt(found.blocks[number], is_tied=True)


def _say_the_same(left: list[_Explanation]) -> bool:
    """Return whether turns said the same, for example if a request was answered twice."""
    said = {tuple((item.type, item.name, item.content) for item in one.turn.items) for one in left}
    return len(said) == 1


def _explanations(found: Alignment, block: Block) -> list[_Explanation] | None:
    """
    Return the explanations of a block, by the turns with its content.

    None if there are too many to compare, or if every one contradicts the blocks after it.
    """
    turns = found.saying(block)
    if len(turns) > CANDIDATES_WEIGHED:
        exact = found.index.by_whole.get(found.whole(block), ())
        turns = {t.id: t for t in exact if t.id in turns}
        if not 0 < len(turns) <= CANDIDATES_WEIGHED:
            return None
    claims = [claim for turn in turns.values() for claim in _claims(found, block, turn)[:1]]
    line = _line_after(found, block)
    left = [(claim, much) for claim, much in claims if not line or claim.turn.id in line]
    return [_explanation(claim, much) for claim, much in left] if left or not claims else None


def _claims(found: Alignment, block: Block, turn: Turn) -> list[tuple[Said, int]]:
    """Return that a block comes from a turn, in each context in which so much proves it."""
    if found.is_assigned(turn) or not turn.context.is_known:
        return []
    is_crowded = not found.crowded.isdisjoint(block.places)
    if is_crowded and found.nearest_ancestor(block, turn) is None:
        return []
    pairs = pairs_of(found, block, turn)
    if not pairs or found.has_other_place(block, turn):
        return []
    claims = [Said(found, block, turn, pairs, each) for each in found.contexts(turn)]
    return [(claim, much) for claim in claims if (much := proof(TEXTS, claim))]


def _explanation(claim: Said, agreeing: int) -> _Explanation:
    """Return the explanation of a block by a turn and its ancestors."""
    found, block, turn, pairs, context, *_ = claim
    path = {block.number: (turn, pairs)}
    for other, ancestor, its in ancestry(found, block, turn):
        path[other.number] = (ancestor, its)
    nearest = found.nearest_ancestor(block, turn)
    has_hint, has_frame = preference(found, block, turn)
    is_exact = context.whole == found.whole(block)
    is_in_step = nearest is None or found.offset(block, nearest) == block.depth - context.depth
    is_whole = len(pairs) == len(turn.items) or _is_open(found, block)
    return _Explanation(
        (nearest is not None, len(pairs), is_exact or is_in_step, len(path), agreeing, is_whole),
        (has_hint, is_exact, has_frame),
        0 < block.depth < turn.context.depth,
        turn,
        path,
    )


def _is_open(found: Alignment, block: Block) -> bool:
    """Return whether outputs follow a block, and so perhaps the rest of its turn."""
    after = block.places[-1] + 1
    return after < len(found.places) and found.places[after].item.type != "message"


def _may_go_on(found: Alignment, block: Block, one: _Explanation) -> bool:
    """Return whether what follows a block may follow its turn, if the client cut its history."""
    if not one.is_cut or block.number + 1 == len(found.blocks):
        return True
    said = contents_after(found, block)
    return any(
        is_followed(found, block, child) or any(item.content in said for item in child.items)
        for child in children_of(found, one.turn)
    )


def _line_after(found: Alignment, block: Block) -> list[bytes]:
    """Return the next assigned turn after a block and all its ancestors; [] if not all known."""
    later = found.blocks[block.number + 1 : block.number + 1 + LATER_BLOCKS]
    after = next((one.turn for one in later if one.turn is not None), None)
    if after is None:
        return []
    line = [after.id, *found.ancestors(after)]
    root = found.turns.get(line[-1])
    is_whole = root is not None and not (root.parent or root.lacks_parent)
    return line if is_whole else []
