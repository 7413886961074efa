"""Ids: the pass that assigns blocks to turns by random ids and `call_id`s."""

import itertools
from collections.abc import Iterator, Sequence

from reasoning_replay.core.history.fingerprints import are_two_items, is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.evidence import Block, Pairs
from reasoning_replay.core.history.turns import LINK_BYTES, Turn


def drop_contradicted(found: Alignment) -> bool:
    """
    Undo the matches by a name that something contradicts; return whether there are any.

    A name may recur: gateways derive it from the content, and fixtures repeat it. If something
    speaks against it, the name needs a second that agrees: the last message before, or the next
    item that is matched, if it is of the same turn, of its parent or of its child.
    """
    doubted = {n for n, match in found.matches.items() if _is_doubted(found, n, match)}
    if doubted:
        turns = {n: match.turn for n, match in found.matches.items()}
        if found.given.newest is not None:
            turns = {-1: found.given.newest, **turns}
        pairs = list(itertools.pairwise(turns))
        for sure, n in pairs + [(after, before) for before, after in reversed(pairs)]:
            one, two = (turns[at] for at in sorted((sure, n)))
            if sure not in doubted and one.id in (two.id, two.parent):
                doubted.discard(n)
    for n in doubted:
        found.unmatch(n)
    return bool(doubted)


def _is_doubted(found: Alignment, n: int, match: Match) -> bool:
    """
    Return whether something speaks against a match, and the last message before is another.

    These speak against it: names that recur among the turns; and, unless the item's own id leads
    to it, other content, or an id of its own in upstream's form.
    """
    place, context = found.places[n], match.turn.context
    if found.request.is_stateful or not context.is_known:
        return False  # the history is unknown
    item, emitted = place.item, match.emitted
    last = found.request.link(place.depth - 1) if place.depth else b""
    is_after_the_same = last == context.tail[-LINK_BYTES:]
    is_other = bool(item.content and emitted.content and item.content != emitted.content)
    if found.known.index.names_recur:
        return is_other or not is_after_the_same
    if is_after_the_same or (item.id == emitted.id and is_distinctive(item.id, "")):
        return False
    # If the history was cut right before it, no other message speaks against it.
    return (is_other and place.depth > 0) or are_two_items(item.id, emitted.id)


def assign_by_id(found: Alignment) -> None:
    """
    Assign blocks to the turns that the ids of their items name.

    A block with items of several turns is split; items before and after those of a turn become
    blocks of their own.
    """
    blocks: list[Block] = []
    named: list[tuple[Block, Turn, Pairs]] = []
    for block in found.blocks:
        for places, turn in _hops(found, block) or _by_turn(found, block.places):
            pairs = _pairs_of_own(found, places, turn) if turn is not None else {}
            owned = [at for at, n in enumerate(places) if n in pairs]
            first, last = (owned[0], owned[-1] + 1) if owned else (0, len(places))
            for some in (places[:first], places[first:last], places[last:]):
                if some:
                    blocks.append(Block(len(blocks), some, block.depth))
                    if turn is not None and some[0] in pairs:
                        named.append((blocks[-1], turn, pairs))
    found.blocks = blocks
    for block, turn, pairs in named:
        own = {n: k for n, k in pairs.items() if not _is_replaced(found, n, Match(turn, k))}
        found.assign_alone(block, turn, own)
    for block, turn, pairs in named:
        found.assign_neighbours(block, turn, pairs)


def _is_replaced(found: Alignment, n: int, match: Match) -> bool:
    """
    Return whether a text stands in place of the model's: no name says that it is the model's.

    It keeps its place, so that it is no other turn's, but reasoning did not lead to it.
    """
    item, emitted = found.places[n].item, match.emitted
    return n not in found.matches and item.type == "message" and item.content != emitted.content


def _hops(found: Alignment, block: Block) -> list[tuple[list[int], Turn]]:
    """
    Return the turns of a block that answer one request, each with its items; [] if it is not so.

    An upstream may end a response, and go on in the next one after the same history, as Gemini does
    (`CONTINUATION`); libraries join them. They must say all of the block, in their order, and
    nothing else may say it.
    """
    if not found.request.may_merge or any(n in found.matches for n in block.places):
        return []
    whole = found.evidence.whole(block)
    turns = [turn for turn in found.by_whole.get(whole, ()) if turn.items] if whole else []
    hops: list[tuple[list[int], Turn]] = []
    left, since_ms = block.places, 0
    while left and len(turns) > 1:
        fits = [turn for turn in turns if _says(found, left, turn)]
        if len(fits) != 1 or fits[0].created_ms < since_ms:
            return []
        since_ms = fits[0].created_ms
        hops.append((left[: len(fits[0].items)], fits[0]))
        left = left[len(fits[0].items) :]
    return hops if len(hops) > 1 else []


def _says(found: Alignment, places: Sequence[int], turn: Turn) -> bool:
    """Return whether places begin with all items of a turn."""
    items = [found.places[n].item for n in places[: len(turn.items)]]
    said = [(item.type, item.content) for item in items]
    return said == [(item.type, item.content) for item in turn.items]


def _by_turn(found: Alignment, places: Sequence[int]) -> Iterator[tuple[list[int], Turn | None]]:
    """Yield runs of items, each with the one turn that its ids name, or None."""
    some: list[int] = []
    named: Turn | None = None
    for n in places:
        match = found.matches.get(n)
        if match is not None and named is not None and match.turn.id != named.id:
            yield some, named
            some, named = [], None
        some.append(n)
        if match is not None:
            named = match.turn
    yield some, named


def _pairs_of_own(found: Alignment, places: list[int], turn: Turn) -> Pairs:
    """
    Pair the items of a block that certainly came from a turn.

    Between two certain items, items with the same content are paired in order. If not all can be
    paired, but both sides have the same number of compatible items there, all are paired by
    position, even if the client changed their text.
    """
    sure = {n: found.matches[n].k for n in places if n in found.matches}
    if len(sure) == len(places):
        return sure
    ends = [(-1, -1), *((at, sure[n]) for at, n in enumerate(places) if n in sure)]
    ends.append((len(places), len(turn.items)))
    if any(k >= later for (_, k), (_, later) in itertools.pairwise(ends)):
        return sure  # the client changed the order
    pairs = dict(sure)
    for (at, k), (to, until) in itertools.pairwise(ends):
        between = places[at + 1 : to]
        emitted = list(range(k + 1, until))
        if not between:
            continue
        # Another turn may have said the same before or after this one, next to no certain item.
        step = 1 if at >= 0 else -1
        same = found.evidence.in_order(between[::step], turn, emitted[::step])
        if len(same) < len(between) and len(between) == len(emitted):
            both = list(zip(between, emitted, strict=True))
            if all(_may_be_changed(found, n, Match(turn, e)) for n, e in both):
                same = dict(both)
        pairs |= same
    return pairs


def _may_be_changed(found: Alignment, n: int, match: Match) -> bool:
    """
    Return whether an item can be a captured one whose text the client may have changed.

    If clients merge messages, one that says what another turn of the conversation said is not
    changed, but merged.
    """
    turn, content = match.turn, found.places[n].item.content
    if found.request.may_merge and content != match.emitted.content:
        others = found.by_content.get(content, ())
        if any(one.conversation == turn.conversation for one in others):
            return False
    return found.evidence.may_be(n, match)
