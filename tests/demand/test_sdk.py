"""The official SDK: it raises without the proxy, and gets a response with it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from tests.demand.notation import written
from tests.demand.scenario import Scenario
from tests.demand.table import TABLE, cases, client_of, history, one_of_each, set_up
from tests.e2e.proxies import proxied

PASSING = [scenario for scenario in TABLE if scenario.want is None and scenario.row in (15, 57)]


@pytest.fixture
async def sdk() -> AsyncIterator[AsyncOpenAI]:
    """A client without retries; each request names its base URL."""
    async with AsyncOpenAI(
        base_url="http://127.0.0.1:1", api_key="sk-demand", max_retries=0
    ) as one:
        yield one


async def ask(sdk: AsyncOpenAI, base_url: str, body: bytes) -> str:
    """Send a body as a user of the SDK does, and return the id of the response."""
    client = sdk.with_options(base_url=base_url)
    request: dict[str, Any] = json.loads(body)
    if not request.pop("stream"):
        made: Response = await client.responses.create(**request)
        return made.id
    events = [event async for event in await client.responses.create(**request, stream=True)]
    assert events[-1].type == "response.completed"
    return str(events[-1].response.id)


@pytest.mark.parametrize(("scenario", "stream"), cases(one_of_each()))
async def test_the_sdk_gets_a_response_through_the_proxy(
    sdk: AsyncOpenAI, scenario: Scenario, *, stream: bool
) -> None:
    """The response is one that upstream made; without the proxy the SDK raises an error."""
    async with set_up(scenario, stream=stream) as stage:
        if scenario.refused is not None:
            with pytest.raises(openai.APIStatusError):
                await ask(sdk, stage.standin.base_url, stage.body)
        found = await ask(sdk, stage.proxy, stage.body)

        assert stage.standin.has_emitted(found)


@pytest.mark.parametrize(("scenario", "stream"), cases(PASSING))
async def test_the_sdk_raises_the_same_error_if_there_is_no_cure(
    sdk: AsyncOpenAI, scenario: Scenario, *, stream: bool
) -> None:
    """The exceptions have the same class, status and body."""
    async with (
        client_of(scenario, stream=stream) as (standin, client),
        proxied(standin) as proxy,
    ):
        past = await history(scenario, client, standin.base_url)
        body = client.last(written(scenario.sent, past, scenario.more), past)
        raised = []
        for base_url in (standin.base_url, proxy):
            with pytest.raises(openai.APIStatusError) as caught:
                await ask(sdk, base_url, body)
            raised.append(caught.value)

    straight, through = raised
    assert type(straight) is type(through)
    assert straight.response.content == through.response.content
