"""Switches of repair and healing: each works without the other."""

from typing import Any

import msgspec
import pytest

from tests.demand.notation import written
from tests.demand.rows import TABLE, Scenario
from tests.demand.table import cases, set_up

REPAIRED = [scenario for scenario in TABLE if scenario.repaired]


@pytest.mark.parametrize(("scenario", "stream"), cases(REPAIRED))
@pytest.mark.parametrize(
    ("settings", "tries"),
    [
        pytest.param({"repairs": "none"}, 2, id="healed-instead"),
        pytest.param({"heal": "off"}, 1, id="repaired-alone"),
    ],
)
async def test_either_switch_alone_is_enough(
    scenario: Scenario, settings: dict[str, str], tries: int, *, stream: bool
) -> None:
    """A repair before the first attempt gives the same request as the cure after a refusal."""
    async with set_up(scenario, stream=stream, **settings) as stage:
        answer, received = await stage.send()

    final = msgspec.convert(received[-1].json, dict[str, Any])["input"]
    assert (answer.status, answer.said) == (200, "")
    assert final == written(scenario.want or "", stage.past, scenario.more)
    assert len(received) == tries
    assert ("healed" in answer.mark, "repaired" in answer.mark) == (tries == 2, tries == 1)


@pytest.mark.parametrize(("scenario", "stream"), cases(REPAIRED))
async def test_without_both_the_refusal_is_passed_on(scenario: Scenario, *, stream: bool) -> None:
    """The proxy then only injects reasoning."""
    async with set_up(scenario, stream=stream, repairs="none", heal="off") as stage:
        answer, _ = await stage.send()
        straight = await stage.send_straight()

    assert (answer.status, answer.raw) == (straight.status, straight.raw)
    assert scenario.refused is not None
    assert straight.status == scenario.refused.status
