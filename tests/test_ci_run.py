"""The CI script names what a machine lacks, instead of ending with a bare exit code 127."""

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
    """A folder as PATH with programs that do nothing and succeed."""
    for name in (*THERE, "make"):
        program(tmp_path, name, "exit 0")
    for name in ("bash", "dirname", "id"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    return tmp_path


def program(machine: Path, name: str, does: str) -> None:
    """Add a program to the machine."""
    path = machine / name
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)


def run(machine: Path) -> subprocess.CompletedProcess[str]:
    """Run the script on the machine."""
    return subprocess.run(  # noqa: S603 (our own words)
        [str(machine / "bash"), str(RUN)],
        env={"PATH": str(machine), "PYTHON": str(machine / "python"), "GOROOT": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_what_is_there_is_not_fetched(machine: Path) -> None:
    """Installed programs are not installed again: neither Go nor apt-get is used."""
    program(machine, "helm", "exit 0")
    program(machine, "apt-get", "exit 100")

    assert run(machine).returncode == 0


def test_a_machine_without_go_is_told_what_it_lacks(machine: Path) -> None:
    """Without helm and Go, the script fails with a message that names both."""
    done = run(machine)

    assert done.returncode == 1
    assert "no helm, and no Go to build it with" in done.stderr


def test_a_go_that_is_too_old_is_named(machine: Path) -> None:
    """A Go that is too old, such as 1.19 of Debian 12, is named with its version."""
    program(
        machine,
        "go",
        'case $1 in install) exit 1;; env) echo /nowhere;; *) echo "go version go1.19";; esac',
    )
    done = run(machine)

    assert done.returncode == 1
    assert "cannot be built: go version go1.19 must be 1.21 or newer" in done.stderr


def test_who_may_install_nothing_is_told_what_to_run(machine: Path) -> None:
    """Without root, the script names the command to run; it works without optional packages."""
    program(machine, "helm", "exit 0")
    (machine / "id").unlink()
    program(machine, "id", "echo 1000")
    (machine / "valkey-server").unlink()
    program(machine, "apt-cache", "exit 0")
    assert run(machine).returncode == 0

    (machine / "redis-server").unlink()
    done = run(machine)

    assert done.returncode == 1
    assert '"apt-get update --quiet" needs root, and there is no sudo' in done.stderr
