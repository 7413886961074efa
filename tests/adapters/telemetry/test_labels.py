"""No label grows without end, whatever upstream sends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reasoning_replay.adapters.telemetry.labels import ENDED, ROUTES, status_label, usual_status


@pytest.mark.parametrize(
    ("status", "label"),
    [
        (200, "200"),
        (429, "429"),
        (503, "503"),
        (299, "2xx"),
        (418, "4xx"),
        (599, "5xx"),
        (799, "other"),
        (99, "other"),
        (0, "none"),
    ],
)
def test_usual_statuses_are_told_apart(status: int, label: str) -> None:
    """And all others by their class."""
    assert status_label(status) == label


@given(st.integers())
def test_there_are_a_few_dozen_labels(status: int) -> None:
    """Of any number: so many that each can be a series."""
    known = {status_label(number) for number in range(1000)}
    assert status_label(status) in known
    assert len(known) < 50


def test_what_is_usual_is_one_of_them() -> None:
    """So that a series that exists from the start is one that goes on."""
    known = {status_label(number) for number in range(1000)}
    assert {usual_status(route, outcome) for route in ROUTES for outcome in ENDED} <= known
