"""The release job checks every artifact, and publishes each of them once."""

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
# A program that notes how it is called, and says what the real one would say. A file `published` in
# its folder has what the registry knows.
FAKE = """\
#!/bin/sh
here=$(dirname "$0")
echo "$(basename "$0") $*" >>"$here/asked"
case "$(basename "$0") $*" in
  "docker run --detach"*) echo container-1 ;;
  "docker inspect"*) echo healthy ;;
  "docker buildx build"*) touch "$here/image" ;;
  "docker buildx imagetools"*) [ -f "$here/image" ] && echo "$DIGEST" ;;
  "helm show chart"*) [ -f "$here/chart" ] ;;
  "helm push"*) touch "$here/chart" && cp "$2" "$here/pushed.tgz" 2>/dev/null ;;
  "helm pull"*) echo "Digest: $DIGEST" ;;
  "helm lint"* | "helm package"* | "helm template"*) exec "$HELM" "$@" ;;
  "gh release view"*) [ -f "$here/page" ] ;;
  "gh release create"*) touch "$here/page" ;;
esac
"""
DIGEST = "sha256:" + "ab" * 32
TAG = f"v{__version__}"
IMAGE = "ghcr.io/someone/reasoning-replay"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the repository, with the programs in `bin`."""
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*NOT_COPIED))
    (tree / "bin").mkdir()
    for name in ("docker", "cosign", "gh", "go"):
        fake(tree, name)
    return tree


def fake(tree: Path, name: str) -> None:
    """Put a program in place of a real one."""
    program = tree / "bin" / name
    program.write_text(FAKE)
    program.chmod(0o755)


def asked(tree: Path) -> list[str]:
    """Return what the programs were asked since the last call."""
    file = tree / "bin" / "asked"
    lines = file.read_text().splitlines()
    file.unlink()
    return lines


def release(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the release job in a copy of the repository."""
    path = f"{tree / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(  # noqa: S603 (our own words)
        [tree / ".ci" / "release", *words],
        env={
            **os.environ,
            "PATH": path,
            "HELM": shutil.which("helm") or "",
            "DIGEST": DIGEST,
            "GITHUB_REPOSITORY": "Someone/reasoning-replay",
            "GITHUB_ACTOR": "someone",
            "GITHUB_TOKEN": "t",
        },
        capture_output=True,
        check=False,
        text=True,
    )


@pytest.mark.parametrize("step", ["check", "image", "chart", "page"])
@pytest.mark.parametrize("tag", ["v9.9.9", __version__])
def test_the_tag_is_the_version(tree: Path, step: str, tag: str) -> None:
    """Any other tag ends the job before it builds something; the message has both."""
    done = release(tree, step, tag)
    assert done.returncode == 1
    told = f'the tag is "{tag}", and the version is {__version__}: name the tag v'
    assert told in done.stderr
    assert not (tree / "dist").exists()


def test_a_wrong_step_is_told(tree: Path) -> None:
    """The message has the steps."""
    done = release(tree, "all")
    assert done.returncode == 1
    assert '"all" is no step: check, index, image, chart or page' in done.stderr


@pytest.mark.timeout(400)
def test_every_artifact_is_built_and_checked(tree: Path, tmp_path: Path) -> None:
    """The folder `dist` has the artifacts with their hashes, and each one was checked."""
    require("helm")
    backend = environment(tmp_path / "reachable") / "bin" / "python"
    pip("--python", backend, "install", "--no-deps", "hatchling")  # skips without an index

    done = release(tree, "check", TAG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"its image is {IMAGE}:{__version__}" in done.stderr
    assert ", 0 wrong, " in done.stdout  # links of the page
    files = {path.name: path for path in (tree / "dist").iterdir()}
    hashes = files.pop("SHA256SUMS").read_text().splitlines()
    assert files.keys() == {
        f"reasoning_replay-{__version__}-py3-none-any.whl",
        f"reasoning_replay-{__version__}.tar.gz",
        f"reasoning-replay-{__version__}.tgz",
    }
    assert {*hashes} == {
        f"{sha256(path.read_bytes()).hexdigest()}  {name}" for name, path in files.items()
    }
    words = {line.split(" ")[1] for line in asked(tree) if line.startswith("docker ")}
    assert words == {"build", "run", "inspect", "rm"}


def test_an_image_is_published_once(tree: Path) -> None:
    """The first run builds it for two platforms; the second one only signs what it finds."""
    require("helm")
    fake(tree, "helm")
    assert release(tree, "image", TAG).returncode == 0
    first = asked(tree)
    (built,) = [line for line in first if line.startswith("docker buildx build")]
    assert "--platform linux/amd64,linux/arm64 --build-arg COMMIT= --sbom=true" in built
    assert "--provenance=mode=max" in built
    assert f"--tag {IMAGE}:{__version__} --push ." in built
    assert first[-1] == f"cosign sign --yes {IMAGE}@{DIGEST}"

    done = release(tree, "image", TAG)
    assert done.returncode == 0
    assert f"is published already: {DIGEST}" in done.stderr
    again = asked(tree)
    assert not [line for line in again if "buildx build" in line]
    assert again[-1] == first[-1]


def test_a_chart_has_the_image_by_its_digest(tree: Path) -> None:
    """There is no chart before the image, and a published one stays as it is."""
    helm = require("helm")
    fake(tree, "helm")
    done = release(tree, "chart", TAG)
    assert done.returncode == 1
    assert f"there is no image {IMAGE}:{__version__}" in done.stderr
    asked(tree)

    (tree / "bin" / "image").touch()
    done = release(tree, "chart", TAG)
    assert done.returncode == 0, done.stderr
    assert asked(tree)[-1] == f"cosign sign --yes ghcr.io/someone/charts/reasoning-replay@{DIGEST}"
    rendered = subprocess.run(  # noqa: S603
        [helm, "template", "--kube-version", "1.34.0", "replay", tree / "bin" / "pushed.tgz"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert f'image: "{IMAGE}@{DIGEST}"' in rendered

    assert release(tree, "chart", TAG).returncode == 0
    assert not [line for line in asked(tree) if line.startswith("helm push")]


def test_a_page_is_made_once_and_then_changed(tree: Path) -> None:
    """Its text is what the changelog says of the version."""
    (tree / "dist").mkdir()
    (tree / "dist" / "SHA256SUMS").touch()
    assert release(tree, "page", TAG).returncode == 0
    told = [line.partition(" --")[0] for line in asked(tree)]
    assert told == [f"gh release {word} {TAG}" for word in ("view", "create", "upload")]
    assert release(tree, "page", TAG).returncode == 0
    told = [line.partition(" --")[0] for line in asked(tree)]
    assert told == [f"gh release {word} {TAG}" for word in ("view", "edit", "upload")]
