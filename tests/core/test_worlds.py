"""Never invent, and a stable prefix: laws over random worlds whose clients do what clients do."""

import pytest

from tests.core.worlds import play

# Seeds are fixed, so that a run says the same each time; `python -m tests.core.worlds` plays more.
WORLDS = [range(first, first + 60) for first in range(0, 300, 60)]


@pytest.mark.parametrize("numbers", WORLDS, ids=str)
def test_nothing_wrong_is_injected_and_no_prefix_moves(numbers: range) -> None:
    """Counted ids, repeated words, lost turns, forks, retries, windows, clocks, failing lookups."""
    counts, faults = play(numbers)

    assert faults == []
    assert counts["injected", "all"] > 2000


def test_most_of_what_is_due_is_injected() -> None:
    """By kind of client; where all that is said is short, less is safe."""
    counts, _ = play(range(300))

    shares = {
        kind: counts["injected", kind] / counts["due", kind]
        for kind in ("all", "tool loop, ids kept", "tool loop, ids dropped", "plain chat, ids kept")
    }
    assert shares["all"] > 0.85
    assert shares["tool loop, ids kept"] > 0.93
    assert shares["tool loop, ids dropped"] > 0.84
    assert shares["plain chat, ids kept"] > 0.93
