"""
Content: the pass that assigns blocks to turns by content and by the history before it.

An explanation covers a block and blocks before it. The one that covers most of the history wins.
Different explanations that cover as much leave the block ambiguous.
"""

from typing import NamedTuple

from reasoning_replay.core.history.decided import MESSAGES_WEIGHED
from reasoning_replay.core.history.fingerprints import TRACE_BYTES
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.ancestry import ancestry
from reasoning_replay.core.history.matching.evidence import Block, Pairs
from reasoning_replay.core.history.turns import LINK_BYTES, Context, Turn

# Content that more turns share is no evidence, and comparing all of them would not be linear.
CANDIDATES_WEIGHED = 32
# Number of later blocks that are searched for an assigned one, which may rule out a turn.
LATER_BLOCKS = 8


class _Option(NamedTuple):
    """
    A turn that a block may come from.

    Attributes:
        turn, pairs: The turn, and the pairs of their items.
        context: The context in which it stands (`Alignment.contexts`).
        agreeing: Number of client messages before it that agree (`Evidence.agreeing_messages`).
    """

    turn: Turn
    pairs: Pairs
    context: Context
    agreeing: int


class _Explanation(NamedTuple):
    """
    One possible assignment of a block, and of blocks before it, to turns.

    Attributes:
        has_ancestor: Whether a block before it is assigned to an ancestor of the turn.
        is_in_step: Whether the number of messages since the nearest of these blocks equals the
            number between the two turns; True without one.
        coverage: Number of items of the block that are paired; `Evidence.agreeing_messages`; and
            whether the block has all of the turn.
        has_hint: Whether the turn has the request's hint.
        is_exact: Whether the whole history before the block and the turn is equal.
        has_frame: Whether the turn has the block's frame.
        is_cut: Whether the turn had older messages, which the client has cut off.
        may_continue: If so, whether the next items of the model may be of a child of the turn.
        turn: Turn of the block.
        path: Block number -> its turn, and the pairs of their items.
    """

    has_ancestor: bool
    is_in_step: bool
    coverage: tuple[int, int, bool]
    has_hint: bool
    is_exact: bool
    has_frame: bool
    is_cut: bool
    may_continue: bool
    turn: Turn
    path: dict[int, tuple[Turn, Pairs]]

    @property
    def weight(self) -> tuple[bool, int, bool, int, int, bool]:
        """Return the sort key of explanations, the most important criterion first."""
        items, agreeing, is_whole = self.coverage
        return self.has_ancestor, items, self.is_in_step, len(self.path), agreeing, is_whole

    @property
    def preference(self) -> tuple[bool, bool, bool]:
        """Return what decides between explanations of the same weight."""
        return self.has_hint, self.is_exact, self.has_frame

    def may_be_as_good(self, best: "_Explanation") -> bool:
        """Return whether it may lose only because the turn's parent is unknown."""
        return self.turn.lacks_parent and self.coverage >= best.coverage


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
    if found.evidence.says_much(turn, pairs, block, MESSAGES_WEIGHED):
        return True
    if context.hint != found.request.hint:
        return False
    frame = found.frame_of(block)
    if not (block.number or block.depth) and _has_call(found, pairs):  # the client cut up to it
        return frame in (b"", context.frame)
    return frame == context.frame and context.whole == found.evidence.whole(block)


def _has_call(found: Alignment, pairs: Pairs) -> bool:
    """Return whether not all paired items are messages."""
    return any(found.places[n].item.type != "message" for n in pairs)


def _explain(found: Alignment, block: Block) -> None:
    """Assign a block, and blocks before it, to the turns that explain most of the history."""
    options = _options(found, block)
    if options is None:
        found.doubt(block)
        return
    if not options:
        return
    explained = [_explanation(found, block, option) for option in options]
    best = max(explained, key=lambda one: one.weight)
    left = [one for one in explained if one.weight == best.weight or one.may_be_as_good(best)]
    if any(one.is_cut for one in left) and any(one.is_exact for one in left):
        # The client may have cut its history, so neither the beginning nor the frame tells.
        left = [one._replace(is_exact=False, has_frame=False) for one in left]
    preferred = max(one.preference for one in left)
    left = [one for one in left if one.preference == preferred]
    if found.is_refused and len(left) > 1 and _are_equal(left):
        found.chosen.update(block.places)
        left = [min(left, key=lambda one: (one.turn.created_ms, one.turn.id))]
    if not any(one.may_continue for one in left) or not any(
        (one.has_ancestor and one.is_in_step) or is_enough(found, block, *one.path[block.number])
        for one in left
    ):
        found.doubt(block)
        return
    common = {
        number: (turn, pairs)
        for number, (turn, pairs) in left[0].path.items()
        if all(number in one.path and one.path[number][0].id == turn.id for one in left)
    }
    for number in set.intersection(*(set(one.path) for one in left)) - common.keys():
        found.doubt(found.blocks[number], is_tied=True)
    for number, (turn, pairs) in common.items():
        found.assign(found.blocks[number], turn, pairs)


