"""
Seen: what a turn remembers of its request, so that the next one is decided in the same way.

A client that only appends sends the same items again, and more. What upstream saw ahead of them
must not change: a turn that was matched is matched again, and what was missed, or ambiguous, stays
so. Each turn remembers what was decided about the items that the turn before it had not yet had.
"""

from collections.abc import Callable, Iterable

import msgspec

__all__ = ["Run", "Seen", "decided", "seen_of"]

# What one turn remembers itself; what is older than these is decided anew.
RUNS_MAX = 64


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    Items in a row that one turn emitted in a row.

    Attributes:
        at: The first one's index in `RequestHistory.heard`.
        turn: Its id.
        k: The first one's index in the turn.
        items: How many they are.
    """

    at: int
    turn: bytes
    k: int
    items: int


class Seen(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """
    What was decided about the items of a request.

    Attributes:
        basis: The turn that remembers what was decided about older ones; b"" when none does.
        since: Index of the first item in `RequestHistory.heard` that is not older.
        runs: Where those came from that are not; what is in none of them got no reasoning.
    """

    basis: bytes
    since: int
    runs: tuple[Run, ...]


def seen_of(basis: bytes, since: int, matched: Iterable[tuple[int, bytes, int]]) -> Seen:
    """
    Return what a turn shall remember; if that is too much, of the newest items alone.

    Args:
        basis: As of `Seen`.
        since: As of `Seen`.
        matched: Index of an item, its turn's id and its index there; in order.
    """
    runs: list[Run] = []
    for at, turn, k in matched:
        if at < since:
            continue
        last = runs[-1] if runs else None
        if last is not None and (turn, at - last.at, k - last.k) == (
            last.turn, last.items, last.items
        ):  # fmt: skip
            runs[-1] = Run(last.at, turn, last.k, last.items + 1)
        else:
            runs.append(Run(at, turn, k, 1))
    if len(runs) <= RUNS_MAX:
        return Seen(basis, since, tuple(runs))
    newest = runs[-RUNS_MAX:]
    return Seen(b"", newest[0].at, tuple(newest))


def decided(
    seen: Seen, of_turn: Callable[[bytes], Seen | None]
) -> tuple[int, dict[int, tuple[bytes, int]]]:
    """
    Return since which item it is remembered what was decided; and what was matched from there on.

    Args:
        seen: Of the newest turn.
        of_turn: What a turn remembers; None where the turn is gone, or remembers nothing.
    """
    matched: dict[int, tuple[bytes, int]] = {}
    while True:
        for run in seen.runs:
            for n in range(run.items):
                matched[run.at + n] = (run.turn, run.k + n)
        before = of_turn(seen.basis) if seen.basis else None
        if before is None or before.since >= seen.since:
            return seen.since, matched
        seen = before
