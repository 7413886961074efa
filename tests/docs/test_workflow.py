"""The workflows of GitHub Actions run the scripts in `.ci` with minimal permissions."""

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.docs.page_tables import ROOT

FOLDER = ROOT / ".github/workflows"
SCRIPTS = {"ci.yaml": ".ci/run", "release.yaml": '.ci/release "$GITHUB_REF_NAME"'}


def workflow(name: str) -> dict[Any, Any]:
    """Return a parsed workflow."""
    loaded: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text())
    return loaded


def steps(name: str) -> list[dict[str, Any]]:
    """Return the steps of the one job that does not call another workflow."""
    (found,) = [job["steps"] for job in workflow(name)["jobs"].values() if "steps" in job]
    return list(found)


def pythons() -> list[str]:
    """Return the versions that pyproject.toml names, the oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: 3." in line]
    assert project["requires-python"] == f">={versions[0]}"
    return versions


def test_each_workflow_is_known() -> None:
    """A new workflow must be in SCRIPTS."""
    assert {path.name for path in FOLDER.iterdir()} == SCRIPTS.keys()


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_runs_only_its_script(name: str) -> None:
    """The steps of a job are in its script only, so that they also run on a laptop."""
    assert [step["run"] for step in steps(name) if "run" in step] == [SCRIPTS[name]]
    assert (ROOT / SCRIPTS[name].partition(" ")[0]).stat().st_mode & 0o111


@pytest.mark.parametrize("name", SCRIPTS)
def test_it_may_only_read(name: str) -> None:
    """A workflow has no permission, and its jobs may only read the repository."""
    read = workflow(name)
    assert read["permissions"] == {}
    assert all(job["permissions"] == {"contents": "read"} for job in read["jobs"].values())


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_action_is_pinned_by_its_commit(name: str) -> None:
    """A tag can be moved; a commit hash cannot."""
    used = [step["uses"] for step in steps(name) if "uses" in step]
    assert used
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in used)


def test_ci_uses_the_oldest_and_the_newest_python() -> None:
    """`requires-python` names the oldest version, and the last classifier the newest one."""
    (job,) = workflow("ci.yaml")["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == [pythons()[0], pythons()[-1]]


def test_a_release_is_a_tag_whose_tests_pass() -> None:
    """A tag `v*` starts the release; its artifacts are built after CI passed for that commit."""
    read = workflow("release.yaml")
    assert read[True] == {"push": {"tags": ["v*"]}}  # YAML reads the key `on` as true
    test, artifacts = read["jobs"].values()
    assert test["uses"] == "./.github/workflows/ci.yaml"
    assert "workflow_call" in workflow("ci.yaml")[True]
    assert artifacts["needs"] == "test"
    by_action = {step.get("uses", "").partition("@")[0]: step for step in steps("release.yaml")}
    assert by_action["actions/setup-python"]["with"]["python-version"] == pythons()[-1]
    assert by_action["actions/upload-artifact"]["with"]["path"] == "dist/"
