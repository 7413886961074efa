"""The workflow of GitHub Actions runs `.ci/run` with minimal permissions."""

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.docs.page_tables import ROOT


@pytest.fixture
def workflow() -> dict[Any, Any]:
    """Return the parsed workflow."""
    loaded: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yaml").read_text())
    return loaded


def test_it_runs_only_the_ci_script(workflow: dict[Any, Any]) -> None:
    """The steps of CI are in `.ci/run` only, so that they also run on a laptop."""
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_it_may_only_read(workflow: dict[Any, Any]) -> None:
    """The workflow has no permission, and its job may only read the repository."""
    assert workflow["permissions"] == {}
    assert [job["permissions"] for job in workflow["jobs"].values()] == [{"contents": "read"}]


def test_each_action_is_pinned_by_its_commit(workflow: dict[Any, Any]) -> None:
    """A tag can be moved; a commit hash cannot."""
    (job,) = workflow["jobs"].values()
    used = [step["uses"] for step in job["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)


def test_it_uses_the_oldest_and_the_newest_python(workflow: dict[Any, Any]) -> None:
    """`requires-python` names the oldest version, and the last classifier the newest one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: 3." in line]
    (job,) = workflow["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == [versions[0], versions[-1]]
    assert project["requires-python"] == f">={versions[0]}"
