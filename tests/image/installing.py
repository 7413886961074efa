"""Virtual environments, and pip installs into them from a package index."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def environment(folder: Path) -> Path:
    """Create a virtual environment without pip; return its folder."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)  # noqa: S603
    return folder


def pip(*words: str | Path, python: str | Path = sys.executable) -> None:
    """Run pip; without a package index the test skips, or fails if REPLAY_TEST_REQUIRE names it."""
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *words]
    got = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if got.returncode:
        if "pypi" in os.environ.get("REPLAY_TEST_REQUIRE", "").split(","):
            pytest.fail(got.stderr)
        pytest.skip("the package index cannot be reached")
