"""
Sayings: gives blocks to turns by what they say, after the same history.

Of all explanations of a block, and of those before it, the one that covers most of the history
wins. Those that differ and cover as much leave it ambiguous.
"""

from typing import NamedTuple

from reasoning_replay.core.history.fingerprints import TRACE_BYTES
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.blocks import Block
from reasoning_replay.core.history.matching.evidence import LINKS_WEIGHED, Pairs
from reasoning_replay.core.history.turns import Turn

__all__ = ["give_by_sayings", "is_plain"]

# What fits more turns than this is no evidence, and comparing them all is not linear.
CANDIDATES_WEIGHED = 32


class _Explanation(NamedTuple):
    """
    One way in which a block, and blocks before it, came from turns.

    Attributes:
        weight: Whether a block before it has one of the turn's ancestors, how many blocks it
            explains, and how much of what was said before the block the turn had heard.
        tie: As of `Alignment.tie`.
        turn: Of the block.
        path: By the number of a block: its turn, and how their items pair.
    """

    weight: tuple[bool, int, int]
    tie: tuple[bool, bool]
    turn: Turn
    path: dict[int, tuple[Turn, Pairs]]


def give_by_sayings(found: Alignment) -> None:
    """Give the blocks that are left, the newest first, with those before them."""
    for _ in range(2):  # what is given says more of what was left open behind it
        for block in reversed(found.blocks):
            if block.turn is None and not block.is_tied:
                _explain(found, block)


def is_plain(found: Alignment, block: Block, turn: Turn, pairs: Pairs) -> bool:
    """
    Tell whether what a block says is enough for a turn, if no other explains as much.

    Where nothing that is said is long, all that can be seen has to be the same: every message
    from the head on, the frame, and the conversation's name.
    """
    theirs = turn.context
    if found.is_kin(block, turn) or found.evidence.says_much(pairs, block, LINKS_WEIGHED):
        return True
    if theirs.hint != found.request.hint:
        return False
    frame = found.frame_of(block)
    if not block.depth:  # the head was cut right up to the block
        return not block.number and frame in (b"", theirs.frame)
    if frame != theirs.frame:
        return False
    return theirs.whole == found.evidence.whole(block)


def _explain(found: Alignment, block: Block) -> None:
    """Give a block, and those before it, to the turns that explain most of the history."""
    options = _options(found, block)
    if options is None:
        found.ambiguous.add(block.places[0])
        return
    if not options:
        return
    explained = [_explanation(found, block, *option) for option in options]
    best = max(one.weight for one in explained)
    left = [one for one in explained if one.weight == best]
    tie = max(one.tie for one in left)
    left = [one for one in left if one.tie == tie]
    if not any(is_plain(found, block, *one.path[block.number]) for one in left):
        found.ambiguous.add(block.places[0])
        return
    common = {
        number: (turn, pairs)
        for number, (turn, pairs) in left[0].path.items()
        if all(number in one.path and one.path[number][0].id == turn.id for one in left)
    }
    for number in set.intersection(*(set(one.path) for one in left)) - common.keys():
        found.blocks[number].is_tied = True
        found.ambiguous.add(found.blocks[number].places[0])
    for number, (turn, pairs) in common.items():
        found.give(found.blocks[number], turn, pairs)


def _explanation(
    found: Alignment, block: Block, turn: Turn, pairs: Pairs, reach: int
) -> _Explanation:
    """Follow the line of a turn that a block may be."""
    path = {block.number: (turn, pairs)}
    for other, ancestor, its in found.ancestry(block, turn):
        path[other.number] = (ancestor, its)
    weight = found.is_kin(block, turn), len(path), reach
    return _Explanation(weight, found.tie(block, turn), turn, path)


def _options(found: Alignment, block: Block) -> list[tuple[Turn, Pairs, int]] | None:
    """Return the turns that a block may be by what it says; None: more than can be weighed."""
    contents = {found.places[n].item.content for n in block.places} - {b""}
    turns = {t.id: t for content in contents for t in found.by_content.get(content, ())}
    if len(turns) > CANDIDATES_WEIGHED:
        exact = found.by_whole.get(found.evidence.whole(block), ())
        turns = {t.id: t for t in exact if t.id in turns}
        if not 0 < len(turns) <= CANDIDATES_WEIGHED:
            return None
    is_crowded = not found.crowded.isdisjoint(block.places)
    options = []
    for turn in turns.values():
        if found.is_given(turn) or not turn.context.is_known:
            continue
        if is_crowded and not found.is_kin(block, turn):
            continue
        pairs = found.evidence.pairs(block, turn)
        reach = found.evidence.reach(block, turn, pairs) if pairs else 0
        if reach and not _contradicts(found, block, turn):
            options.append((turn, pairs, reach))
    return options


def _contradicts(found: Alignment, block: Block, turn: Turn) -> bool:
    """Tell whether what the model had said before is known to be something else."""
    before = found.blocks[block.number - 1] if block.number else None
    parent = found.turns.get(turn.parent)
    if before is not None and before.turn is not None:
        if turn.parent == before.turn.id:
            return False
        if turn.parent and parent is not None and before.turn.id not in found.line(turn):
            return True
    place = found.places[block.places[0]]
    return _differ(place.answered, turn.context.answered) and not (
        parent is not None and before is not None and before.turn is parent
    )


def _differ(ours: bytes, theirs: bytes) -> bool:
    """Tell whether two runs that a model is known to have made have nothing in common."""
    if not ours or not theirs:
        return False
    traces = {theirs[at : at + TRACE_BYTES] for at in range(0, len(theirs), TRACE_BYTES)}
    return traces.isdisjoint(ours[at : at + TRACE_BYTES] for at in range(0, len(ours), TRACE_BYTES))
