"""The locks have what pyproject.toml asks for: the image's with hashes, `make`'s as constraints."""

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
WANTED = [
    Requirement(line)
    for line in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["otel"]]
]
BACKEND = [Requirement(line) for line in PYPROJECT["build-system"]["requires"]]


EVERYTHING = [
    Requirement(line)
    for lines in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for line in lines
    if not line.startswith("reasoning-replay[")
]


class Locked(NamedTuple):
    """One entry of a lock file."""

    requirement: Requirement
    hashes: list[str]
    is_ours: bool  # pyproject.toml names it

    @property
    def version(self) -> str:
        """The one version that it may be."""
        (one,) = self.requirement.specifier
        assert one.operator == "=="
        return one.version


def locked(name: str) -> dict[str, Locked]:
    """Read a lock file: project -> entry."""
    entries: dict[str, Locked] = {}
    for block in re.split(r"\n(?=\S)", (ROOT / name).read_text().strip()):
        head, _, rest = block.partition(" \\\n")
        requirement = Requirement(head)
        hashes = re.findall(r"--hash=(\S+)", rest)
        is_ours = "reasoning-replay (pyproject.toml)" in rest
        entries[canonicalize_name(requirement.name)] = Locked(requirement, hashes, is_ours)
    return entries


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        pytest.param("requirements.lock", WANTED, id="runtime"),
        pytest.param("requirements-build.lock", BACKEND, id="build"),
        pytest.param("constraints.txt", EVERYTHING, id="development"),
    ],
)
def test_every_dependency_is_locked_in_its_range(file: str, wanted: list[Requirement]) -> None:
    """A changed range wants `make lock`."""
    entries = locked(file)

    for requirement in wanted:
        entry = entries[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(entry.version), f"{requirement}: run `make lock`"


def test_what_is_wanted_no_more_is_gone() -> None:
    """What the lock has for our own sake is what pyproject.toml names."""
    ours = {name for name, entry in locked("requirements.lock").items() if entry.is_ours}

    assert ours == {canonicalize_name(requirement.name) for requirement in WANTED}


@pytest.mark.parametrize("file", ["requirements.lock", "requirements-build.lock"])
def test_every_entry_is_one_version_with_hashes(file: str) -> None:
    """So that an index cannot hand out anything else."""
    entries = locked(file)

    assert entries
    for entry in entries.values():
        assert entry.version
        assert entry.hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in entry.hashes)


def test_development_has_the_versions_of_the_image() -> None:
    """One version of each project is tested and shipped."""
    shipped, used = locked("requirements.lock"), locked("constraints.txt")

    assert {name: entry.version for name, entry in shipped.items()} == {
        name: used[name].version for name in shipped
    }


def test_constraints_are_what_pip_takes_for_an_editable_install() -> None:
    """Neither hashes nor extras."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        requirement = Requirement(line)
        assert str(requirement.specifier).startswith("==")
        assert not requirement.extras


def test_make_installs_the_locked_versions() -> None:
    """Each editable install has the constraints."""
    makefile = (ROOT / "Makefile").read_text()

    (with_constraints,) = re.findall(r"^INSTALL := (.*)$", makefile, re.MULTILINE)
    assert with_constraints.endswith("--constraint constraints.txt --editable")
    assert makefile.count("--editable") == 1


@pytest.mark.parametrize("requirement", WANTED, ids=lambda requirement: requirement.name)
def test_every_dependency_has_an_upper_bound(requirement: Requirement) -> None:
    """A release that breaks its API reaches nobody before a test has seen it."""
    assert {"<", ">="} <= {one.operator for one in requirement.specifier}
