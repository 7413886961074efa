"""Decided: what is kept of items that are not read again."""

from reasoning_replay.core.history.decided import Run

from tests.core.history.test_item_index import read_of
from tests.core.world import call, message


def test_a_run_says_the_same_without_its_items() -> None:
    """Its traces, and its characters, of which equal content counts once."""
    items = [read_of(message(n, "It is sunny.")) for n in "ab"]
    run = Run([*items, read_of(call("c"))])
    kept = run.kept()

    assert (len(kept.items), kept.traces, kept.chars) == (0, run.traces, run.chars)
    assert kept.kept().chars == len("It is sunny.") + read_of(call("c")).chars
