"""Behaviours against a strict upstream: the proxy never adds a refusal, and cures those it can."""

import itertools
from collections.abc import Sequence

import aiohttp
import pytest

from tests.demand.behaviours import SHAPES, Habit, play
from tests.e2e.proxies import proxied
from tests.fast_lane import first
from tests.standin import Quirks, StandIn
from tests.standin.variants import Variant

LOOPS: Sequence[Variant] = (
    "preamble",
    "announced",
    "parallel",
    "hosted",
    "searched",
    "empty_text",
    "no_parts",
)
HABITS = [Habit(*each) for each in itertools.product(SHAPES, (True, False), (True, False))]


@pytest.mark.parametrize("loop", first(1, LOOPS))
async def test_no_behaviour_ends_in_a_refusal(loop: Variant) -> None:
    """What passes straight passes, and what the client broke is cured: all of it was captured."""
    standin = StandIn()
    standin.behaviour.variant = loop
    standin.behaviour.always_encrypted = True
    standin.behaviour.quirks = Quirks(reads_blobs=True)
    worse, refused = list[str](), list[str]()
    async with standin, proxied(standin) as proxy, aiohttp.ClientSession() as session:
        for habit in HABITS:
            played = await play(session, standin.base_url, proxy, habit)
            worse += [str(habit) for one in played if one.straight == 200 != one.proxied]
            refused += [str(habit) for one in played if one.proxied != 200]

    assert worse == []
    assert refused == []
