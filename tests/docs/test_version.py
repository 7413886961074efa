"""Every copy of the version is equal to `__version__` of the package."""

import re

import pytest
from reasoning_replay import __version__
from reasoning_replay.build import build_version

from tests.docs.page_tables import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
RELEASE = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", re.MULTILINE)

# Files that cannot compute the version: (path, pattern with the copy as its group).
COPIES = [
    ("Dockerfile", r'image\.version="([^"]+)"'),
    ("helm/Chart.yaml", r"^version: (\S+)$"),
    ("helm/Chart.yaml", r'^appVersion: "([^"]+)"$'),
    ("config/kubernetes/sidecar.yaml", r"image: reasoning-replay:(\S+)$"),
    ("config/kubernetes/sidecar-classic.yaml", r"image: reasoning-replay:(\S+)$"),
]


@pytest.mark.parametrize(("path", "pattern"), COPIES)
def test_a_copy_is_equal_to_the_version_of_the_package(path: str, pattern: str) -> None:
    """Each file has exactly one copy in its form."""
    assert re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE) == [__version__]


def test_the_package_is_the_only_source() -> None:
    """`pyproject.toml` reads the version from the package, and a source runs as such."""
    text = (ROOT / "pyproject.toml").read_text()
    assert '"version"]' in text
    assert 'path = "build_version.py"' in text
    assert build_version() == f"{__version__}+source"


def test_no_other_file_of_the_product_has_a_copy() -> None:
    """A file with a copy must be in COPIES."""
    folders = [ROOT / name for name in ("proxy", "config", "helm", ".ci", ".github")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    files += [ROOT / "Dockerfile", ROOT / "Makefile", ROOT / "pyproject.toml"]
    known = {"proxy/reasoning_replay/__init__.py", *(path for path, _ in COPIES)}
    # A requirement such as ">=0.1.0" is not a copy: it does not change with the version.
    copy = re.compile(rf"(?<![\d.=]){re.escape(__version__)}(?![\d.])".encode())
    found = {
        str(path.relative_to(ROOT))
        for path in files
        if "__pycache__" not in path.parts and copy.search(path.read_bytes())
    }
    assert found <= known


def test_the_newest_release_in_the_changelog_is_this_version() -> None:
    """Releases are in order, the newest first, after `[Unreleased]`."""
    releases = RELEASE.findall(CHANGELOG)
    assert releases[0] == __version__
    numbers = [tuple(map(int, release.split("."))) for release in releases]
    assert numbers == sorted(set(numbers), reverse=True)
    assert CHANGELOG.index("## [Unreleased]") < CHANGELOG.index(f"## [{__version__}]")


def test_the_security_policy_supports_this_version() -> None:
    """The table of supported versions has a row for the minor version."""
    minor = __version__.rpartition(".")[0]
    assert f"| {minor}.x | yes |" in (ROOT / "SECURITY.md").read_text()
