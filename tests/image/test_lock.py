"""The locks match pyproject.toml: with hashes for the image, as constraints for `make`."""

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
    for lines in [
        PROJECT["dependencies"],
        *PROJECT["optional-dependencies"].values(),
        *PYPROJECT["dependency-groups"].values(),
    ]
    for line in lines
]


class Locked(NamedTuple):
    """One entry of a lock file."""

    requirement: Requirement
    hashes: list[str]
    is_ours: bool  # a direct dependency

    @property
    def version(self) -> str:
        """The exact version."""
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
    """A locked version is in the range of pyproject.toml; otherwise run `make lock`."""
    entries = locked(file)

    for requirement in wanted:
        entry = entries[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(entry.version), f"{requirement}: run `make lock`"


def test_what_is_wanted_no_more_is_gone() -> None:
    """The direct dependencies of the lock are those of pyproject.toml."""
    ours = {name for name, entry in locked("requirements.lock").items() if entry.is_ours}

    assert ours == {canonicalize_name(requirement.name) for requirement in WANTED}


@pytest.mark.parametrize("file", ["requirements.lock", "requirements-build.lock"])
def test_every_entry_is_one_version_with_hashes(file: str) -> None:
    """Each entry has one version and hashes, so that an index cannot replace a package."""
    entries = locked(file)

    assert entries
    for entry in entries.values():
        assert entry.version
        assert entry.hashes
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in entry.hashes)


def test_development_has_the_versions_of_the_image() -> None:
    """Tests and image use the same version of each package."""
    shipped, used = locked("requirements.lock"), locked("constraints.txt")

    assert {name: entry.version for name, entry in shipped.items()} == {
        name: used[name].version for name in shipped
    }


def test_constraints_are_what_pip_takes_for_an_editable_install() -> None:
    """Constraints have neither hashes nor extras, as pip requires for an editable install."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        requirement = Requirement(line)
        assert str(requirement.specifier).startswith("==")
        assert not requirement.extras


def test_make_installs_the_locked_versions() -> None:
    """Each editable install of the Makefile uses the constraints."""
    makefile = (ROOT / "Makefile").read_text()

    (with_constraints,) = re.findall(r"^INSTALL := (.*)$", makefile, re.MULTILINE)
    assert with_constraints.endswith("--constraint constraints.txt --editable")
    assert makefile.count("--editable") == 1


@pytest.mark.parametrize("requirement", WANTED, ids=lambda requirement: requirement.name)
def test_every_dependency_has_an_upper_bound(requirement: Requirement) -> None:
    """Every dependency has an upper bound, since a later release may break its API."""
    assert {"<", ">="} <= {one.operator for one in requirement.specifier}
