"""
Sayings: gives blocks to turns by what they say, after the same history.

Of all explanations of a block, and of those before it, the one that covers most of the history
wins. Those that differ and cover as much leave it ambiguous.
"""

import itertools
from typing import NamedTuple

from reasoning_replay.core.history.fingerprints import TRACE_BYTES
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.blocks import Block
from reasoning_replay.core.history.matching.evidence import LINKS_WEIGHED, Pairs
from reasoning_replay.core.history.turns import Turn

__all__ = ["give_by_sayings", "is_plain"]

# What fits more turns than this is no evidence, and comparing them all is not linear.
CANDIDATES_WEIGHED = 32
# So far behind a block is looked for a turn that may not go on from it.
BLOCKS_AHEAD = 8


class _Explanation(NamedTuple):
    """
    One way in which a block, and blocks before it, came from turns.

    Attributes:
        is_kin: Whether a block before it has one of the turn's ancestors.
        is_in_step: Whether as many messages stand behind the nearest of these as the turn had heard
            since.
        reach: How many items of the block it explains, and how much of what was said before the
            block the turn had heard.
        tie: As of `Alignment.tie`, and whether the turn had heard just what was said before.
        turn: Of the block.
        path: By the number of a block: its turn, and how their items pair.
    """

    is_kin: bool
    is_in_step: bool
    reach: tuple[int, int]
    tie: tuple[bool, bool, bool]
    turn: Turn
    path: dict[int, tuple[Turn, Pairs]]

    @property
    def weight(self) -> tuple[bool, int, bool, int, int]:
        """Return what is compared, what counts most first."""
        items, heard = self.reach
        return self.is_kin, items, self.is_in_step, len(self.path), heard

    def may_be_as_good(self, best: "_Explanation") -> bool:
        """Tell whether only its line is shorter, as the turn lacks its parent."""
        return self.turn.lacks_parent and self.reach >= best.reach


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
    if found.evidence.says_much(pairs, block, LINKS_WEIGHED):
        return True
    if theirs.hint != found.request.hint:
        return False
    frame = found.frame_of(block)
    if not (block.number or block.depth):  # the head was cut right up to the block
        return frame in (b"", theirs.frame)
    return frame == theirs.frame and theirs.whole == found.evidence.whole(block)


def _explain(found: Alignment, block: Block) -> None:
    """Give a block, and those before it, to the turns that explain most of the history."""
    options = _options(found, block)
    if options is None:
        found.ambiguous.add(block.places[0])
        return
    if not options:
        return
    explained = [_explanation(found, block, *option) for option in options]
    best = max(explained, key=lambda one: one.weight)
    left = [one for one in explained if one.weight == best.weight or one.may_be_as_good(best)]
    tie = max(one.tie for one in left)
    left = [one for one in left if one.tie == tie]
    if not any(
        (one.is_kin and one.is_in_step) or is_plain(found, block, *one.path[block.number])
        for one in left
    ):
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
    kin = found.kin(block, turn)
    shift = block.depth - turn.context.depth
    return _Explanation(
        is_kin=kin is not None,
        is_in_step=kin is None or found.shift(block, kin) == shift,
        reach=(len(pairs), reach),
        tie=(*found.tie(block, turn), turn.context.whole == found.evidence.whole(block)),
        turn=turn,
        path=path,
    )


def _options(found: Alignment, block: Block) -> list[tuple[Turn, Pairs, int]] | None:
    """
    Return the turns that a block may be by what it says.

    None where that is more than can be weighed, or contradicts what stands behind it.
    """
    contents = found.contents(block)
    turns = {t.id: t for content in contents for t in found.by_content.get(content, ())}
    if len(turns) > CANDIDATES_WEIGHED:
        exact = found.by_whole.get(found.evidence.whole(block), ())
        turns = {t.id: t for t in exact if t.id in turns}
        if not 0 < len(turns) <= CANDIDATES_WEIGHED:
            return None
    is_crowded = not found.crowded.isdisjoint(block.places)
    options: list[tuple[Turn, Pairs, int]] = []
    line = _line_behind(found, block)
    is_contradicted = False
    for turn in turns.values():
        if found.is_given(turn) or not turn.context.is_known:
            continue
        if is_crowded and found.kin(block, turn) is None:
            continue
        pairs = found.evidence.pairs(block, turn)
        reach = found.evidence.reach(block, turn, pairs) if pairs else 0
        if not reach or _contradicts(found, block, turn):
            continue
        if line and turn.id not in line:
            is_contradicted = True
        else:
            options.append((turn, pairs, reach))
    return None if is_contradicted and not options else options


def _contradicts(found: Alignment, block: Block, turn: Turn) -> bool:
    """Tell whether what the model had said before is known to be something else."""
    before = found.blocks[block.number - 1] if block.number else None
    if before is not None and before.turn is not None:
        if turn.parent == before.turn.id:
            # Its parent is right before the block. But a turn that was never captured may have
            # stood between the two: then it had heard other words last, unless they are rewritten.
            if not _is_verbatim(found, before):
                return False
        elif turn.parent in found.turns and before.turn.id not in found.line(turn):
            return True
    return _differ(found.places[block.places[0]].answered, turn.context.answered)


def _line_behind(found: Alignment, block: Block) -> list[bytes]:
    """Return the next turn that has a block behind one, and all before it; [] if not all known."""
    later = itertools.islice(found.blocks, block.number + 1, block.number + 1 + BLOCKS_AHEAD)
    after = next((one.turn for one in later if one.turn is not None), None)
    if after is None:
        return []
    line = [after.id, *found.line(after)]
    root = found.turns.get(line[-1])
    is_whole = root is not None and not (root.parent or root.lacks_parent)
    return line if is_whole else []


def _is_verbatim(found: Alignment, block: Block) -> bool:
    """Tell whether a block says what its turn had said."""
    matches = [(n, found.matches.get(n)) for n in block.places]
    return all(m and m.emitted.content == found.places[n].item.content for n, m in matches)


def _differ(ours: bytes, theirs: bytes) -> bool:
    """Tell whether each of two runs has something that the other lacks."""
    one, two = (
        {run[at : at + TRACE_BYTES] for at in range(0, len(run), TRACE_BYTES)}
        for run in (ours, theirs)
    )
    return bool(one - two) and bool(two - one)
