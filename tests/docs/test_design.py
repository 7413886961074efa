"""The design pages name only modules that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "proxy/reasoning_replay"
PAGES = ["design.md", "matching.md", "decisions.md", "contributing.md"]
MODULE = re.compile(r"`([\w./]+\.py)`")


def modules() -> list[tuple[str, str]]:
    """Return each page with each module that it names, in order and once."""
    texts = {page: (ROOT / "docs" / page).read_text() for page in PAGES}
    found = [(page, path) for page, text in texts.items() for path in MODULE.findall(text)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("page", "path"), modules())
def test_a_named_module_exists(page: str, path: str) -> None:
    """A module is named by its path in the package or in the repository."""
    assert (PACKAGE / path).is_file() or (ROOT / path).is_file(), f"docs/{page}: {path}"


@pytest.mark.parametrize("page", ["design.md", "matching.md"])
def test_a_design_page_names_modules(page: str) -> None:
    """The pattern finds modules on each page, so that the test above checks something."""
    assert [path for named, path in modules() if named == page]


def test_every_decision_has_a_heading_of_its_number_and_a_title() -> None:
    """A number is a stable anchor, such as `decisions.md#d5`: it is used once, in order."""
    text = (ROOT / "docs/decisions.md").read_text()
    headings = re.findall(r"^## (.+)\n\n(.*)$", text, re.MULTILINE)
    numbers = [int(heading.removeprefix("D")) for heading, _ in headings]
    assert numbers == sorted(set(numbers))
    for heading, record in headings:
        assert record.startswith("**"), heading
