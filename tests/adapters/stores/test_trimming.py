"""Trimming drops whole turns, the oldest first and several at once, beyond the bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.stores.base import Bounds
from reasoning_replay.adapters.stores.trimming import what_to_drop


def sizes_of(*turns: list[int], ids: int = 1 << 16) -> dict[bytes, int]:
    """
    Return the sizes in bytes of records by name, in order of their turns, oldest first.

    Args:
        turns: Sizes of the records of each turn.
        ids: Number of turn ids; after that many turns, the first id is used again.
    """
    return {
        n.to_bytes(8) + (n % ids).to_bytes(16) + bytes([m]): size
        for n, turn in enumerate(turns)
        for m, size in enumerate(turn)
    }


# (sizes of the records of each turn, limit of turns, limit in bytes, number of turns that are left)
CASES = [
    pytest.param([], 1, 1, 0, id="nothing"),
    pytest.param([[10, 10]] * 10, 10, 200, 10, id="at-the-bounds"),
    pytest.param([[10, 10]] * 11, 10, 1000, 9, id="a-turn-too-many"),
    pytest.param([[10, 10]] * 11, 100, 200, 9, id="too-many-bytes"),
    pytest.param([[5], [500, 500]], 10, 100, 1, id="the-newest-is-kept"),
    pytest.param([[1], [150], [1], [1]], 10, 100, 2, id="no-turn-before-a-gap"),
]


@pytest.mark.parametrize(("turns", "max_turns", "max_bytes", "left"), CASES)
def test_the_oldest_turns_are_dropped(
    turns: list[list[int]], max_turns: int, max_bytes: int, left: int
) -> None:
    """Trimming leaves at most nine tenths of the bounds."""
    drop = what_to_drop(sizes_of(*turns), Bounds(1, max_turns, max_bytes))

    assert sorted(drop) == sorted(sizes_of(*turns[: len(turns) - left]))


def test_replaced_turns_are_dropped_first() -> None:
    """If an upstream reuses its ids, replaced turns are dropped before any usable one."""
    sizes = sizes_of(*[[10, 10]] * 12, ids=8)

    assert what_to_drop(sizes, Bounds(1, 12, 1000)) == []
    assert sorted(what_to_drop(sizes, Bounds(1, 11, 1000))) == sorted(sizes_of(*[[10, 10]] * 4))
    assert len(what_to_drop(sizes, Bounds(1, 7, 1000))) == 2 * (4 + 1)


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=3), max_size=12),
    st.integers(1, 12),
    st.integers(1, 300),
    st.integers(1, 12),
)
def test_the_remaining_turns_are_within_the_bounds(
    turns: list[list[int]], most: int, max_bytes: int, ids: int
) -> None:
    """The bounds hold after one trim, so a second one drops nothing."""
    bounds = Bounds(1, most, max_bytes)
    sizes = sizes_of(*turns, ids=ids)
    left = {name: size for name, size in sizes.items() if name not in what_to_drop(sizes, bounds)}
    names = {name[:24] for name in left}

    assert len(names) <= most
    assert sum(left.values()) <= max_bytes or len(names) == 1
    assert len(names) >= min(1, len(turns))
    assert len(names) == 1 or what_to_drop(left, bounds) == []
