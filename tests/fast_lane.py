"""Fast lane: the part of costly tables and of random examples that `make test` runs."""

import itertools
import os
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import settings

__all__ = ["IS_EVERY", "each_value", "examples", "first", "slow"]

T = TypeVar("T")

# The slow lane, `make test-all`: it runs every combination.
IS_EVERY = os.environ.get("REPLAY_TEST_ALL") == "1"
# For a test whose rule has a smaller example in the fast lane, or belongs to a generated page.
slow = pytest.mark.skipif(not IS_EVERY, reason="only with REPLAY_TEST_ALL=1, as in make test-all")


def examples(count: int) -> settings:
    """Return settings for this number of random examples, and a quarter in the fast lane."""
    return settings(max_examples=count if IS_EVERY else max(10, count // 4))


def each_value(**values: Sequence[object]) -> pytest.MarkDecorator:
    """
    Parametrize a test so that each value occurs; in the slow lane, with every combination.

    Args:
        values: The values of each parameter, under the name of the parameter.
    """
    columns = list(values.values())
    most = max(map(len, columns))
    once = [tuple(column[n % len(column)] for column in columns) for n in range(most)]
    rows = list(itertools.product(*columns)) if IS_EVERY else once
    return pytest.mark.parametrize(tuple(values), rows)


def first(count: int, rows: Sequence[T]) -> Sequence[T]:
    """Return the first rows of a table that is costly to run, or all if REPLAY_TEST_ALL is 1."""
    return rows if IS_EVERY else rows[:count]
