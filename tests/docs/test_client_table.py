"""The client table has each client that is run, as `verify` told it."""

import re

from tests.docs.client_table import CLIENTS, PAGE
from tests.docs.page_tables import ROOT
from tests.examples.test_examples import EXAMPLES, FOLDER

ROW = re.compile(
    r"^\| \[[^\]]+\]\(\.\./(\S+)\) \| (responses|chat|messages|gemini) \| [^|]+"
    r" \| (whole|\*\*lost\*\*), \d+ of \d+;[^|]* \| whole, \d+ of \d+; \d+% cached \|$",
    re.MULTILINE,
)


def test_each_client_has_a_row() -> None:
    """In the order of the list, with a verdict of both runs; through the proxy it is whole."""
    rows = [file for file, *_ in ROW.findall(PAGE.read_text())]
    assert rows == [file.relative_to(ROOT).as_posix() for file, *_ in CLIENTS]


def test_each_example_is_a_client() -> None:
    """Those that are programs."""
    programs = {FOLDER / name for name in EXAMPLES if not name.endswith(("toml", "json"))}
    assert programs <= {file for file, *_ in CLIENTS}
