"""The release job builds and checks every artifact of a tag, and publishes nothing."""

import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from reasoning_replay import __version__

from tests.image.installing import environment, pip
from tests.programs import require

ROOT = Path(__file__).parents[2]
NOT_COPIED = (".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "node_modules", "dist")
# A container engine that only says what a working one would say.
ENGINE = """\
#!/bin/sh
echo "$*" >>"$(dirname "$0")/asked"
case $1 in
  run) echo container-1 ;;
  inspect) echo healthy ;;
  save) echo image ;;
esac
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the repository, with the engine in `bin`."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
    engine = tree / "bin" / "docker"
    engine.parent.mkdir()
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    return tree


def release(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the release job in a copy of the repository."""
    path = f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(  # noqa: S603 (our own words)
        [tree / ".ci" / "release", *words],
        env={**os.environ, "PATH": path},
        capture_output=True,
        check=False,
        text=True,
    )


@pytest.mark.parametrize("words", [["v9.9.9"], [__version__], []])
def test_the_tag_is_the_version(tree: Path, words: list[str]) -> None:
    """Any other tag ends the job before it builds something; the message has both."""
    done = release(tree, *words)
    assert done.returncode == 1
    told = f'the tag is "{"".join(words)}", and the version is {__version__}: name the tag v'
    assert told in done.stderr
    assert not (tree / "dist").exists()


@pytest.mark.timeout(400)
def test_every_artifact_is_built_and_checked(tree: Path, tmp_path: Path) -> None:
    """The folder `dist` has the artifacts with their hashes, and each one was checked."""
    require("helm")
    backend = environment(tmp_path / "reachable") / "bin" / "python"
    pip("--python", backend, "install", "--no-deps", "hatchling")  # skips without an index

    done = release(tree, f"v{__version__}")
    assert done.returncode == 0, done.stdout + done.stderr
    files = {path.name: path for path in (tree / "dist").iterdir()}
    hashes = files.pop("SHA256SUMS").read_text().splitlines()
    assert files.keys() == {
        f"reasoning_replay-{__version__}-py3-none-any.whl",
        f"reasoning_replay-{__version__}.tar.gz",
        f"reasoning-replay-{__version__}.tgz",
        f"reasoning-replay-{__version__}-image.tar.gz",
    }
    assert {*hashes} == {
        f"{sha256(path.read_bytes()).hexdigest()}  {name}" for name, path in files.items()
    }
    asked = (tree / "bin" / "asked").read_text().splitlines()
    assert {line.split(" ", 1)[0] for line in asked} == {"build", "run", "inspect", "save", "rm"}
