"""
Evidence: the table of what tells that items came from a captured turn.

Each row is one kind of evidence: what it proves, and what contradicts it.
docs/internals/matching.md has the same rows. One is enough, if nothing contradicts it.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from reasoning_replay.core.history.decided import MUCH_CHARS
from reasoning_replay.core.history.fingerprints import (
    TRACE_BYTES,
    are_two_counts,
    are_two_items,
    have_one_origin,
    is_distinctive,
)
from reasoning_replay.core.history.matching.alignment import Alignment, Block
from reasoning_replay.core.history.matching.claims import (
    Named,
    Said,
    children_of,
    contents_after,
    equal_messages,
    is_followed,
    says_much,
)
from reasoning_replay.core.history.turns import LINK_BYTES, TAIL_LINKS

ClaimT = TypeVar("ClaimT", Named, Said)


class Evidence(NamedTuple, Generic[ClaimT]):
    """
    One kind of evidence: a row of the table. The docstrings of its functions are the cells.

    Attributes:
        agrees: Returns how much of it there is for a claim; 0: none.
        proves: What it proves.
        contradicted: Returns whether it proves nothing, because something contradicts it.
    """

    agrees: Callable[[ClaimT], int]
    proves: str
    contradicted: Callable[[ClaimT], bool]


def proof(rows: Sequence[Evidence[ClaimT]], claim: ClaimT) -> int:
    """Return how much the first evidence proves that nothing contradicts; 0: there is none."""
    for row in rows:
        if (much := row.agrees(claim)) and not row.contradicted(claim):
            return much
    return 0


def nothing(_: Named | Said) -> bool:
    """Nothing."""
    return False


# Names.


def own_id(claim: Named) -> bool:
    """The item's own id, which one captured item has."""
    own = claim.item.id
    return own == claim.match.emitted.id and is_distinctive(own, "")


def call_id(_: Named) -> bool:
    """Its `call_id` alone, which one captured item has."""
    return True  # some name led to the claim


def recurring_name(claim: Named) -> bool:
    """Other content or another message before it, where two turns share any name."""
    return claim.found.index.names_recur and (claim.is_changed or claim.is_after_another)


def other_content(claim: Named) -> bool:
    """Another message before it, with other content or another id in its form; or as above."""
    # If the history was cut right before an item, no other message speaks against it.
    is_cut_before = claim.found.places[claim.n].depth == 0
    is_other = claim.is_after_another and (
        other_id(claim) or (claim.is_changed and not is_cut_before)
    )
    return is_other or recurring_name(claim)


def other_id(claim: Named) -> bool:
    """Another id of its own, in upstream's form."""
    return are_two_items(claim.item.id, claim.emitted.id)


def other_number(claim: Named) -> bool:
    """Another number of the same counter."""
    item, emitted = claim.item, claim.emitted
    return are_two_counts(item.id, emitted.id) or are_two_counts(item.call_id, emitted.call_id)


def counted_anew(claim: Named) -> bool:
    """The same whole history before it, if no equal call of the turn has that number."""
    found, turn, item = claim.found, claim.match.turn, claim.item
    if claim.since < 0 or turn.context.whole != found.request.whole(found.places[claim.since]):
        return False
    same = (said for said in turn.items if said.content == item.content)
    return not any(said.call_id and said.call_id == item.call_id for said in same)


def other_call_id(claim: Named) -> bool:
    """Another random `call_id`."""
    item, emitted = claim.item, claim.emitted
    is_other = item.call_id not in ("", emitted.call_id) and bool(emitted.call_id)
    both = (item.call_id, item.name), (emitted.call_id, emitted.name)
    return is_other and all(is_distinctive(this, name) for this, name in both)


def renamed(claim: Named) -> bool:
    """In Chat Completions, a `call_id` of another form, if the request has none that is known."""
    item, emitted = claim.item, claim.emitted
    is_new = not have_one_origin(item.call_id, emitted.call_id, item.name)
    return is_new and claim.found.are_renamed


NAMES: Sequence[Evidence[Named]] = (
    Evidence(own_id, "its item, even with other content after another message", recurring_name),
    Evidence(call_id, "its call", other_content),
)
OTHERS: Sequence[Evidence[Named]] = (
    Evidence(other_id, "another item", nothing),
    Evidence(other_number, "another item", counted_anew),
    Evidence(other_call_id, "another call", renamed),
)


def is_other(claim: Named) -> bool:
    """Return whether the names of an item tell that it is not the captured one."""
    return bool(proof(OTHERS, claim))


# Texts.


def _agreeing(claim: Said) -> int:
    """
    Return how many client messages before a block and before a turn agree; 0: too few.

    Older messages that only the turn has count as cut off by the client. Then the messages that
    agree must not be short. If the block has other older ones, its text must not be short.
    """
    found, block, context, depth = claim.found, claim.block, claim.context, claim.block.depth
    if context.depth == depth and context.chain == found.request.chain(depth):
        return depth or int(context.frame != b"" and context.frame == found.first(block).frame)
    equal = equal_messages(found, block, context)
    if equal == TAIL_LINKS:
        return equal
    is_near = abs(context.depth - depth) <= 1
    if equal >= context.depth or not (is_near or says_much(claim._replace(pairs={}), equal)):
        return 0
    return equal if equal == depth or says_much(claim) else 0


def message_before(claim: Said) -> int:
    """The message that it answers."""
    return _agreeing(claim) if claim.is_own else 0


def round_before(claim: Said) -> int:
    """For the last text of a round: the message that its round answered; the calls are gone."""
    return 0 if claim.is_own else _agreeing(claim)


def name_at_cut(claim: Said) -> bool:
    """Nothing before it, and the conversation's name, or a call in the same block."""
    return claim.is_at_cut and (claim.is_named or claim.has_call)


