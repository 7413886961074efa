"""Remembered decisions: the pass that repeats them, so that upstream sees the same prefix."""

from collections.abc import Iterator, Mapping, Sequence

from reasoning_replay.core.history.decided import Reopened
from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.matching.alignment import Alignment, Block
from reasoning_replay.core.history.matching.by_content import is_enough, preference
from reasoning_replay.core.history.matching.pairing import may_be, pairs_of
from reasoning_replay.core.history.seen import MatchedRun, Seen, recorded, seen_of
from reasoning_replay.core.history.turns import Turn

_Source = tuple[bytes, int]  # id of a turn, and index of an item in it
Basis = tuple[bytes, int]  # `Seen.basis` and `Seen.since` of the next turn
_NO_BASIS: Basis = (b"", 0)

# Number of turns that answered one request, and of items in a block, that are considered.
ANSWERS_WEIGHED = 32


def is_remembered(found: Alignment) -> bool:
    """Return whether the newest matched turn records decisions; it records none if ids decided."""
    newest = found.newest()
    return found.decided.seen is not None or (newest is not None and newest.seen is not None)


def repeat_decisions(found: Alignment) -> Basis | None:
    """
    Repeat the decisions about this request, or else about the longest known beginning of it.

    Returns:
        None unless the request begins with the unchanged history of a captured turn.

    Raises:
        Reopened: They are not those that were decided.
    """
    seen = _sent_before(found)
    if seen is not None:
        _repeat(found, seen, len(found.places))
        return seen.basis, seen.since
    for ending in _endings(found):
        if turns := _turns_of(found, ending):
            return _repeat_known(found, ending, turns)
    return None


def _sent_before(found: Alignment) -> Seen | None:
    """Return the oldest decisions about this request; None if it was not sent before."""
    request = found.request
    turns = sorted(found.index.by_whole.get(request.whole(), ()), key=_age)
    for turn in turns[:ANSWERS_WEIGHED]:
        if turn.seen is None or turn.context.hint != request.hint:
            continue
        since, known = _decided(found, turn.seen)
        if all(
            _may_repeat(found, n, known.get(place.heard), turn)
            for n, place in enumerate(found.places)
            if place.item.role is Role.MODEL and place.heard >= since
        ):
            return turn.seen
    return None


def _may_repeat(found: Alignment, n: int, source: _Source | None, by: Turn) -> bool:
    """
    Return whether an item allows what was decided about it in a request that looked the same.

    Its ids may tell that it is another item. If the frame differs, so may a turn of another
    conversation that said the same there.
    """
    match, earlier, item = found.matches.get(n), _captured(found, source), found.places[n].item
    if earlier is None:
        return source is None and match is None
    if match is not None:
        return match == earlier
    if _is_another(item, earlier):
        return False
    is_framed = by.context.frame != found.request.frame
    same = found.index.by_whole[earlier.turn.context.whole] if is_framed else ()
    others = (other for other in same if other.conversation != earlier.turn.conversation)
    return may_be(found, n, earlier) and not any(
        earlier.emitted.content == said.content for other in others for said in other.items
    )


def _endings(found: Alignment) -> Iterator[Block]:
    """Yield what a turn may have answered with: the end of each block from one of its items on."""
    for block in reversed(found.blocks):
        last = len(block.places) - 1
        for at in (*range(last, max(0, last - ANSWERS_WEIGHED), -1), 0):
            whole = found.request.whole(found.places[block.places[at]])
            if whole in found.index.by_whole:
                yield Block(block.number, block.places[at:], block.depth)


def to_remember(found: Alignment, basis: Basis | None) -> Seen | None:
    """
    Return the decisions that the next turn records; None if the client does not only append.

    `basis` is the result of `repeat_decisions`.
    """
    places, earlier = found.places, found.decided.seen
    older: tuple[MatchedRun, ...] = ()
    if earlier is not None:
        before = earlier.basis, earlier.since
        basis = before if basis in (None, _NO_BASIS) else basis
        older = earlier.runs if basis == before else ()
    elif found.matches and basis is None:
        return None
    matched = (
        (places[n].heard, match.turn.id, match.k)
        for n, match in sorted(found.matches.items())
        if places[n].item.role is not Role.REFERENCE
    )
    return seen_of(*(basis or _NO_BASIS), matched, older)


