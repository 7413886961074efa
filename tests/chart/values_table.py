"""
Generator of the table in helm/README.md, from values.yaml: `python -m tests.chart.values_table`.

The text above the table is written by hand and stays.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HELM: Final = Path(__file__).parents[2] / "helm"
CHART_README: Final = HELM / "README.md"
HEAD: Final = "| value | default | meaning |\n|---|---|---|\n"
LINE: Final = re.compile(r"(?P<indent> *)(?:# -- (?P<said>.*)|(?P<key>\w+):(?P<value> .*)?)")


def table() -> str:
    """Return the table: a row for each value that has a default on its line, or a comment."""
    rows = (
        f"| `{name}` | {f'`{default}`' if default else ''} | {said} |\n"
        for name, default, said in values()
        if default or said
    )
    return HEAD + "".join(rows)


def written() -> str:
    """Return the table in the file."""
    return HEAD + CHART_README.read_text().partition(HEAD)[2]


def values() -> Iterator[tuple[str, str, str]]:
    """Yield each value of values.yaml: its name with its parents, its default and its comment."""
    path: list[str] = []
    said = ""
    for line in (HELM / "values.yaml").read_text().splitlines():
        found = LINE.fullmatch(line)
        if not found:
            continue
        if found["said"]:
            said = found["said"]
            continue
        path = [*path[: len(found["indent"]) // 2], found["key"]]
        yield ".".join(path), (found["value"] or "").strip(), said
        said = ""


def _write() -> None:
    above = CHART_README.read_text().partition(HEAD)[0]
    CHART_README.write_text(above + table())


if __name__ == "__main__":
    _write()
