"""
Build version: that of the package, with the commit as its local part between releases.

Hatchling evaluates it. A build without a commit, such as one of an unpacked folder, is `+source`.
"""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent
# Set by a build that knows its commit, such as `g1a2b3c4d5`, and empty in a release.
COMMIT = "BUILD_COMMIT"
# Set for the test index, which takes no local part: the number of the build.
NUMBER = "BUILD_NUMBER"
UNKNOWN = "source"


def build_version(root: Path = ROOT) -> str:
    """Return the version of what is built from a folder."""
    built = root / "PKG-INFO"  # of a source distribution, which has a version already
    if built.is_file():
        return _found(r"^Version: (\S+)$", built)
    release = _found(r'^__version__ = "(.+)"$', root / "proxy/reasoning_replay/__init__.py")
    if number := os.environ.get(NUMBER):
        first, _, patch = release.rpartition(".")
        return f"{first}.{int(patch) + 1}.dev{number}"
    commit = os.environ.get(COMMIT)
    if commit is None:
        commit = _commit(root, f"v{release}")
    return f"{release}+{commit}" if commit else release


def _commit(root: Path, tag: str) -> str:
    """Return the commit of a checkout, "" if that is the tag, without changes."""
    if not (root / ".git").exists():  # the repository around it would be another one
        return UNKNOWN
    words = ["git", "-C", str(root), "describe", "--always", "--long", "--dirty", "--match", tag]
    try:
        said = subprocess.run(words, capture_output=True, check=True, text=True).stdout.strip()  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    # v1.2.3-12-g1a2b3c4d5-dirty, or 1a2b3c4d5 if the tag is not there.
    clean = said.removesuffix("-dirty")
    if said.startswith(f"{tag}-0-") and clean == said:
        return ""
    commit = "g" + clean.rpartition("-")[2].removeprefix("g")
    return commit if clean == said else f"{commit}.dirty"


def _found(pattern: str, path: Path) -> str:
    found = re.search(pattern, path.read_text(), re.MULTILINE)
    if found is None:
        raise ValueError(f"{path}: no version")
    return found[1]
