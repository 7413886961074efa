"""The workflows of GitHub Actions run the scripts in `.ci` with minimal permissions."""

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.docs.page_tables import ROOT

FOLDER = ROOT / ".github/workflows"
READ = {"contents": "read"}
IDENTITY = {**READ, "id-token": "write"}
PACKAGES = {**IDENTITY, "packages": "write"}
ON_A_TAG = '"$GITHUB_REF_NAME"'
# Each job that runs here: its script, and its permissions.
JOBS = {
    ("ci.yaml", "test"): (".ci/run", READ),
    ("ci.yaml", "lowest"): (".ci/lowest", READ),
    ("release.yaml", "check"): ('.ci/release check "$TAG"', READ),
    ("release.yaml", "test-index"): (
        ".ci/release index https://test.pypi.org/legacy/ https://test.pypi.org/simple/",
        IDENTITY,
    ),
    ("release.yaml", "index"): (
        ".ci/release index https://upload.pypi.org/legacy/ https://pypi.org/simple/",
        IDENTITY,
    ),
    ("release.yaml", "image"): (f".ci/release image {ON_A_TAG}", PACKAGES),
    ("release.yaml", "chart"): (f".ci/release chart {ON_A_TAG}", PACKAGES),
    ("release.yaml", "page"): (f".ci/release page {ON_A_TAG}", {"contents": "write"}),
}
JOB_IDS = ["-".join(job) for job in JOBS]


def workflow(name: str) -> dict[Any, Any]:
    """Return a parsed workflow."""
    loaded: dict[Any, Any] = yaml.safe_load((FOLDER / name).read_text())
    return loaded


def job_of(name: str, job: str) -> dict[str, Any]:
    """Return a job of a workflow."""
    found: dict[str, Any] = workflow(name)["jobs"][job]
    return found


def pythons() -> list[str]:
    """Return the versions that pyproject.toml names, the oldest first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if ":: 3." in line]
    assert project["requires-python"] == f">={versions[0]}"
    return versions


def test_each_job_is_known() -> None:
    """A new job that runs something must be in JOBS."""
    found = {
        (path.name, job)
        for path in FOLDER.iterdir()
        for job, told in workflow(path.name)["jobs"].items()
        if "steps" in told
    }
    assert found == JOBS.keys()


@pytest.mark.parametrize(("name", "job"), JOBS, ids=JOB_IDS)
def test_a_job_runs_only_its_script(name: str, job: str) -> None:
    """The steps of a job are in its script only, so that they also run on a laptop."""
    script, permissions = JOBS[name, job]
    told = job_of(name, job)
    assert [step["run"] for step in told["steps"] if "run" in step] == [script]
    assert (ROOT / script.partition(" ")[0]).stat().st_mode & 0o111
    assert told["permissions"] == permissions
    assert told["timeout-minutes"]


@pytest.mark.parametrize("name", sorted({name for name, _ in JOBS}))
def test_a_workflow_has_no_permission(name: str) -> None:
    """Only its jobs have some; and no secret is named but the token of the run."""
    assert workflow(name)["permissions"] == {}
    assert "secrets." not in (FOLDER / name).read_text()


@pytest.mark.parametrize(("name", "job"), JOBS, ids=JOB_IDS)
def test_each_action_is_pinned_by_its_commit(name: str, job: str) -> None:
    """A tag can be moved; a commit hash cannot. All are of the platform itself."""
    used = [step["uses"] for step in job_of(name, job)["steps"] if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action) for action in used)


def test_ci_uses_every_python() -> None:
    """`requires-python` names the oldest version, and the classifiers name all."""
    assert job_of("ci.yaml", "test")["strategy"]["matrix"]["python"] == pythons()
    (setup,) = [step["with"] for step in job_of("ci.yaml", "lowest")["steps"] if "with" in step][1:]
    assert setup == {"python-version": pythons()[0]}


def test_main_and_tags_are_tested_once() -> None:
    """The release calls CI for both, so CI itself runs for pull requests."""
    assert "push" not in workflow("ci.yaml")[True]  # YAML reads the key `on` as true
    assert "workflow_call" in workflow("ci.yaml")[True]
    read = workflow("release.yaml")
    assert read[True] == {"push": {"branches": ["main"], "tags": ["v*"]}}
    assert read["jobs"]["test"]["uses"] == "./.github/workflows/ci.yaml"


def test_a_release_goes_step_by_step() -> None:
    """Each step needs the one before it; only a tag goes further than the test index."""
    needs = {name: job.get("needs") for name, job in workflow("release.yaml")["jobs"].items()}
    assert needs == {
        "test": None,
        "check": "test",
        "test-index": "check",
        "index": "check",
        "image": "index",
        "chart": "image",
        "page": "chart",
    }
    assert job_of("release.yaml", "test-index")["if"] == "github.ref_type == 'branch'"
    assert job_of("release.yaml", "index")["if"] == "github.ref_type == 'tag'"
