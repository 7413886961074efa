"""
Random worlds: conversations of one tenant, played through the core and checked against the truth.

    python -m tests.core.worlds FIRST LAST [--dialect chat] [--new [HABIT ...] | --clean | ...]

plays the worlds with these numbers. Options add habits: `--new` each new one to some clients, or
those that are named to most; `--clean` those that the tests play; `--shapes` one to four habits to
each client. With `--each`, the worlds are played for each new habit alone, and a row is one habit.
For each kind of client it prints

- the reasoning that is due, and the share of it that was injected
- wrong: injections before an item that the reasoning did not lead to
- part: the same, but the own turn is known and explains the whole block, and the other one has more
- twins: the same, but nothing distinguishes them: the client would send the same request if the
  other response were its own
- cut: the same, but only because the client left a part of its history out, and its own turn is
  unknown; guess: its own turn is known
- hint: the same, but the names of the conversations differ, which clients may change
- named: an id that looks random and the content are those of the other response, and of no turn
  that is known, so that only another history tells, as clients have that rewrite messages
- moved: requests of a client that only appends, which do not begin as the one before them did
- refused: requests that pass without injection, but not with it where an upstream wants each
  reasoning item directly before what it led to
- faulty: worlds with faults

The exit status is 1 if an injection was wrong or a prefix moved; with `--strict` also if there was
a guess, a part, or a refusal.
"""

import argparse
import sys

from tests.core.worlds.crowd import CLEAN_ONES, FEW, NOTHING_NEW, OFTEN, New
from tests.core.worlds.dialect import WorldDialect
from tests.core.worlds.habits import NEW_HABITS
from tests.core.worlds.judge import FAULTS, STRICT_FAULTS
from tests.core.worlds.play import DIALECTS, Counts, play, told


def main() -> int:
    """Print the table; return 1 if an injection was wrong or a prefix moved."""
    parser = argparse.ArgumentParser()
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--dialect", choices=list(DIALECTS), default="responses")
    parser.add_argument("--new", nargs="*", choices=list(NEW_HABITS))
    for option in ("--clean", "--each", "--shapes", "--strict"):
        parser.add_argument(option, action="store_true")
    given = parser.parse_args()
    numbers, kind = range(given.first, given.last), DIALECTS[given.dialect]
    if given.each:
        print(told(_each(numbers, kind), ()))  # noqa: T201
        return 0
    new = NOTHING_NEW
    if given.new is not None:
        new = New(dict.fromkeys(given.new, OFTEN)) if given.new else FEW
    if given.clean:
        new = CLEAN_ONES
    if given.shapes:
        new = New(has_shapes=True)
    counts, faults = play(numbers, kind, new, STRICT_FAULTS if given.strict else FAULTS)
    print(told(counts, faults))  # noqa: T201
    return int(bool(faults))


def _each(numbers: range, kind: type[WorldDialect]) -> Counts:
    """Play the worlds for each new habit alone; the counts are by habit."""
    counts = Counts()
    for name in sorted(NEW_HABITS.keys() - kind.cannot):
        found, _ = play(numbers, kind, New({name: OFTEN}))
        counts.update({(what, name): n for (what, of), n in found.items() if of == "all"})
        counts["conversations", "all"] += found["conversations", "all"]
        counts["faulty", "all"] += found["faulty", "all"]
    return counts


if __name__ == "__main__":
    sys.exit(main())
