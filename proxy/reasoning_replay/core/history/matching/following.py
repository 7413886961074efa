"""Following: the pass that repeats earlier decisions, so that upstream sees the same prefix."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from reasoning_replay.core.history.fingerprints import is_distinctive
from reasoning_replay.core.history.item_index import Match
from reasoning_replay.core.history.items import HistoryItem, Role
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.blocks import Block
from reasoning_replay.core.history.matching.sayings import is_plain
from reasoning_replay.core.history.seen import Seen, decided, seen_of
from reasoning_replay.core.history.turns import Turn

__all__ = ["follow", "is_remembered", "to_remember"]

# Number of turns that answered one request, and of items in a block, that are considered.
ANSWERS_WEIGHED = 32


def is_remembered(found: Alignment) -> bool:
    """Return whether the newest matched turn records decisions; it records none if ids decided."""
    return bool(found.matches) and found.matches[max(found.matches)].turn.seen is not None


def follow(found: Alignment) -> None:
    """Repeat the decisions about this request, or else about the longest known beginning of it."""
    for seen in _sent_before(found):
        _repeat(found, seen, len(found.places))
        found.basis, found.since = seen.basis, seen.since
        return
    for part in _parts(found):
        if turns := _answers(found, part):
            _repeat_known(found, part, turns)
            return


def _sent_before(found: Alignment) -> Iterator[Seen]:
    """Yield the decisions about this request when it was sent before, the oldest first."""
    request = found.request
    turns = sorted(found.by_whole.get(request.whole(), ()), key=_age)
    for turn in turns[:ANSWERS_WEIGHED]:
        if turn.seen is None or turn.context.hint != request.hint:
            continue
        since, known = decided(turn.seen, partial(_seen_by, found))
        if all(
            _may_repeat(found, n, known.get(place.heard), turn)
            for n, place in enumerate(found.places)
            if place.item.role is Role.MODEL and place.heard >= since
        ):
            yield turn.seen


def _may_repeat(found: Alignment, n: int, source: tuple[bytes, int] | None, by: Turn) -> bool:
    """
    Return whether an item allows what was decided about it in a request that looked the same.

    Its ids may tell that it is another item. If the frame differs, so may a turn of another
    conversation that said the same there.
    """
    match = found.matches.get(n)
    turn = found.turns.get(source[0]) if source is not None else None
    if source is None or turn is None or source[1] >= len(turn.items):
        return source is None and match is None
    again, item = Match(turn, source[1]), found.places[n].item
    if match is not None:
        return match == again
    if _is_another(item, again):
        return False
    same = found.by_whole[turn.context.whole] if by.context.frame != found.request.frame else ()
    others = (other for other in same if other.conversation != turn.conversation)
    return found.evidence.may_be(n, again) and not any(
        again.emitted.content == said.content for other in others for said in other.items
    )


def _parts(found: Alignment) -> Iterator[Block]:
    """Yield what a turn may have answered with: the end of each block from one of its items on."""
    for block in reversed(found.blocks):
        last = len(block.places) - 1
        for at in (*range(last, max(0, last - ANSWERS_WEIGHED), -1), 0):
            whole = found.request.whole(found.places[block.places[at]])
            if whole in found.by_whole:
                yield Block(block.number, block.places[at:], block.depth, whole=whole)


def to_remember(found: Alignment) -> Seen | None:
    """Return the decisions that the next turn records; None if the client does not only append."""
    places = found.places
    if found.matches and not found.is_appended:
        return None
    return seen_of(
        found.basis,
        found.since,
        (
            (places[n].heard, match.turn.id, match.k)
            for n, match in sorted(found.matches.items())
            if places[n].item.role is not Role.REFERENCE
        ),
    )


def _answers(found: Alignment, block: Block) -> list[Turn]:
    """Return the turns that a block may come from, only those with exactly the same history."""
    turns = found.by_whole.get(found.evidence.whole(block), ())
    named = {match.turn.id for n in block.places if (match := found.matches.get(n)) is not None}
    if named:
        return [turn for turn in turns if {turn.id} == named]
    options = [(turn, found.evidence.pairs(block, turn)) for turn in turns]
    plain = [turn for turn, pairs in options if pairs and is_plain(found, block, turn, pairs)]
    tie = max((found.tie(block, turn) for turn in plain), default=None)
    return [turn for turn in plain if found.tie(block, turn) == tie]


def _repeat_known(found: Alignment, part: Block, turns: Sequence[Turn]) -> None:
    """Repeat what these turns remember; if they differ, what upstream saw first."""
    found.is_appended = True
    first = part.places[0]
    memories = [(turn, turn.seen) for turn in sorted(turns, key=_age) if turn.seen is not None]
    if len(memories) < len(turns):
        return
    if len(memories) > 1:
        memories = [one for one in memories if not _is_contradicted(found, one[1])]
    for turn, seen in memories[:1]:
        known = _repeat(found, seen, first)
        if len(memories) > 1:
            return
        found.basis, found.since = turn.id, found.places[first].heard
        if known:  # its ancestors are matched, so no other block can come from this turn
            for n, k in found.evidence.pairs(part, turn).items():
                if n not in found.matches:
                    found.match(n, turn, k)


def _is_contradicted(found: Alignment, seen: Seen) -> bool:
    """Return whether a remembered call, by an id that recurs, has other content here."""
    _, known = decided(seen, partial(_seen_by, found))
    sources = ((place.item, known.get(place.heard)) for place in found.places)
    both = ((item, found.turns.get(source[0]), source[1]) for item, source in sources if source)
    return any(
        turn is not None and k < len(turn.items) and _is_another(item, Match(turn, k))
        for item, turn, k in both
        if item.role is Role.MODEL
    )


def _is_another(item: HistoryItem, match: Match) -> bool:
    """Return whether a call with the random id of a captured one has other content."""
    is_named = is_distinctive(item.call_id, item.name)
    return is_named and item.content != match.emitted.content


def _repeat(found: Alignment, seen: Seen, end: int) -> bool:
    """Repeat the decisions about the items before index `end`; return whether any matched."""
    found.is_appended = True
    since, known = decided(seen, partial(_seen_by, found))
    for block in found.blocks:
        block.places = [
            n for n in block.places if n >= end or _may_be_matched(found, n, since, known)
        ]
    found.blocks = [one for one in found.blocks if one.places]
    return bool(known)


def _may_be_matched(
    found: Alignment, n: int, since: int, known: Mapping[int, tuple[bytes, int]]
) -> bool:
    """Match an item as before; return False if it must stay unmatched."""
    place = found.places[n]
    if place.heard < since or place.item.role is Role.REFERENCE:
        return True
    found.matches.pop(n, None)
    this, k = known.get(place.heard, (b"", 0))
    turn = found.turns.get(this)
    if turn is None or k >= len(turn.items):
        return False
    found.match(n, turn, k)
    return True


def _seen_by(found: Alignment, this: bytes) -> Seen | None:
    turn = found.turns.get(this)
    return turn.seen if turn is not None else None


def _age(turn: Turn) -> tuple[int, bytes]:
    return turn.created_ms, turn.id
