"""The table of faults says what its tests show."""

import ast
import re

import pytest

from tests.docs.fault_table import PAGE, ROWS, Row, page
from tests.docs.page_tables import ROOT
from tests.docs.source_words import error_codes
from tests.faults import upstream_rows
from tests.faults.kinds import Seen

# Faults of an upstream that its client sees.
FAULTS = [
    name
    for name, row in upstream_rows.ROWS.items()
    if ((seen := row.sees(row.kinds[0])).status >= 500 and seen.code) or not seen.is_whole
]


def test_the_page_has_the_table() -> None:
    """`python -m tests.docs.fault_table` writes it."""
    assert PAGE.read_text() == page()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.leg}: {row.fault}")
def test_the_tests_of_a_row_exist(row: Row) -> None:
    """Each row names tests."""
    assert row.tests
    for one in row.tests:
        file, _, name = one.partition("::")
        nodes = ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {node.name for node in nodes if isinstance(node, functions)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.leg}: {row.fault}")
def test_a_row_names_errors_of_the_proxy(row: Row) -> None:
    """An error has its status and its code."""
    for status, code in re.findall(r"\b([45]\d\d) `(\w+)`", row.gets):
        assert (code, int(status)) in error_codes()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_upstream_has_one_row(name: str) -> None:
    """The row says what the client of the fault's own test sees."""
    (row,) = [row for row in ROWS if name.startswith(row.rows)]
    one = upstream_rows.ROWS[name]
    seen: Seen = one.sees(one.kinds[0])
    assert (f"{seen.status} `{seen.code}`" if seen.code else "cut off") in row.gets
