"""The documentation is one web of short pages: each link resolves, and each page is found."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from reasoning_replay.core.dialects.responses.heal.diagnosis import RefusalKind

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "proxy/reasoning_replay"
README = ROOT / "README.md"
DOCS = sorted(ROOT.glob("docs/*.md"))
PAGES = sorted({*ROOT.glob("*.md"), *DOCS, ROOT / "helm/README.md"})
README_LINES_MAX = 200
PAGE_WORDS_MAX = 2_500

# Pages that a reader may have bookmarked: alerts, error messages and the chart link to them.
NAMED = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "helm/README.md",
    "docs/getting-started.md",
    "docs/clients.md",
    "docs/upstreams.md",
    "docs/how-it-works.md",
    "docs/what-comes-back.md",
    "docs/healing.md",
    "docs/websocket.md",
    "docs/configuration.md",
    "docs/stores.md",
    "docs/deploy.md",
    "docs/kubernetes.md",
    "docs/operations.md",
    "docs/observability.md",
    "docs/alerts.md",
    "docs/troubleshooting.md",
    "docs/error-codes.md",
    "docs/log-events.md",
    "docs/security.md",
    "docs/performance.md",
    "docs/decisions.md",
    "docs/design.md",
    "docs/matching.md",
    "docs/contributing.md",
]

FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset)=\"([^\"]+)\"")
HEADING = re.compile(r"^#+ (.+?) *$", re.MULTILINE)
MODULE = re.compile(r"`([\w./]+\.py)`")


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
            continue  # addresses elsewhere are not followed
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
    """A link leads to a file of the repository, and its anchor to a heading there."""
    for link, target, anchor in links(page):
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", [README, *DOCS], ids=name_of)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    """A page names a module by its path in the package or the repository, or by its name alone."""
    for path in MODULE.findall(page.read_text()):
        places = [PACKAGE / path, ROOT / path, *PACKAGE.glob(f"**/{path}")]
        assert any(place.exists() for place in places), path


def test_the_readme_is_short() -> None:
    """The README is read in five minutes; everything else is a page."""
    assert len(README.read_text().splitlines()) <= README_LINES_MAX


@pytest.mark.parametrize("page", [*DOCS, ROOT / "helm/README.md"], ids=name_of)
def test_every_page_is_short(page: Path) -> None:
    """A page has at most 2,500 words, tables included."""
    assert len(page.read_text().split()) <= PAGE_WORDS_MAX


@pytest.mark.parametrize("page", DOCS, ids=name_of)
def test_every_page_begins_with_its_title_and_an_introduction(page: Path) -> None:
    """The first line is the title, and a sentence for the reader follows before any heading."""
    title, empty, introduction, *_ = page.read_text().splitlines()

    assert title.startswith("# ")
    assert not empty
    assert introduction[:1].isalnum() or introduction.startswith("[")


def test_the_readme_links_to_every_page() -> None:
    """The README is the index of the documentation."""
    linked = {target for _, target, _ in links(README)}

    assert {name_of(page) for page in DOCS if page not in linked} == set()


def test_every_named_page_is_reachable() -> None:
    """Each page that others rely on exists, and the README leads to it."""
    reached, left = {README}, [README]
    while left:
        for _, target, _ in links(left.pop()):
            if target.suffix == ".md" and target.exists() and target not in reached:
                reached.add(target)
                left.append(target)

    assert {name for name in NAMED if ROOT / name not in reached} == set()


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
def test_a_reader_in_trouble_is_two_clicks_away(place: str) -> None:
    """From the README, two links lead from a 400, an alert or an unknown upstream to the cure."""
    page, _, anchor = place.partition("#")
    first = {target: anchor for _, target, anchor in links(README)}

    assert ROOT / page in first
    assert not anchor or anchor in anchors(ROOT / page)
