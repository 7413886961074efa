"""Pairwise rows: no pair of values is lost, and the slow lane gets every combination."""

import itertools

import pytest

from tests.e2e.pairs import EVERY, in_pairs, pairwise

WIDE = (list("abcdefghij"), list("xy"), list("12"), list("uv"), list("mnop"))


@pytest.mark.parametrize("columns", [WIDE, WIDE[:4], WIDE[:2], (["a"], ["b"], ["c"])])
def test_each_pair_of_values_occurs(columns: tuple[list[str], ...]) -> None:
    """Any two columns have all combinations of their values."""
    rows = pairwise(*columns)

    for one, other in itertools.combinations(range(len(columns)), 2):
        found = {(row[one], row[other]) for row in rows}
        assert found == set(itertools.product(columns[one], columns[other]))


@pytest.mark.parametrize(("given", "count"), [("1", 10 * 2 * 2 * 2 * 4), ("", 10 * 4)])
def test_the_slow_lane_runs_every_combination(
    given: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without REPLAY_TEST_ALL=1, the two longest columns set the number of rows."""
    monkeypatch.setenv(EVERY, given)
    names = ("variant", "continuity", "keeps", "store", "way")
    mark = in_pairs(**dict(zip(names, WIDE, strict=True)))

    assert mark.args[0] == names
    assert len(set(mark.args[1])) == len(mark.args[1]) == count