def _are_equal(left: list[_Explanation]) -> bool:
    """
    Return whether turns said the same after the same history.

    Nothing visible tells them apart, for example if a request was answered twice. Upstream demands
    some reasoning there, and any of them fits. The oldest stays the same one at every replica, and
    later: all that is said after it continues that one.
    """
    said = {tuple((item.type, item.name, item.content) for item in one.turn.items) for one in left}
    return len(said) == 1 and all(one.is_exact for one in left)


def _explanation(found: Alignment, block: Block, option: _Option) -> _Explanation:
    """Return the explanation of a block by a turn and its ancestors."""
    turn, pairs, context, agreeing = option
    path = {block.number: (turn, pairs)}
    for other, ancestor, its in ancestry(found, block, turn):
        path[other.number] = (ancestor, its)
    nearest = found.nearest_ancestor(block, turn)
    offset = block.depth - context.depth
    has_hint, has_frame = found.preference(block, turn)
    is_cut = 0 < block.depth < turn.context.depth
    is_exact = context.whole == found.evidence.whole(block)
    return _Explanation(
        has_ancestor=nearest is not None,
        is_in_step=is_exact or nearest is None or found.offset(block, nearest) == offset,
        coverage=(len(pairs), agreeing, len(pairs) == len(turn.items) or _is_open(found, block)),
        has_hint=has_hint,
        is_exact=is_exact,
        has_frame=has_frame,
        is_cut=is_cut,
        may_continue=not is_cut or _may_continue(found, block, turn),
        turn=turn,
        path=path,
    )


def _is_open(found: Alignment, block: Block) -> bool:
    """Return whether outputs follow a block, and so perhaps the rest of its turn."""
    after = block.places[-1] + 1
    return after < len(found.places) and found.places[after].item.type != "message"


def _options(found: Alignment, block: Block) -> list[_Option] | None:
    """
    Return the turns that a block may come from, by its content.

    None if there are too many to compare, or if every one contradicts the blocks after it.
    """
    contents = found.contents(block)
    turns = {t.id: t for content in contents for t in found.by_content.get(content, ())}
    if len(turns) > CANDIDATES_WEIGHED:
        exact = found.by_whole.get(found.evidence.whole(block), ())
        turns = {t.id: t for t in exact if t.id in turns}
        if not 0 < len(turns) <= CANDIDATES_WEIGHED:
            return None
    is_crowded = not found.crowded.isdisjoint(block.places)
    options: list[_Option] = []
    line = _line_after(found, block)
    is_contradicted = False
    for turn in turns.values():
        if found.is_assigned(turn) or not turn.context.is_known:
            continue
        if is_crowded and found.nearest_ancestor(block, turn) is None:
            continue
        pairs = found.evidence.pairs(block, turn)
        if not pairs or found.has_other_place(block, turn):
            continue
        option = _option(found, block, turn, pairs)
        if not option.agreeing or _contradicts(found, block, turn, option.context):
            continue
        if line and turn.id not in line:
            is_contradicted = True
        else:
            options.append(option)
    return None if is_contradicted and not options else options


def _option(found: Alignment, block: Block, turn: Turn, pairs: Pairs) -> _Option:
    """Return a turn as an option; `agreeing` is 0 if the text of the block is the only evidence."""
    for context in found.contexts(turn):
        if agreeing := found.evidence.agreeing_messages(block, turn, context, pairs):
            return _Option(turn, pairs, context, agreeing)
    return _Option(turn, pairs, turn.context, int(_has_second_evidence(found, block, turn, pairs)))


