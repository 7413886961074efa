"""Links and paths in the documentation lead to files that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "proxy/reasoning_replay"
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "helm/README.md",
    *ROOT.glob("docs/*.md"),
]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Each heading, as GitHub makes an anchor of it."""
    words = (
        re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(page.read_text())
    )
    return {heading.replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    """To a file of the repository, and to a heading in it; addresses elsewhere are not followed."""
    for link in LINK.findall(page.read_text()):
        if link.startswith("https:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_module_of_the_design_exists() -> None:
    """By its path in the package or in the repository, or by its name alone in a table."""
    text = (ROOT / "docs/design.md").read_text()
    for path in re.findall(r"`([\w./]+\.py)`", text):
        places = [PACKAGE / path, ROOT / path, *PACKAGE.glob(f"**/{path}")]
        assert any(place.exists() for place in places), path
