"""Ids: the pass that assigns blocks to turns by random ids and `call_id`s."""

import itertools
from collections.abc import Iterator, Sequence

from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.lookup_keys import response_named_by
from reasoning_replay.core.history.matching.alignment import Alignment, Block, Pairs
from reasoning_replay.core.history.matching.claims import Named
from reasoning_replay.core.history.matching.evidence import NAMES, proof
from reasoning_replay.core.history.matching.pairing import (
    agrees,
    assign_neighbours,
    in_order,
    may_be,
)
from reasoning_replay.core.history.turns import Turn, turn_id


def match_names(found: Alignment) -> bool:
    """
    Match items that their names identify, in order; return whether no other item can match one.

    A name that something contradicts needs a second that agrees: the next item that is matched, if
    it is of the same turn, of its parent or of its child.
    """
    is_all = True
    types = found.index.types
    for n, place in enumerate(found.places):
        item = place.item
        is_known = item.type in types or item.role is Role.REFERENCE
        if not is_known and not item.call_id:
            continue
        has_name = (item.id or item.call_id) and n not in found.crowded
        match = certain_match(found, item) if has_name else None
        if match is not None:
            found.record(n, match)
        elif is_known and (item.role is Role.MODEL or item.type != "message"):
            is_all = False  # only messages that are not from a model can never match
    doubted = {n for n, match in found.matches.items() if _is_doubted(found, n, match)}
    if doubted:
        turns = {n: match.turn for n, match in found.matches.items()}
        if found.decided.newest is not None:
            turns = {-1: found.decided.newest, **turns}
        pairs = list(itertools.pairwise(turns))
        for sure, n in pairs + [(after, before) for before, after in reversed(pairs)]:
            one, two = (turns[at] for at in sorted((sure, n)))
            if sure not in doubted and one.id in (two.id, two.parent):
                doubted.discard(n)
    for n in doubted:
        found.unmatch(n)
    return is_all and not doubted


def _is_doubted(found: Alignment, n: int, match: Match) -> bool:
    """Return whether something contradicts the name that led to a match."""
    if found.request.is_stateful or not match.turn.context.is_known:
        return False  # the history is unknown
    return not proof(NAMES, Named(found, n, match))


def certain_match(found: Alignment, item: HistoryItem) -> Match | None:
    """
    Return the captured item that a name of an item leads to, each one once.

    Names are a random id from upstream, a `call_id` that only one call has, and a response id
    inside a `call_id`. A name of several captured items proves nothing, even if all but one are
    matched.
    """
    by_id = found.index.by_id
    named = by_id.get(item.id, ()) if item.id and is_distinctive(item.id, "") else ()
    if called := _called(found, item):
        # If the two lead to different items, they contradict each other.
        both = {(match.turn.id, match.k) for match in called}
        named = [match for match in named if (match.turn.id, match.k) in both] if named else called
    agreed = [match for match in named if agrees(item, match.emitted)]
    for match in agreed:
        if match.turn.id in found.decided.turns:
            raise Reopened  # a part of a response that began before
    return agreed[0] if len(agreed) == 1 and not found.is_used(agreed[0]) else None


def _called(found: Alignment, item: HistoryItem) -> Sequence[Match]:
    """Return the items that a random `call_id` names, also if it was their own id."""
    if response_id := response_named_by(item):
        turn = found.turns.get(turn_id(response_id))
        call_id = item.call_id.rpartition(":")[2]
        items = enumerate(turn.items if turn is not None else ())
        return [Match(turn, k) for k, e in items if turn is not None and e.call_id == call_id]
    if not item.call_id or not is_distinctive(item.call_id, item.name):
        return ()
    index = found.index
    return index.by_call.get(item.call_id, ()) or index.by_id.get(item.call_id, ())


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
        found.assign(block, turn, own)
    for block, turn, pairs in named:
        assign_neighbours(found, block, turn, pairs)


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
    whole = found.whole(block)
    turns = [turn for turn in found.index.by_whole.get(whole, ()) if turn.items] if whole else []
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
        same = in_order(found, between[::step], turn, emitted[::step])
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
        others = found.index.by_content.get(content, ())
        if any(one.conversation == turn.conversation for one in others):
            return False
    return may_be(found, n, match)
