"""Every row of the demand survey: refused without the proxy, and accepted or passed on with it."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.demand.notation import Item, Past, written
from tests.demand.rows import TABLE, Refused, Scenario
from tests.demand.table import cases, client_of, history, set_up, turn

ROWS = set(range(1, 59))


def expected(refused: Refused, past: Past, more: Mapping[str, Item]) -> str:
    """Return the expected message, with the ids of the items that it names."""
    items = written(refused.blamed, past, more)
    names = [item.get("id", "") for item in items]
    if refused.words.startswith("No tool"):
        names = [item["call_id"] for item in items]
    return refused.words.format(*map(re.escape, names))


@pytest.mark.parametrize(("scenario", "stream"), cases(TABLE))
async def test_without_the_proxy_it_is_refused(scenario: Scenario, *, stream: bool) -> None:
    """Upstream refuses with the words that users report, or accepts and the reasoning is lost."""
    async with client_of(scenario, stream=stream) as (api, client):
        past = await history(scenario, client, api.base_url)
        turn(scenario, api)
        sent = written(scenario.sent, past, scenario.more)
        answer = await client.send(api.base_url, client.last(sent, past))

    if scenario.refused is None:
        assert (answer.status, answer.said) == (200, "")
        assert not any(item.get("type") == "reasoning" for item in sent)
        return
    in_stream = stream and api.behaviour.quirks.refuses_by != "status"
    assert answer.status == (200 if in_stream else scenario.refused.status)
    words = expected(scenario.refused, past, scenario.more)
    assert re.match(words, answer.said), answer.said


@pytest.mark.parametrize(("scenario", "stream"), cases(s for s in TABLE if s.want is not None))
async def test_with_the_proxy_it_is_accepted(scenario: Scenario, *, stream: bool) -> None:
    """Upstream receives the expected items, in the expected number of attempts."""
    async with set_up(scenario, stream=stream) as stage:
        answer, tries = await stage.send()

    received = msgspec.convert(tries[-1].json, dict[str, Any])["input"]
    assert (answer.status, answer.said) == (200, "")
    assert received == written(scenario.want or "", stage.past, scenario.more)
    assert answer.mark.get("healed", "") == scenario.healed
    assert ("repaired" in answer.mark) == scenario.repaired
    assert len(tries) == scenario.tries


@pytest.mark.parametrize(("scenario", "stream"), cases(s for s in TABLE if s.want is None))
async def test_with_the_proxy_the_refusal_is_the_same(scenario: Scenario, *, stream: bool) -> None:
    """A refusal without a cure is passed on byte for byte, after one attempt."""
    async with set_up(scenario, stream=stream) as stage:
        answer, tries = await stage.send()
        straight = await stage.send_straight()

    assert answer.status == straight.status
    assert answer.said == straight.said != ""
    if not stream or stage.api.behaviour.quirks.refuses_by == "status":
        assert answer.raw == straight.raw
    assert [one.body for one in tries] == [stage.body]
    assert "healed" not in answer.mark


def test_every_row_of_the_survey_has_a_scenario() -> None:
    """No row is missing, and no scenario has an unknown row."""
    assert {scenario.row for scenario in TABLE} - {0} == ROWS


def test_every_scenario_has_a_unique_title() -> None:
    """Titles identify scenarios in reports of failed tests."""
    titles = [(scenario.row, scenario.title) for scenario in TABLE]
    assert len(titles) == len(set(titles))
