"""The workflow of GitHub Actions runs what `.ci/run` runs, with the least rights."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]


@pytest.fixture
def workflow() -> dict[Any, Any]:
    """Return the parsed workflow."""
    loaded: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yaml").read_text())
    return loaded


def test_it_runs_the_script_of_ci(workflow: dict[Any, Any]) -> None:
    """The steps of CI are in `.ci/run` only, so that they also run on a laptop."""
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_it_has_no_rights_but_to_read(workflow: dict[Any, Any]) -> None:
    """The workflow has no permission, and the job may read the repository."""
    assert workflow["permissions"] == {}
    assert [job["permissions"] for job in workflow["jobs"].values()] == [{"contents": "read"}]


def test_each_action_is_pinned_by_its_commit(workflow: dict[Any, Any]) -> None:
    """A tag can be moved; a commit hash cannot."""
    (job,) = workflow["jobs"].values()
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)


def test_it_uses_the_oldest_and_the_newest_python(workflow: dict[Any, Any]) -> None:
    """They are those of `pyproject.toml`: `requires-python`, and the last classifier."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: 3." in line]
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    assert project["requires-python"] == f">={versions[0]}"
