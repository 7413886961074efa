"""After a cure: what the proxy learned saves the next second attempt, and the session continues."""

import pytest

from tests.demand.notation import Item
from tests.demand.rows import TABLE, Scenario
from tests.demand.table import cases, set_up

NEXT: Item = {"role": "user", "content": "And on Monday?"}
STATEFUL = {"previous_response_id", "conversation"}

REFUSED_BLOBS = [
    scenario
    for scenario in TABLE
    if scenario.healed in {"blob", "no_reasoning_model"} and scenario.row != 36
]
"""Without row 36: its ids were at fault, and its blobs are kept."""
GOING_ON = [
    scenario
    for scenario in TABLE
    if scenario.want is not None and STATEFUL.isdisjoint({*scenario.body, *scenario.last})
]


@pytest.mark.parametrize(("scenario", "stream"), cases(REFUSED_BLOBS))
async def test_a_refused_blob_is_not_sent_again(scenario: Scenario, *, stream: bool) -> None:
    """Upstream names one blob at a time; after a request for each, the next is accepted at once."""
    async with set_up(scenario, stream=stream) as stage:
        for _ in range(max(1, scenario.sent.count("r"))):
            answer, _ = await stage.send()
            assert (answer.status, answer.said) == (200, "")
        answer, tries = await stage.send()

    assert (answer.status, answer.said, len(tries)) == (200, "", 1)


@pytest.mark.parametrize(("scenario", "stream"), cases(GOING_ON))
async def test_a_session_continues(scenario: Scenario, *, stream: bool) -> None:
    """The client appends the response to its history, and its next request is accepted."""
    async with set_up(scenario, stream=stream) as stage:
        answer, _ = await stage.send()
        assert (answer.status, answer.said) == (200, "")

        kept = stage.client.kept(answer.raw)
        going_on = stage.client.last([*stage.sent, *kept, NEXT], stage.past)
        before = len(stage.api.received)
        answer = await stage.client.send(stage.proxy, going_on)

    assert (answer.status, answer.said) == (200, "")
    assert len(stage.api.received) - before <= 2
