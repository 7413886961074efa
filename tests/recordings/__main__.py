"""
Tables of the runs: `python -m tests.recordings [--dialect NAME]`.

REPLAY_TEST_RECORDED names other recordings. How to read a table: the docstring of the module that
prints it.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial

from tests.recordings import wire
from tests.recordings.atoms import table as atoms
from tests.recordings.responses import table as responses

TABLES: Mapping[str, Callable[[], list[str]]] = {
    "responses": responses.print_table,
    **{name: partial(atoms.print_table, name) for name in atoms.ADAPTERS},
}


def main() -> int:
    """Play all recordings and print the results; return 1 if anything is wrong or unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.recordings")
    parser.add_argument("--dialect", choices=sorted(TABLES), help="without it: all of them")
    named: str | None = parser.parse_args().dialect
    if wire.root() is None:
        print("no recordings found: set REPLAY_TEST_RECORDED to their folder", file=sys.stderr)  # noqa: T201
        return 2
    told = [line for name, run in TABLES.items() if named in (None, name) for line in run()]
    print("\n".join(["", *told]))  # noqa: T201
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
