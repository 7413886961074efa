"""The design pages name modules that exist, and number the decisions in order."""

import re

import pytest

from tests.docs.page_tables import DOCS, PACKAGE, ROOT, modules_in

PAGES = ["design.md", "matching.md", "decisions.md", "contributing.md"]


def modules() -> list[tuple[str, str]]:
    """Return each pair of a page and a module that it names, in order and once."""
    texts = {page: (DOCS / page).read_text() for page in PAGES}
    found = [(page, path) for page, text in texts.items() for path in modules_in(text)]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize(("page", "path"), modules())
def test_a_named_module_exists(page: str, path: str) -> None:
    """A module is named by its path in the package or in the repository."""
    assert (PACKAGE / path).is_file() or (ROOT / path).is_file(), f"docs/{page}: {path}"


@pytest.mark.parametrize("page", ["design.md", "matching.md"])
def test_a_design_page_names_modules(page: str) -> None:
    """The pattern finds a module on each page, so the test above cannot pass without any."""
    assert [path for named, path in modules() if named == page]


def test_every_decision_has_a_number_and_a_title() -> None:
    """A number is a stable anchor such as `decisions.md#d5`: it is used once, and in order."""
    text = (DOCS / "decisions.md").read_text()
    headings = re.findall(r"^## (.+)\n\n(.*)$", text, re.MULTILINE)
    numbers = [int(heading.removeprefix("D")) for heading, _ in headings]
    assert numbers == sorted(set(numbers))
    for heading, record in headings:
        assert record.startswith("**"), heading
