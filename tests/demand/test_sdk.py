"""The official SDK: it raises without the proxy, and gets a response with it."""

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.responses import Response

from tests.demand.rows import Scenario
from tests.demand.table import cases, one_of_each, set_up


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

        assert found in stage.standin.ledger._turns
