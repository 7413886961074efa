"""After a cure: what the proxy learned saves the next second attempt, and the session continues."""

import json
from typing import Any

import pytest

from tests.demand.client import Client
from tests.demand.notation import Item, written
from tests.demand.scenario import Scenario
from tests.demand.table import TABLE, cases, client_of, history, set_up
from tests.e2e.proxies import proxied
from tests.standin import StandIn

NEXT: Item = {"role": "user", "content": "And on Monday?"}
INCLUDE = "reasoning.encrypted_content"
OTHER = "file_search_call.results"
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


async def send_to(
    standin: StandIn, client: Client, base_url: str, body: bytes
) -> tuple[int, str, int]:
    """Send a request; return its status, its error, and the number of requests at upstream."""
    before = len(standin.received)
    answer = await client.send(base_url, body)
    return answer.status, answer.said, len(standin.received) - before


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
        status, said, tries = await send_to(stage.standin, stage.client, stage.proxy, going_on)

    assert (status, said) == (200, "")
    assert tries <= 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_damaged_copy_does_not_evict_the_original(stream: bool) -> None:
    """The refusal of the client's copy does not prevent the injection of the captured original."""
    scenario = next(one for one in TABLE if one.row == 1 and one.made == "proxied")
    async with (
        client_of(scenario, stream=stream) as (standin, client),
        proxied(standin) as proxy,
    ):
        past = await history(scenario, client, proxy)
        damaged = client.last(written("u1 r1:damaged c1 o1", past, {}), past)
        dropped = client.last(written("u1 c1 o1", past, {}), past)
        first = await send_to(standin, client, proxy, damaged)
        second = await send_to(standin, client, proxy, dropped)
        received = json.loads(standin.received[-1].body)["input"]

    assert first == (200, "", 2)
    assert second == (200, "", 1)
    assert received == written("u1 r1 c1 o1", past, {})


@pytest.mark.parametrize("stream", [False, True])
async def test_the_refused_include_value_is_removed(stream: bool) -> None:
    """Only that value is removed from `include`; the rest of the request stays unchanged."""
    scenario = next(one for one in TABLE if not one.body and not one.last)
    async with (
        client_of(scenario, stream=stream) as (standin, client),
        proxied(standin) as proxy,
    ):
        asked: dict[str, Any] = {"model": "acme-plain", "include": [OTHER, INCLUDE]}
        body = client.request([NEXT], **asked)
        straight = await client.send(standin.base_url, body)
        before = len(standin.received)
        answer = await client.send(proxy, body)
        tries = [one.json for one in standin.received[before:]]

    assert straight.said == "Encrypted content is not supported with this model."
    assert (answer.status, answer.mark.get("healed")) == (200, "include")
    assert tries == [json.loads(body), json.loads(body) | {"include": [OTHER]}]
