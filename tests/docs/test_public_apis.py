"""PUBLIC_APIS.md has every public name, and each promise that it makes about exit codes is true."""

import re
import subprocess
import sys

import pytest

from tests.docs.page_tables import ROOT
from tests.docs.public_names import MARK, PAGE, commands, names, text

GENERATE = "run: PYTHONPATH=proxy .venv/bin/python -m tests.docs.public_names"


def test_the_page_has_every_public_name() -> None:
    """A name that comes or goes is seen in the review of the page."""
    assert PAGE.read_text().partition(MARK)[2] == text(), GENERATE


def test_every_interface_of_the_page_has_names() -> None:
    """No list is empty, and no name occurs twice."""
    for title, lines in names().items():
        assert lines, title
        assert len(lines) == len(set(lines)), title


def test_the_page_is_part_of_the_source_distribution() -> None:
    """It is read where the package is."""
    assert '"/PUBLIC_APIS.md"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["config"], 0),
        (["scope"], 2),  # nothing on standard input names a tenant
        (["health", "--admin-listen", "127.0.0.1:1"], 1),
        (["health", "--admin-listen", "nowhere"], 1),
        (["report", "http://127.0.0.1:1"], 1),
        (["verify"], 2),
        (["verify", "--", sys.executable, "-c", ""], 2),  # nothing was verified
        (["demo"], 0),
        (["check", "--upstream-url", "http://127.0.0.1:1/v1", "--listen", "127.0.0.1:0"], 1),
        (["serve", "--mode", "offf"], 2),
        (["unknown"], 2),
    ],
    ids=lambda value: "-".join(value[:1]) if isinstance(value, list) else None,
)
def test_an_exit_code_is_the_promised_one(words: list[str], code: int) -> None:
    """0 success, 1 a problem, 2 wrong words or settings; `health` has no 2."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "reasoning_replay", *words],
        cwd=ROOT / "proxy",
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert done.returncode == code, done.stdout + done.stderr


def test_every_command_has_a_row_of_exit_codes() -> None:
    """The test above runs each command of the list."""
    source = re.findall(r'^        \(\["([a-z]+)"', (ROOT / __file__).read_text(), re.MULTILINE)
    assert {line.partition(" ")[0] for line in commands()} <= set(source)