def next_at_cut(claim: Said) -> bool:
    """Nothing before it, and what followed the turn: its message, or what its child said."""
    found, block, turn = claim.found, claim.block, claim.turn
    asked, said = found.request.link(block.depth), contents_after(found, block)
    for child in children_of(found, turn) if claim.is_at_cut else ():
        tail, messages = child.context.tail, child.context.depth - turn.context.depth
        at = len(tail) - messages * LINK_BYTES
        is_asked = at >= 0 and bool(asked) and asked == tail[at : at + LINK_BYTES]
        if is_asked or found.is_assigned(child) or any(e.content in said for e in child.items):
            return True
    return False


def ancestor_before(claim: Said) -> bool:
    """An ancestor of the turn, assigned to a block before it."""
    is_there = claim.found.nearest_ancestor(claim.block, claim.turn) is not None
    return is_there and claim.is_long


def exchange_before(claim: Said) -> bool:
    """The exchange before it: an answer of one turn and its message, of 24 characters."""
    found, block, tail = claim.found, claim.block, claim.context.tail
    if not (block.number and claim.is_long):
        return False
    if len(found.saying(found.blocks[block.number - 1])) != 1:
        return False
    before = found.first(block).before
    asked = [*islice(found.request.asked_before(block.places[0]), 1, 2)]
    return (
        [one.said[:LINK_BYTES] for one in asked] == [tail[-2 * LINK_BYTES : -LINK_BYTES]]
        and before.traces == claim.context.model_traces
        and before.chars + asked[0].chars >= MUCH_CHARS
    )


def name(claim: Said) -> bool:
    """The conversation's name, after as many messages."""
    return claim.is_named and claim.block.depth == claim.context.depth and claim.is_long


def elsewhere(claim: Said) -> bool:
    """Other text of the model, a descendant, or no ancestor before it."""
    found, block, turn, context = claim.found, claim.block, claim.turn, claim.context
    block_before = found.blocks[block.number - 1] if block.number else None
    before = block_before.turn if block_before is not None else None
    if block_before is not None and before is not None:
        if turn.parent == before.id:
            # The block before is the turn's parent. But a turn that was not captured may have been
            # between the two. Then the model's last items differ, unless the client changed them.
            if not _is_verbatim(found, block_before):
                return False
        elif turn.id in found.ancestors(before) or (
            turn.parent in found.turns and before.id not in found.ancestors(turn)
        ):
            return True
    ours, theirs = _traces(claim.traces), _traces(context.model_traces)
    return bool(ours - theirs) and (bool(theirs - ours) or not theirs)


def _is_verbatim(found: Alignment, block: Block) -> bool:
    """Return whether the content of a block is unchanged from its turn."""
    matches = [(n, found.matches.get(n)) for n in block.places]
    return all(m and m.emitted.content == found.places[n].item.content for n, m in matches)


def _traces(run: bytes) -> set[bytes]:
    return {run[at : at + TRACE_BYTES] for at in range(0, len(run), TRACE_BYTES)}


def followed_otherwise(claim: Said) -> bool:
    """The turn was followed by another message; or as above."""
    found, block = claim.found, claim.block
    children = children_of(found, claim.turn)
    is_other = bool(children) and not any(is_followed(found, block, child) for child in children)
    return is_other or elsewhere(claim)


# Places next to a block of a child or of the parent.


def same_history(claim: Said) -> bool:
    """The same whole history before it."""
    return claim.is_whole and claim.context.whole == claim.found.whole(claim.block)


def place(claim: Said) -> bool:
    """The same message before it, or as many."""
    block, depth, offset = claim.block, claim.context.depth, claim.offset
    equal = equal_messages(claim.found, block, claim.context)
    is_there = equal > 0 or (offset is not None and block.depth == depth + offset)
    is_same = offset == 0 and block.depth == depth and (equal > 0 or not depth)
    return claim.is_whole and is_there and (is_same or says_much(claim, equal))


def before_child(claim: Said) -> bool:
    """The child of the turn in the next block, after as many and the same messages."""
    if claim.child is None:
        return False
    after, child = claim.child
    gap = after.depth - claim.block.depth
    is_next = gap == child.context.depth - claim.turn.context.depth
    return is_next and gap <= equal_messages(claim.found, after, child.context)


def other_text_before_child(claim: Said) -> bool:
    """Other text of the model before the child."""
    after, child = claim.child or (claim.block, claim.turn)
    return claim.found.first(after).model_traces != child.context.model_traces


_LONG = "its turn, for 24 characters"
TEXTS: Sequence[Evidence[Said]] = (
    Evidence(message_before, "its turn", elsewhere),
    Evidence(name_at_cut, "its turn, if not short", followed_otherwise),
    Evidence(next_at_cut, _LONG, elsewhere),
    Evidence(ancestor_before, _LONG + ", after the same message or as many", elsewhere),
    Evidence(exchange_before, _LONG + "; the message in between may differ", elsewhere),
    Evidence(name, _LONG, followed_otherwise),
    Evidence(round_before, "its turn", elsewhere),
)
PLACES: Sequence[Evidence[Said]] = (
    Evidence(same_history, "the child or parent of the turn next to it", nothing),
    Evidence(place, "the same, for 24 characters with these messages", nothing),
    Evidence(before_child, "its turn", other_text_before_child),
)
TABLE: Mapping[str, Sequence[Evidence[Any]]] = {
    "a name leads to an item": NAMES,
    "a name differs": OTHERS,
    "a block says what a turn said": TEXTS,
    "the same, next to an assigned block": PLACES,
}
"""Every kind of evidence, by its claim; docs/internals/matching.md has the same rows."""
