"""Independence of the stand-in: it judges the proxy, so it shares no code with it."""

import ast
from pathlib import Path

import pytest

MODULES = [path for path in Path(__file__).parent.rglob("*.py") if path.name[:5] != "test_"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_it_imports_nothing_of_the_proxy(path: Path) -> None:
    """The modules of the stand-in import only each other, the strict API, and libraries."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(node.module or "")
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    of_proxy = {name for name in found if name.startswith("reasoning_replay")}
    assert all(name.startswith("reasoning_replay.strict_api") for name in of_proxy)
    assert {name for name in found if name.startswith("tests")} <= {
        name for name in found if name == "tests.standin" or name.startswith("tests.standin.")
    }