def _has_second_evidence(found: Alignment, block: Block, turn: Turn, pairs: Pairs) -> bool:
    """Return whether other evidence than the message before a block agrees with its text."""
    request, context = found.request, turn.context
    if not block.depth:  # its history was cut off before it, or the application wrote it
        is_named = bool(request.hint) and context.hint == request.hint
        if is_named or _has_call(found, pairs):
            return not _continued_otherwise(found, block, turn)
        return _is_continued(found, block, turn)
    if not found.evidence.says_much(turn, pairs, block, 0):
        return False
    if found.nearest_ancestor(block, turn) is not None or _is_after_the_same(found, block, context):
        return True
    is_named = (request.hint or None, block.depth) == (context.hint, context.depth)
    return is_named and not _continued_otherwise(found, block, turn)


def _continued_otherwise(found: Alignment, block: Block, turn: Turn) -> bool:
    """Return whether a turn was only followed by other messages of the client than a block is."""
    children = found.children.get(turn.id, ())[-CANDIDATES_WEIGHED:]
    return bool(children) and not any(_is_followed(found, block, child) for child in children)


def _may_continue(found: Alignment, block: Block, turn: Turn) -> bool:
    """Return whether the model's items after a block, if there are any, may be a turn's child."""
    if block.number + 1 == len(found.blocks):
        return True
    said = _contents_after(found, block)
    children = found.children.get(turn.id, ())[-CANDIDATES_WEIGHED:]
    return any(
        _is_followed(found, block, child) or any(item.content in said for item in child.items)
        for child in children
    )


def _is_continued(found: Alignment, block: Block, turn: Turn) -> bool:
    """
    Return whether what follows a block agrees with what followed a turn when it was captured.

    That is the next message, what the turn's child said, or a block that the child has.
    """
    asked, said = found.request.link(block.depth), _contents_after(found, block)
    for child in found.children.get(turn.id, ())[-CANDIDATES_WEIGHED:]:
        tail = child.context.tail
        at = len(tail) - (child.context.depth - turn.context.depth) * LINK_BYTES
        is_asked = at >= 0 and bool(asked) and asked == tail[at : at + LINK_BYTES]
        if is_asked or found.is_assigned(child) or any(e.content in said for e in child.items):
            return True
    return False


def _contents_after(found: Alignment, block: Block) -> set[bytes]:
    """Return the content digests of the block after one."""
    after = found.blocks[block.number + 1 : block.number + 2]
    return {content for other in after for content in found.contents(other)}


def _is_followed(found: Alignment, block: Block, child: Turn) -> bool:
    """Return whether the message after a block is one before a child, or the child has a block."""
    asked, tail = found.request.link(block.depth), child.context.tail
    return found.is_assigned(child) or any(
        asked == tail[at : at + LINK_BYTES] for at in range(0, len(tail), LINK_BYTES)
    )


def _is_after_the_same(found: Alignment, block: Block, context: Context) -> bool:
    """Return whether a block and a turn follow the same exchange, which only one turn began."""
    if not block.number:
        return False
    contents = found.contents(found.blocks[block.number - 1])
    said = {turn.id for content in contents for turn in found.by_content.get(content, ())}
    return len(said) == 1 and found.evidence.is_after_the_same(block, context)


def _contradicts(found: Alignment, block: Block, turn: Turn, context: Context) -> bool:
    """Return whether the model's items before a block cannot be those before a turn."""
    before = found.blocks[block.number - 1] if block.number else None
    if before is not None and before.turn is not None:
        if turn.parent == before.turn.id:
            # The block before is the turn's parent. But a turn that was not captured may have been
            # between the two. Then the model's last items differ, unless the client changed them.
            if not _is_verbatim(found, before):
                return False
        elif turn.id in found.ancestors(before.turn) or (
            turn.parent in found.turns and before.turn.id not in found.ancestors(turn)
        ):
            return True
    return _differ(found.places[block.places[0]].model_traces, context.model_traces)


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


def _is_verbatim(found: Alignment, block: Block) -> bool:
    """Return whether the content of a block is unchanged from its turn."""
    matches = [(n, found.matches.get(n)) for n in block.places]
    return all(m and m.emitted.content == found.places[n].item.content for n, m in matches)


def _differ(ours: bytes, theirs: bytes) -> bool:
    """Return whether the block's run has a trace that the turn's lacks, and vice versa if any."""
    one, two = (
        {run[at : at + TRACE_BYTES] for at in range(0, len(run), TRACE_BYTES)}
        for run in (ours, theirs)
    )
    return bool(one - two) and (bool(two - one) or not two)
