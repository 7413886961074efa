"""What CI runs says plainly what a machine lacks, instead of ending with a bare 127."""

import shutil
import subprocess
from pathlib import Path

import pytest

RUN = Path(__file__).parents[1] / ".ci" / "run"
THERE = (
    "redis-server",
    "chromium",
    "promtool",
    "valkey-server",
    "jq",
    "service",
    "apt-get",
    "python",
)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs, all of which there are on it: they do nothing, and well."""
    for name in (*THERE, "make"):
        program(tmp_path, name, "exit 0")
    for name in ("bash", "dirname", "id"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    return tmp_path


def program(machine: Path, name: str, does: str) -> None:
    """Put one there."""
    path = machine / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def run(machine: Path) -> subprocess.CompletedProcess[str]:
    """Run it there."""
    return subprocess.run(  # noqa: S603 (our own words)
        [str(machine / "bash"), str(RUN)],
        env={"PATH": str(machine), "PYTHON": str(machine / "python"), "GOROOT": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_what_is_there_is_not_fetched(machine: Path) -> None:
    """Neither Go nor a package is asked for where there is a helm."""
    program(machine, "helm", "exit 0")
    program(machine, "apt-get", "exit 100")

    assert run(machine).returncode == 0


def test_a_machine_without_go_is_told_what_it_lacks(machine: Path) -> None:
    """Where its packages have none either."""
    done = run(machine)

    assert done.returncode == 1
    assert "no helm, and no Go to build it with" in done.stderr


def test_a_go_that_is_too_old_is_named(machine: Path) -> None:
    """Debian 12 has 1.19."""
    program(
        machine,
        "go",
        'case $1 in install) exit 1;; env) echo /nowhere;; *) echo "go version go1.19";; esac',
    )
    done = run(machine)

    assert done.returncode == 1
    assert "cannot be built: go version go1.19 must be 1.21 or newer" in done.stderr


def test_who_may_install_nothing_is_told_what_to_run(machine: Path) -> None:
    """As root, and before; what is good to have alone is done without."""
    program(machine, "helm", "exit 0")
    (machine / "id").unlink()
    program(machine, "id", "echo 1000")
    (machine / "valkey-server").unlink()
    program(machine, "apt-cache", "exit 0")
    assert run(machine).returncode == 0

    (machine / "redis-server").unlink()
    done = run(machine)

    assert done.returncode == 1
    assert '"apt-get update --quiet" wants root, and there is no sudo' in done.stderr
