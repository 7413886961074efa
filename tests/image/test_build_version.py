"""Build version: that of a release alone only if what is built is that release."""

import shutil
import subprocess
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest
from reasoning_replay import __version__

from tests.image.test_image import STEPS

ROOT = Path(__file__).parents[2]


def script() -> ModuleType:
    """Return the script that hatchling evaluates."""
    spec = util.spec_from_file_location("build_version", ROOT / "build_version.py")
    assert spec is not None
    assert spec.loader is not None
    made = util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


VERSION_OF = script().build_version


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the sources that have the version."""
    monkeypatch.delenv("BUILD_COMMIT", raising=False)
    package = tmp_path / "proxy" / "reasoning_replay"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "proxy/reasoning_replay/__init__.py", package)
    return tmp_path


def git(folder: Path, *words: str) -> str:
    """Run git with the name of an author; return its output."""
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    return subprocess.run([*command, *words], check=True, capture_output=True, text=True).stdout  # noqa: S603


def test_a_checkout_has_its_commit_unless_it_is_the_release(folder: Path) -> None:
    """Without a tag, after it, at it, and at it with a change."""
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "one")
    first = git(folder, "rev-parse", "--short", "HEAD").strip()
    assert VERSION_OF(folder) == f"{__version__}+g{first}"
    git(folder, "tag", f"v{__version__}")
    git(folder, "tag", "nightly")
    git(folder, "tag", "--annotate", f"v{__version__}", "--force", "--message", "release")
    assert VERSION_OF(folder) == __version__
    with (folder / "proxy" / "reasoning_replay" / "__init__.py").open("a") as file:
        file.write("# changed\n")
    assert VERSION_OF(folder) == f"{__version__}+g{first}.dirty"
    git(folder, "commit", "--quiet", "--all", "--message", "two")
    second = git(folder, "rev-parse", "--short", "HEAD").strip()
    assert VERSION_OF(folder) == f"{__version__}+g{second}"


def test_a_folder_without_a_repository_is_of_no_known_commit(folder: Path) -> None:
    """Also inside another repository, whose commit it must not take."""
    assert VERSION_OF(folder) == f"{__version__}+source"
    (folder / ".git").write_text("gitdir: nowhere\n")
    assert VERSION_OF(folder) == f"{__version__}+source"


@pytest.mark.parametrize(("commit", "want"), [("g1a2b3c4d5", "+g1a2b3c4d5"), ("", "")])
def test_a_build_may_name_its_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, commit: str, want: str
) -> None:
    """As the image's does; an empty one is that of a release."""
    monkeypatch.setenv("BUILD_COMMIT", commit)
    assert VERSION_OF(folder) == f"{__version__}{want}"


def test_a_build_for_the_test_index_has_a_number(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes before the next patch, and has no commit, which the index refuses."""
    monkeypatch.setenv("BUILD_NUMBER", "7")
    first, _, patch = __version__.rpartition(".")
    assert VERSION_OF(folder) == f"{first}.{int(patch) + 1}.dev7"


def test_a_source_distribution_has_its_version_already(folder: Path) -> None:
    """The wheel that is made from it is of the same commit."""
    (folder / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: x\nVersion: 9.9+gabc\n")
    assert VERSION_OF(folder) == "9.9+gabc"


def test_an_image_is_no_release_unless_its_build_says_so() -> None:
    """The argument reaches the build of the wheel, and the release job empties it."""
    assert "COMMIT=source" in [step.text for step in STEPS if step.word == "ARG"]
    (built,) = [
        step.text for step in STEPS if step.word == "RUN" and "wheel --no-deps" in step.text
    ]
    assert 'BUILD_COMMIT="${COMMIT}" pip' in built
    job = (ROOT / ".ci" / "release").read_text()
    assert "--build-arg COMMIT= " in job
    assert "export BUILD_COMMIT= " in job
