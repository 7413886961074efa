"""Pairing: the items of a block, each with the item of a turn that it is."""

from collections.abc import Sequence

from reasoning_replay.core.history.fingerprints import are_two_counts, is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.matching.alignment import Alignment, Block, Pairs
from reasoning_replay.core.history.matching.claims import Named, Said, says_much
from reasoning_replay.core.history.matching.evidence import is_other
from reasoning_replay.core.history.turns import Emitted, Turn


def agrees(item: HistoryItem, emitted: Emitted) -> bool:
    """
    Return whether an item agrees with an emitted one in type and tool name.

    A call of another type is the same one if its random `call_id` and its name are: clients turn
    calls of custom tools into calls of functions. A reference is the item that it names.
    """
    if item.role is Role.REFERENCE:
        return item.id == emitted.id
    if item.type != emitted.type:
        is_call = item.role is Role.MODEL and item.name != "" and item.call_id == emitted.call_id
        return is_call and item.name == emitted.name and is_distinctive(item.call_id, item.name)
    return not (item.name and emitted.name and item.name != emitted.name)


def says_the_same(item: HistoryItem, emitted: Emitted) -> bool:
    """Return whether an item has the random id or the content of an emitted one."""
    if item.id and item.id == emitted.id and is_distinctive(item.id, ""):
        return True
    return agrees(item, emitted) and item.content == emitted.content


def may_be(found: Alignment, n: int, match: Match) -> bool:
    """Return whether an item can be a captured one, regardless of its content."""
    is_free = not found.is_used(match) and agrees(found.places[n].item, match.emitted)
    return is_free and not is_other(Named(found, n, match))


def in_order(found: Alignment, places: Sequence[int], turn: Turn, emitted: Sequence[int]) -> Pairs:
    """
    Pair items with the same content, in order.

    Places without a counterpart are left out, and so are items of the turn that `emitted` does not
    name.
    """
    pairs: Pairs = {}
    at = 0
    for n in places:
        item = found.places[n].item
        for step in range(at, len(emitted)):
            said = turn.items[emitted[step]]
            if not says_the_same(item, said):
                continue
            if not is_other(Named(found, n, Match(turn, emitted[step]), min(places))):
                pairs[n] = emitted[step]
                at = step + 1
                break
            if are_two_counts(item.call_id, said.call_id):
                break  # an equal call is left out, or the client counts anew: not to be told
    return pairs


def pairs_of(found: Alignment, block: Block, turn: Turn) -> Pairs:
    """
    Pair the items of a block with those of a turn that have the same content, in order.

    Returns:
        {} unless all items of one side are paired: clients leave out items, or add messages. {}
        also if there are two ways to pair them, unless the turn began exactly here.
    """
    emitted = range(len(turn.items))
    pairs = in_order(found, block.places, turn, emitted)
    if len(pairs) == len(block.places) == len(emitted):
        return pairs  # then no other way fits
    # After exactly the same history, the client left out the rest of the turn.
    if turn.context.whole == found.whole(block):
        is_enough = len(pairs) == len(block.places)
    elif pairs != in_order(found, block.places[::-1], turn, emitted[::-1]):
        return {}
    else:
        is_enough = len(pairs) == len(block.places) and says_much(
            Said(found, block, turn, pairs, turn.context)
        )
    are_messages = all(found.places[n].item.type == "message" for n in block.places)
    return pairs if is_enough or (are_messages and len(pairs) == len(turn.items)) else {}


def assign(found: Alignment, block: Block, turn: Turn, pairs: Pairs) -> None:
    """Assign a block to a turn, and neighbouring blocks that hold the rest of the turn."""
    found.assign(block, turn, pairs)
    assign_neighbours(found, block, turn, pairs)


def assign_neighbours(found: Alignment, block: Block, turn: Turn, pairs: Pairs) -> None:
    """Assign the neighbours of an assigned block that hold the rest of its turn."""
    first, last = min(pairs.values(), default=0), max(pairs.values(), default=0)
    for step, rest in ((-1, range(first)), (1, range(last + 1, len(turn.items)))):
        at, left = block, rest
        while left and (after := _beside(found, at, step)) is not None:
            more = in_order(found, after.places, turn, left)
            if len(more) < len(after.places):
                break
            found.assign(after, turn, more)
            ends = min(more.values()), max(more.values())
            left = range(left.start, ends[0]) if step < 0 else range(ends[1] + 1, left.stop)
            at = after


def _beside(found: Alignment, block: Block, step: int) -> Block | None:
    """Return the neighbouring block, if it is not assigned and nothing is said in between."""
    number = block.number + step
    if not 0 <= number < len(found.blocks) or found.blocks[number].turn is not None:
        return None
    other = found.blocks[number]
    one, two = (other, block) if step < 0 else (block, other)
    between = found.places[one.places[-1] + 1 : two.places[0]]
    spoke = (p.item.type == "message" and p.item.role is not Role.FRAME for p in between)
    return None if any(spoke) else other
