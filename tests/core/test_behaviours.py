"""The tables of docs/internals/what-comes-back.md match what the core does."""

import re

import pytest

from tests.core.behaviours import ROWS, SHORT_ROWS, tables, written
from tests.core.player import CELLS, Behaviour, Tally, play
from tests.core.world import Item, World


def test_the_tables_of_the_page_are_what_is_played() -> None:
    """The page is current; if this fails, run `python -m tests.core.behaviours`."""
    assert written() == tables()


def test_a_row_says_why_where_not_all_is_restored() -> None:
    """A row gives a reason if some reasoning is not injected, and only then."""
    rows = "".join(written()).splitlines()
    assert len(rows) == len(ROWS) + len(SHORT_ROWS)
    for row in rows:
        *cells, why = re.split(r" ?\| ?", row)[2:-1]
        restored = [cell.partition(" of ")[::2] for cell in cells if " of " in cell]
        assert restored
        assert bool(why) is any(of != due for of, due in restored), row


def test_the_player_tells_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasoning that stands before the wrong item is counted as wrong."""
    seen = World.seen

    def late(world: World, sent: bytes) -> list[Item]:
        items = seen(world, sent)
        for n in range(len(items) - 2, -1, -1):
            if items[n].get("type") == "reasoning":
                items[n : n + 2] = [items[n + 1], items[n]]
        return items

    monkeypatch.setattr(World, "seen", late)
    assert play(Behaviour(), CELLS[0]) == Tally(due=45, wrong=45)
