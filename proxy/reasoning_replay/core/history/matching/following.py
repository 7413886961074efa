"""Following: the pass that repeats earlier decisions, so that upstream sees the same prefix."""

from collections.abc import Mapping, Sequence
from functools import partial

from reasoning_replay.core.history.items import Role
from reasoning_replay.core.history.matching.alignment import Alignment
from reasoning_replay.core.history.matching.blocks import Block
from reasoning_replay.core.history.matching.sayings import is_plain
from reasoning_replay.core.history.seen import Seen, decided, seen_of
from reasoning_replay.core.history.turns import Turn

__all__ = ["follow", "is_remembered", "to_remember"]


def is_remembered(found: Alignment) -> bool:
    """Return whether the newest matched turn records decisions; it records none if ids decided."""
    return bool(found.matches) and found.matches[max(found.matches)].turn.seen is not None


def follow(found: Alignment) -> None:
    """Repeat the decisions about the blocks before the newest turn with exactly their history."""
    for block in reversed(found.blocks):
        turns = _answers(found, block)
        if turns:
            found.is_appended = True
            _follow_all(found, block, turns)
            return


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


def _follow_all(found: Alignment, block: Block, turns: Sequence[Turn]) -> None:
    """Repeat the decisions of these turns. If they differ about an item, it stays unmatched."""
    remembered = [
        decided(turn.seen, partial(_seen_by, found)) for turn in turns if turn.seen is not None
    ]
    if len(remembered) < len(turns):
        return
    since, known = remembered[0]
    for first, theirs in remembered[1:]:
        since, known = max(since, first), dict(known.items() & theirs.items())
    for older in found.blocks[: block.number]:
        older.places = [n for n in older.places if _may_be_matched(found, n, since, known)]
    found.blocks = [one for one in found.blocks if one.places]
    if len(turns) == 1:
        found.basis, found.since = turns[0].id, found.places[block.places[0]].heard
        if known:  # its ancestors are matched, so no other block can come from this turn
            for n, k in found.evidence.pairs(block, turns[0]).items():
                if n not in found.matches:
                    found.match(n, turns[0], k)


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
