"""Wheel, source distribution and editable install work, also next to PyPI's `proxy.py`."""

import os
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from reasoning_replay import __version__

from tests.image.installing import environment, pip

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "proxy" / "reasoning_replay"
# A commit to build from, and the version of that build.
COMMIT = "g1a2b3c4d5"
VERSION = f"{__version__}+{COMMIT}"
CONSTRAINTS = ROOT / "constraints.txt"


def said(*words: str | Path, cwd: Path) -> str:
    """Run a program, which must succeed and sees only what is installed; return its output."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["BUILD_COMMIT"] = COMMIT
    done = subprocess.run(  # noqa: S603
        words, cwd=cwd, capture_output=True, check=False, text=True, env=environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def built(backend: Path, source: Path, target: Path) -> list[Path]:
    """Build both distributions; return the files, the source distribution first."""
    said(backend / "bin" / "python", "-m", "hatchling", "build", "-d", target, cwd=source)
    return sorted(target.iterdir(), key=lambda path: path.suffix)


def content(wheel: Path) -> dict[str, bytes]:
    """Return each file of a wheel, except RECORD."""
    with zipfile.ZipFile(wheel) as opened:
        files = [name for name in opened.namelist() if not name.endswith("/RECORD")]
        return {name: opened.read(name) for name in files}


# One test, so that parallel test processes build it only once.
@pytest.mark.timeout(400)
def test_both_distributions_work_next_to_proxy_py(tmp_path: Path) -> None:
    """Both packages work in one environment, with a wheel and with an editable install."""
    backend = environment(tmp_path / "backend")
    lock = ROOT / "requirements-build.lock"
    pip("--python", backend / "bin" / "python", "install", "--require-hashes", "-r", lock)
    source, wheel = built(backend, ROOT, tmp_path / "dist")

    files = content(wheel)
    # Code, py.typed, and the files that the inspector's page is made of.
    package = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {path.relative_to(PACKAGE.parent).as_posix() for path in package} <= files.keys()
    assert {name.partition("/")[0] for name in files} == {
        "reasoning_replay",
        f"reasoning_replay-{VERSION}.dist-info",
    }
    metadata = files[f"reasoning_replay-{VERSION}.dist-info/METADATA"].decode()
    # What only contributors need is not offered to users.
    assert re.findall(r"^Provides-Extra: (.+)$", metadata, re.MULTILINE) == ["otel"]
    with tarfile.open(source) as opened:
        # Python before 3.11.4, as in Debian 12, has no filters.
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        opened.extractall(tmp_path, **safely)  # noqa: S202 (our own)
    (unpacked,) = tmp_path.glob("reasoning_replay-*")
    _, again = built(backend, unpacked, tmp_path / "again")
    assert content(again) == files

    home = environment(tmp_path / "home")
    python = home / "bin" / "python"
    pip("--python", python, "install", "--constraint", CONSTRAINTS, wheel, "proxy.py")
    works_next_to_proxy_py(home, tmp_path, home, VERSION)
    pip("--python", python, "install", "--no-deps", "--editable", ROOT)
    works_next_to_proxy_py(home, tmp_path, ROOT / "proxy", f"{__version__}+source")


def works_next_to_proxy_py(home: Path, folder: Path, ours: Path, version: str) -> None:
    """Assert that both packages import and start, and that the demo does not need the tests."""
    python = home / "bin" / "python"
    words = "import proxy, reasoning_replay as ours; print(proxy.__file__); print(ours.__file__)"
    theirs_at, ours_at = said(python, "-c", words, cwd=folder).splitlines()
    assert Path(theirs_at).is_relative_to(home)
    assert Path(ours_at).is_relative_to(ours)
    assert said(home / "bin" / "proxy", "--version", cwd=folder).strip()
    told = f"reasoning-replay {version}\n"
    assert said(home / "bin" / "reasoning-replay", "--version", cwd=folder) == told
    assert said(python, "-m", "reasoning_replay", "--version", cwd=folder) == told
    assert "dropped reasoning items injected" in said(
        python, "-m", "reasoning_replay", "demo", cwd=folder
    )
