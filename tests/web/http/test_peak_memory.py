"""Peak memory of a real process under many long requests: the documented formula holds."""

import sys

import pytest

from tests.burst import burst
from tests.fast_lane import slow

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
MIB = 1 << 20
BODY_BYTES = 4_000_000
# docs/operations.md: what processing takes in addition to the budget.
PROCESSING_BYTES = 192 * MIB


async def test_requests_that_wait_for_upstream_are_held_once() -> None:
    """Each waiting request adds its own size to the peak, also if something is added to it."""
    few = await burst(5, BODY_BYTES, holds=True)
    many = await burst(30, BODY_BYTES, holds=True)

    assert many.marks.total() == 30
    assert not [mark for mark in many.marks if "busy" in mark]
    # Held twice, it would be 2 and more.
    assert (many.peak_bytes - few.peak_bytes) / (25 * BODY_BYTES) < 1.75
    assert many.after_bytes - many.before_bytes < 30 * BODY_BYTES


@slow
async def test_the_peak_is_within_the_budget_and_what_processing_takes() -> None:
    """Many times the budget, at once and packed, does not exceed the documented sum."""
    got = await burst(
        60, BODY_BYTES, is_packed=True, answer_bytes=1_000_000, inspect_total_max_bytes=32 * MIB
    )

    assert got.marks.total() == 60
    assert got.peak_bytes - got.before_bytes < 32 * MIB + PROCESSING_BYTES
