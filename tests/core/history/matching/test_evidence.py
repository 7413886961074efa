"""Evidence: the table of docs/internals/matching.md is that of the code."""

from pathlib import Path
from typing import Any

from reasoning_replay.core.history.matching.evidence import TABLE

PAGE = Path(__file__).parents[4] / "docs" / "internals" / "matching.md"
HEAD = "| claim | evidence | it proves | unless there is |\n|---|---|---|---|\n"


def cell(of: Any) -> str:
    """Return what a function of the table says that it looks for."""
    return str(of.__doc__).strip().splitlines()[0].rstrip(".")


def test_the_table_of_the_page_is_that_of_the_code() -> None:
    """Each row is one kind of evidence, what it proves, and what contradicts it."""
    rows = "".join(
        f"| {claim} | {cell(row.agrees)} | {row.proves} | {cell(row.contradicted)} |\n"
        for claim, evidence in TABLE.items()
        for row in evidence
    )

    assert f"\n{HEAD}{rows}\n" in PAGE.read_text()
