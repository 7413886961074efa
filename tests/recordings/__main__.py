"""
Tables of the runs: `python -m tests.recordings [--dialect NAME]`.

REPLAY_TEST_RECORDED names other recordings. How to read a table: `tests.recordings.table`.
"""

import argparse
import sys

from tests.recordings import wire
from tests.recordings.table import ADAPTERS, print_table


def main() -> int:
    """Play all recordings and print the results; return 1 if anything is wrong or unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.recordings")
    parser.add_argument("--dialect", choices=sorted(ADAPTERS), help="without it: all of them")
    named: str | None = parser.parse_args().dialect
    if wire.root() is None:
        print("no recordings found: set REPLAY_TEST_RECORDED to their folder", file=sys.stderr)  # noqa: T201
        return 2
    told = [line for name in ADAPTERS if named in (None, name) for line in print_table(name)]
    print("\n".join(["", *told]))  # noqa: T201
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
