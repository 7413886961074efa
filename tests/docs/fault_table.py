"""
Table of faults of the network in docs/operations.md, from `faults.yaml`.

That file also has the tests of each row. `python -m tests.docs.fault_table` writes the table.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from tests.docs.page_tables import DOCS

PAGE: Final = DOCS / "operations.md"
HEADING: Final = "\n## Faults of the network\n"
HEAD: Final = "| leg | fault | the client gets | normal again |\n|---|---|---|---|\n"


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    One fault on one leg.

    Attributes:
        leg: The connection, or the store, that it happens to.
        fault: What happens.
        gets: What the client gets.
        again: When all is as before.
        tests: Tests below tests/, as file::function.
        rows: Beginnings of the names in `upstream_rows.ROWS` that it stands for.
    """

    leg: str
    fault: str
    gets: str
    again: str
    tests: tuple[str, ...]
    rows: tuple[str, ...] = ()


ROWS = msgspec.yaml.decode(Path(__file__).with_name("faults.yaml").read_bytes(), type=list[Row])


def page() -> str:
    """Return the page with the table as it should be."""
    before, heading, rest = PAGE.read_text().partition(HEADING)
    assert heading, f"{PAGE.name} has no such section: {HEADING}"
    text, _, after = rest.partition(HEAD)
    return (
        before
        + heading
        + text
        + HEAD
        + "".join(map(_line, ROWS))
        + re.sub(r"\A(?:\|.*\n)*", "", after)
    )


def _line(row: Row) -> str:
    return f"| {row.leg} | {row.fault} | {row.gets} | {row.again} |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
