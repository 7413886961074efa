"""Build metadata: every name of what is published comes from the repository."""

import subprocess
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest
from reasoning_replay import __version__

ROOT = Path(__file__).parents[2]


def script() -> ModuleType:
    """Return the script that hatchling runs."""
    spec = util.spec_from_file_location("build_metadata", ROOT / "build_metadata.py")
    assert spec is not None
    assert spec.loader is not None
    made = util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


SCRIPT = script()
URL = "https://github.com/Someone/reasoning-replay"


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        (f"{URL}.git", URL),
        (URL, URL),
        ("git@github.com:Someone/reasoning-replay.git", URL),
        ("ssh://git@git.example/team/sub/replay", "https://git.example/team/sub/replay"),
        ("/a/folder", ""),
        ("", ""),
    ],
)
def test_a_checkout_knows_its_repository(
    remote: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its remote, in each form that git has; a folder is no address."""
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    monkeypatch.setattr(SCRIPT, "ROOT", tmp_path)
    assert SCRIPT.repository() == ""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)  # noqa: S603, S607
    if remote:
        words = ["git", "-C", str(tmp_path), "remote", "add", "origin", remote]
        subprocess.run(words, check=True)  # noqa: S603
    assert SCRIPT.repository() == url


def test_the_platform_names_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork publishes to its own owner."""
    monkeypatch.setenv("GITHUB_REPOSITORY", "Someone/reasoning-replay")
    assert SCRIPT.repository() == URL
    assert SCRIPT.registry(URL) == "ghcr.io/someone"
    with pytest.raises(SystemExit, match="no registry is known for the repository ''"):
        SCRIPT.registry("")


def test_the_page_leads_to_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links to pages, pictures and folders; other sites and the page itself stay as they are."""
    text = '[a](docs/a.md#b) [c](#d) [e](https://e.example) <img src="f.webp"> [g](examples/)'
    assert SCRIPT.absolute(text, URL, "v1") == (
        f"[a]({URL}/blob/v1/docs/a.md#b) [c](#d) [e](https://e.example)"
        f' <img src="{URL}/raw/v1/f.webp"> [g]({URL}/blob/v1/examples/)'
    )
    monkeypatch.setenv("BUILD_COMMIT", "")
    page = SCRIPT.page(URL)
    assert f"({URL}/blob/v{__version__}/docs/README.md)" in page
    assert f"## Changes in {__version__}" in page
    assert SCRIPT.urls("") == {}
    assert SCRIPT.urls(URL)["Issues"] == f"{URL}/issues"


def test_no_file_names_an_owner() -> None:
    """The registry is in one place."""
    files = [*ROOT.glob(".ci/*"), *ROOT.glob(".github/**/*.yaml"), *ROOT.glob("helm/**/*.yaml")]
    files += [ROOT / name for name in ("Makefile", "Dockerfile", "pyproject.toml", "README.md")]
    assert [path for path in files if "ghcr.io" in path.read_text()] == []
