"""Markdown pages: their sections, their tables, and the names that they contain."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "proxy/reasoning_replay"

Row = list[str]


def section_of(page: str, heading: str = "") -> str:
    """Return the text below a heading of a page of docs/, up to the next one of its level."""
    text = (DOCS / page).read_text()
    if not heading:
        return text
    level = heading.partition(" ")[0]
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"{page} has no {heading!r}"
    return re.split(rf"^#{{1,{len(level)}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def rows_of(page: str, heading: str = "") -> list[Row]:
    """Return the cells of each row of the tables in a section, without the head of the table."""
    rows = []
    before = ""
    for line in section_of(page, heading).splitlines():
        is_row = line.startswith("|") and not set(line) <= set("|-: ")
        if is_row and before.startswith("|"):  # the first line of a table is its head
            rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        before = line
    return rows


def names_in(text: str) -> list[str]:
    """Return the words in backticks that are a single name each."""
    return re.findall(r"`(\w+)`", text)


def first_names(page: str, heading: str = "") -> list[str]:
    """Return the names in the first cells of the tables in a section."""
    return [name for row in rows_of(page, heading) for name in names_in(row[0])]
