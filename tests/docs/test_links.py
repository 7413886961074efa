"""The documentation is a set of pages: every link resolves, and every page is reachable."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from reasoning_replay.core.dialects.engine import Engine
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind

from tests.docs.page_tables import DOCS, PACKAGE, ROOT

README = ROOT / "README.md"
INDEX = DOCS / "README.md"
DOCS_PAGES = sorted(DOCS.glob("**/*.md"))
PAGES = sorted({*ROOT.glob("*.md"), *DOCS_PAGES, *ROOT.glob("*/README.md")})
README_LINES_MAX, README_CHARS_MAX = 110, 9_000

FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+?) *$", re.MULTILINE)


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return page.relative_to(ROOT).as_posix()


def prose(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return FENCED.sub("", page.read_text())


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each link to a file of the repository, with the file and the anchor."""
    for match in LINK.finditer(prose(page)):
        link = match[1] or match[2]
        if re.match(r"[a-z]+:", link):
            continue  # links to other sites are not followed
        path, _, anchor = link.partition("#")
        yield link, (page.parent / path).resolve() if path else page, anchor


def anchors(page: Path) -> set[str]:
    """Return the anchor that GitHub makes of each heading; a repeated one gets a number."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for heading in HEADING.findall(prose(page)):
        words = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(f"{words}-{seen[words]}" if seen[words] else words)
        seen[words] += 1
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_resolves(page: Path) -> None:
    """A link leads to a file of the repository, and its anchor to a heading in that file."""
    for link, target, anchor in links(page):
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", [README, *DOCS_PAGES], ids=name_of)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    """A page names a module by its path in the package or the repository, or by its file name."""
    for path in re.findall(r"`([\w./]+\.py)`", page.read_text()):
        places = [PACKAGE / path, ROOT / path, *PACKAGE.glob(f"**/{path}")]
        assert any(place.exists() for place in places), path


def test_the_readme_is_short() -> None:
    """It is read in two minutes; the rest is in docs/."""
    text = README.read_text()

    assert len(text.splitlines()) <= README_LINES_MAX
    assert len(text) <= README_CHARS_MAX


@pytest.mark.parametrize("page", DOCS_PAGES, ids=name_of)
def test_every_page_begins_with_its_title_and_an_introduction(page: Path) -> None:
    """The first line is the title, and an introduction follows before any other heading."""
    title, empty, introduction, *_ = page.read_text().splitlines()

    assert title.startswith("# ")
    assert not empty
    assert introduction[:1].isalnum() or introduction.startswith("[")


def test_the_index_links_to_every_page() -> None:
    """The README leads to the index of the documentation, and that to each page."""
    assert INDEX in {target for _, target, _ in links(README)}
    linked = {INDEX, *(target for _, target, _ in links(INDEX))}

    assert {name_of(page) for page in DOCS_PAGES if page not in linked} == set()


def test_every_page_that_the_product_names_exists() -> None:
    """Messages, alerts, the chart and the examples name pages by their path."""
    folders = [ROOT / name for name in ("proxy", "helm", "config", "examples")]
    files = [path for folder in folders for path in folder.rglob("*.*")]
    files = [path for path in files if path.suffix in {".py", ".yaml", ".tpl", ".json", ".html"}]
    named = {page for path in files for page in re.findall(r"docs/[a-z/-]+\.md", path.read_text())}

    assert len(named) > 5
    assert {page for page in named if not (ROOT / page).is_file()} == set()


def test_every_decision_has_a_number_and_a_title() -> None:
    """A number is a stable anchor such as `decisions.md#d5`: it is used once, and in order."""
    text = (DOCS / "internals/decisions.md").read_text()
    headings = re.findall(r"^## (.+)\n\n(.*)$", text, re.MULTILINE)
    numbers = [int(heading.removeprefix("D")) for heading, _ in headings]
    assert numbers == sorted(set(numbers))
    for heading, record in headings:
        assert record.startswith("**"), heading


def test_the_design_names_what_exists() -> None:
    """Each method and each module of the page is in the code."""
    text = (DOCS / "internals/design.md").read_text()
    methods = set(re.findall(r"`Engine\.(\w+)`", text))
    assert all(callable(getattr(Engine, method)) for method in methods)
    paths = re.findall(r"`((?:core|adapters|web|settings|check)/[\w/]+)`", text)
    assert {path for path in paths if not (PACKAGE / path).exists()} == set()
    assert methods >= {"begun", "ask", "decide", "cure", "learn"}


@pytest.mark.parametrize(
    "place",
    [
        *(f"docs/healing.md#{kind}" for kind in RefusalKind if kind is not RefusalKind.OTHER),
        "docs/troubleshooting.md",
        "docs/alerts.md#reasoningreplayreasoningmissed",
        "docs/upstreams.md#my-upstream-is-not-listed",
        "docs/upstreams.md#a-profile-of-your-own",
    ],
)
def test_help_is_two_clicks_away(place: str) -> None:
    """Two links lead from the README to the fix for a 400, an alert or an unknown upstream."""
    page, _, anchor = place.partition("#")
    first = {target: anchor for _, target, anchor in links(README)}

    assert ROOT / page in first
    assert not anchor or anchor in anchors(ROOT / page)