def _turns_of(found: Alignment, block: Block) -> list[Turn]:
    """
    Return the turns that a block may come from, only those with exactly the same history.

    Raises:
        Reopened: One is decided already, so its response has come again.
    """
    turns = found.index.by_whole.get(found.whole(block), ())
    if any(turn.id in found.decided.turns for turn in turns):
        raise Reopened
    named = {match.turn.id for n in block.places if (match := found.matches.get(n)) is not None}
    if named:
        return [turn for turn in turns if {turn.id} == named]
    options = [(turn, pairs_of(found, block, turn)) for turn in turns]
    plain = [turn for turn, pairs in options if pairs and is_enough(found, block, turn, pairs)]
    best = max((preference(found, block, turn) for turn in plain), default=None)
    return [turn for turn in plain if preference(found, block, turn) == best]


def _repeat_known(found: Alignment, ending: Block, turns: Sequence[Turn]) -> Basis:
    """Repeat what these turns remember; if they differ, what upstream saw first."""
    memories = [(turn, turn.seen) for turn in sorted(turns, key=_age) if turn.seen is not None]
    if len(memories) < len(turns):
        if found.decided.seen is not None:
            raise Reopened  # a lookup failed since: with nothing decided, all is decided again
        return _NO_BASIS
    if len(memories) > 1:
        memories = [one for one in memories if not _is_contradicted(found, one[1])]
    if not memories:
        return _NO_BASIS
    turn, seen = memories[0]
    first = ending.places[0]
    known = _repeat(found, seen, first)
    if len(memories) > 1:
        return _NO_BASIS
    # If its ancestors are matched, no other block can come from this turn.
    if known or found.decided.newest is not None:
        for n, k in pairs_of(found, ending, turn).items():
            if n not in found.matches:
                found.record(n, Match(turn, k))
    return turn.id, found.places[first].heard


def _is_contradicted(found: Alignment, seen: Seen) -> bool:
    """Return whether a remembered call, by an id that recurs, has other content here."""
    _, known = _decided(found, seen)
    items = (place for place in found.places if place.item.role is Role.MODEL)
    both = ((place.item, _captured(found, known.get(place.heard))) for place in items)
    return any(earlier is not None and _is_another(item, earlier) for item, earlier in both)


def _is_another(item: HistoryItem, match: Match) -> bool:
    """Return whether a call with the random id of a captured one has other content."""
    is_named = is_distinctive(item.call_id, item.name)
    return is_named and item.content != match.emitted.content


def _repeat(found: Alignment, seen: Seen, end: int) -> bool:
    """Repeat the decisions about the items before index `end`; return whether any matched."""
    since, known = _decided(found, seen)
    found.keep_open(lambda n: n >= end or _may_be_matched(found, n, since, known))
    return bool(known)


def _may_be_matched(found: Alignment, n: int, since: int, known: Mapping[int, _Source]) -> bool:
    """Match an item as before; return False if it must stay unmatched."""
    place = found.places[n]
    if place.heard < since or place.item.role is Role.REFERENCE:
        return True
    earlier = _captured(found, known.get(place.heard))
    found.matches.pop(n, None)
    if earlier is not None:
        found.record(n, earlier)
    return earlier is not None


def _captured(found: Alignment, source: _Source | None) -> Match | None:
    """Return the captured item of a decision; None if there is none any more."""
    turn = found.turns.get(source[0]) if source is not None else None
    if source is None or turn is None or source[1] >= len(turn.items):
        return None
    return Match(turn, source[1])


def _decided(found: Alignment, seen: Seen) -> tuple[int, dict[int, _Source]]:
    decided = found.decided
    since, known, of_decided = recorded(
        seen, lambda this: turn.seen if (turn := found.turns.get(this)) else None, decided.heard
    )
    if of_decided is not None and of_decided != decided.seen:
        raise Reopened
    return since, known


def _age(turn: Turn) -> tuple[int, bytes]:
    return turn.created_ms, turn.id
