"""The page on design says which parts of the product know the dialects by name."""

import ast
import re
from pathlib import Path

from reasoning_replay.core.dialects.registry import DIALECTS
from reasoning_replay.settings.model import Settings

from tests.docs.page_tables import PACKAGE, ROOT, section_of

FOLDERS = {entry.name: entry.make.__module__.split(".")[-2] for entry in DIALECTS}


def words_of(path: Path) -> set[str]:
    """Return the texts and the names in a module, and the parts of what it imports."""
    words: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            words.add(node.value)
        elif isinstance(node, ast.Name):
            words.add(node.id.lower())
        elif isinstance(node, ast.ImportFrom):
            words |= {*(node.module or "").split("."), *(name.name for name in node.names)}
    return words


def place_of(path: Path) -> str:
    """Return a module of the core, or the package outside of it."""
    path = path.relative_to(PACKAGE)
    return str(path) if path.parts[0] == "core" else path.parts[0]


def test_the_page_names_who_knows_all_dialects_by_name() -> None:
    """A further one would have to be added there, and nowhere else."""
    knowing = {
        place_of(path)
        for path in PACKAGE.rglob("*.py")
        if all({name, folder} & words_of(path) for name, folder in FOLDERS.items())
    }
    words = section_of("internals/design.md", "## Dialects").partition("**A new dialect**")[2]
    told = set(re.findall(r"`([a-z_/.]+)`", words.partition("\n\n")[0]))
    assert "core/dialects/registry.py" in knowing
    assert knowing <= told


def test_each_part_of_a_dialect_is_in_its_folder() -> None:
    """The entry leads to them, and no other dialect imports it; the settings exist."""
    contracts = (ROOT / "pyproject.toml").read_text()
    for entry in DIALECTS:
        folder = PACKAGE / "core/dialects" / FOLDERS[entry.name]
        assert {"client.py", "dialect.py", "profiles.py"} <= {one.name for one in folder.iterdir()}
        assert entry.client.read.__module__.endswith(f"{folder.name}.client")
        assert entry.kinds.__module__.endswith(f"{folder.name}.heal.diagnosis")
        assert f'"reasoning_replay.core.dialects.{folder.name}",' in contracts
        assert set(entry.settings) <= set(Settings.model_fields)
