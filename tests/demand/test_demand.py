"""Every row of the demand survey: refused without the proxy, served with it, or left alone."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.demand.notation import Item, Past, written
from tests.demand.scenario import Refused, Scenario
from tests.demand.table import TABLE, cases, client_of, history, one_of_each, set_up, turn

ROWS = set(range(1, 59))


def expected(refused: Refused, past: Past, more: Mapping[str, Item]) -> str:
    """The words that are expected, with the ids of the items that they name."""
    items = written(refused.blamed, past, more)
    names = [item.get("id", "") for item in items]
    if refused.words.startswith("No tool"):
        names = [item["call_id"] for item in items]
    return refused.words.format(*map(re.escape, names))


@pytest.mark.parametrize(("scenario", "stream"), cases(TABLE))
async def test_without_the_proxy_it_is_refused(scenario: Scenario, *, stream: bool) -> None:
    """In the words that users report; or it is served, and the reasoning is lost."""
    async with client_of(scenario, stream=stream) as (standin, client):
        past = await history(scenario, client, standin.base_url)
        turn(scenario, standin)
        sent = written(scenario.sent, past, scenario.more)
        answer = await client.send(standin.base_url, client.last(sent, past))

    if scenario.refused is None:
        assert (answer.status, answer.said) == (200, "")
        assert not any(item.get("type") == "reasoning" for item in sent)
        return
    in_stream = stream and standin.behaviour.quirks.refuses_by != "status"
    assert answer.status == (200 if in_stream else scenario.refused.status)
    words = expected(scenario.refused, past, scenario.more)
    assert re.match(words, answer.said), answer.said


@pytest.mark.parametrize(("scenario", "stream"), cases(s for s in TABLE if s.want is not None))
async def test_what_upstream_shall_receive_is_what_it_serves(
    scenario: Scenario, *, stream: bool
) -> None:
    """The table asks for cures: sent by the client itself, each would have been served."""
    async with client_of(scenario, stream=stream) as (standin, client):
        past = await history(scenario, client, standin.base_url)
        turn(scenario, standin)
        cure = written(scenario.want or "", past, scenario.more)
        answer = await client.send(standin.base_url, client.last(cure, past))

    assert (answer.status, answer.said) == (200, "")


@pytest.mark.parametrize(("scenario", "stream"), cases(s for s in TABLE if s.want is not None))
async def test_with_the_proxy_it_is_served(scenario: Scenario, *, stream: bool) -> None:
    """Upstream receives what it wants, in as few tries as that takes, and nothing else."""
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
    """What cannot be cured without inventing passes: one try, every byte as upstream wrote it."""
    async with set_up(scenario, stream=stream) as stage:
        answer, tries = await stage.send()
        straight = await stage.send_straight()

    assert answer.status == straight.status
    assert answer.said == straight.said != ""
    if not stream or stage.standin.behaviour.quirks.refuses_by == "status":
        assert answer.raw == straight.raw
    assert [one.body for one in tries] == [stage.body]
    assert "healed" not in answer.mark


@pytest.mark.parametrize(("scenario", "stream"), cases(one_of_each()))
async def test_tokens_are_counted_of_what_would_be_served(
    scenario: Scenario, *, stream: bool
) -> None:
    """`input_tokens` has the same rules, and so the same cures."""
    path = "/responses/input_tokens"
    async with set_up(scenario, stream=stream) as stage:
        answer, tries = await stage.send(path)

    received = msgspec.convert(tries[-1].json, dict[str, Any])["input"]
    assert (answer.status, answer.said, tries[-1].path) == (200, "", "/v1" + path)
    assert received == written(scenario.want or "", stage.past, scenario.more)


def test_every_row_of_the_survey_has_a_scenario() -> None:
    """None is forgotten, and none is made up."""
    assert {scenario.row for scenario in TABLE} - {0} == ROWS


def test_every_scenario_is_told_from_the_others() -> None:
    """Titles name them, in failures too."""
    titles = [(scenario.row, scenario.title) for scenario in TABLE]
    assert len(titles) == len(set(titles))
