"""Fast lane: the part of costly tables and of random examples that `make test` runs."""

import itertools
import os
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import settings

__all__ = ["IS_EVERY", "examples", "first", "in_pairs", "pairwise", "slow"]

Row = tuple[str, ...]
T = TypeVar("T")

# The slow lane, `make test-all`: it runs every combination.
IS_EVERY = os.environ.get("REPLAY_TEST_ALL") == "1"
# For a test whose rule has a smaller example in the fast lane, or belongs to a generated page.
slow = pytest.mark.skipif(not IS_EVERY, reason="only with REPLAY_TEST_ALL=1, as in make test-all")


def examples(count: int) -> settings:
    """Return settings for this number of random examples, and a quarter in the fast lane."""
    return settings(max_examples=count if IS_EVERY else max(10, count // 4))


def in_pairs(**values: Sequence[str]) -> pytest.MarkDecorator:
    """
    Parametrize a test with pairwise rows, or with every combination if REPLAY_TEST_ALL is 1.

    Pairs are enough for the fast lane because the parameters of these tests act on separate parts:
    the items on the matching, `keeps` on the evidence, `store` on what the proxy asks for, the way
    on the transport. A defect appears with one value or where two of these parts meet. One that
    needs three values is left to the slow lane.

    Args:
        values: The values of each parameter, under the name of the parameter.
    """
    columns = list(values.values())
    rows = list(itertools.product(*columns)) if IS_EVERY else pairwise(*columns)
    return pytest.mark.parametrize(tuple(values), rows)


def first(count: int, rows: Sequence[T]) -> Sequence[T]:
    """Return the first rows of a table that is costly to run, or all if REPLAY_TEST_ALL is 1."""
    return rows if IS_EVERY else rows[:count]


def pairwise(*columns: Sequence[str]) -> list[Row]:
    """
    Return rows in which each value of a column occurs with each value of every other column.

    It is the greedy algorithm: the next row has the most pairs that no earlier row has. The same
    columns give the same rows, so that all pytest workers collect the same tests.

    Args:
        columns: At least two columns; no column has a value twice.
    """
    pairs = {
        row: set(itertools.combinations(enumerate(row), 2)) for row in itertools.product(*columns)
    }
    missing = set().union(*pairs.values())
    rows: list[Row] = []
    while missing:
        best = max(pairs, key=lambda row: len(pairs[row] & missing))  # the first of equal ones
        rows.append(best)
        missing -= pairs[best]
    return rows
