"""
Seen: the decisions about a request, recorded in its turn so that the next request repeats them.

A client that only appends sends the same items again, followed by new ones. The prefix that
upstream sees must not change: a matched item is matched again, and a missed or ambiguous item stays
so. Each turn records only the decisions about items that are new since the previous turn.
"""

from collections.abc import Callable, Iterable

import msgspec

# Largest number of runs that one turn records. Older items are decided again.
RUNS_MAX = 64


class MatchedRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    Consecutive items of a request that one turn emitted consecutively.

    Attributes:
        at: Index of the first item in `RequestHistory.heard`.
        turn: Id of the turn.
        k: Index of the first item in the turn.
        items: Number of items.
    """

    at: int
    turn: bytes
    k: int
    items: int


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    Decisions about the items of a request.

    Attributes:
        basis: Id of the turn that records the decisions about older items; b"" without one.
        since: Index in `RequestHistory.heard` of the first item that is not older.
        runs: Sources of the items that are not older. An item in none of the runs got no reasoning.
    """

    basis: bytes
    since: int
    runs: tuple[MatchedRun, ...]


def seen_of(
    basis: bytes,
    since: int,
    matched: Iterable[tuple[int, bytes, int]],
    older: Iterable[MatchedRun] = (),
) -> Seen:
    """
    Return the decisions that a turn records: all of them, or only the newest if there are too many.

    `matched` has for each matched item its index, its turn's id and its index there, in order;
    `older` are the runs of those before.
    """
    runs = [*older]
    for at, turn, k in matched:
        if at < since:
            continue
        last = runs[-1] if runs else None
        if last is not None and (turn, at - last.at, k - last.k) == (
            last.turn, last.items, last.items
        ):  # fmt: skip
            runs[-1] = MatchedRun(last.at, turn, last.k, last.items + 1)
        else:
            runs.append(MatchedRun(at, turn, k, 1))
    if len(runs) <= RUNS_MAX:
        return Seen(basis, since, tuple(runs))
    newest = runs[-RUNS_MAX:]
    return Seen(b"", newest[0].at, tuple(newest))


def recorded(
    seen: Seen, of_turn: Callable[[bytes], Seen | None], start: int = 0
) -> tuple[int, dict[int, tuple[bytes, int]], Seen | None]:
    """
    Return the first item with a recorded decision, and all matches from there on.

    Args:
        seen: Decisions that the newest turn records.
        of_turn: Returns the decisions of another turn; None if it is gone or records none.
        start: Number of the first items that are not asked for.

    Returns:
        The index of the item in `RequestHistory.heard`; item index -> (turn id, index there); and
        what is recorded of the first items, as far as that was read.
    """
    matched: dict[int, tuple[bytes, int]] = {}
    while True:
        for run in seen.runs:
            for n in range(max(0, start - run.at), run.items):
                matched[run.at + n] = (run.turn, run.k + n)
        if seen.since < start:
            return seen.since, matched, _until(seen, start)
        before = of_turn(seen.basis) if seen.basis else None
        if before is None or before.since >= seen.since:
            return seen.since, matched, None
        seen = before


def _until(seen: Seen, end: int) -> Seen:
    """Return the decisions about the items before an index."""
    runs = [
        MatchedRun(run.at, run.turn, run.k, min(run.items, end - run.at))
        for run in seen.runs
        if run.at < end
    ]
    return Seen(seen.basis, seen.since, tuple(runs))
