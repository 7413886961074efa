"""Soak of a few seconds: all parts run, and no bound is broken."""

import pytest

from tests.soak.hostile import kinds
from tests.soak.report import broken, table
from tests.soak.run import Options, soak

SECONDS = 3.0


@pytest.mark.usefixtures("own_redis")  # skips the test without a Redis
async def test_a_short_soak_breaks_no_bound() -> None:
    """Redis fails once, upstream now and then, one tenant is hostile, and no bound is broken."""
    options = Options(
        minutes=SECONDS / 60, seed="smoke", rate=40, share=0.1, outages_every_s=1.0, clients=12
    )
    result = await soak(options)
    assert broken(result) == [], table(result, options)
    assert result.counts["bytes compared"] > 0
    assert all(result.counts[f"hostile: {name}"] for name in kinds())
    assert not result.counts["hostile requests that broke off"]
