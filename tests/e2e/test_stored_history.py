"""Responses that upstream stores: they work as without the proxy."""

from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI

from tests.e2e.agent import MARK, MODEL
from tests.e2e.proxies import proxied
from tests.strict import StrictResponses

ASK = "Where does it rain today?"


@pytest.fixture
async def api() -> AsyncIterator[StrictResponses]:
    """An upstream that responds at once."""
    async with StrictResponses("message") as server:
        yield server


@pytest.fixture
async def sdk(api: StrictResponses) -> AsyncIterator[AsyncOpenAI]:
    """The SDK as an application configures it, with only the base URL changed."""
    async with (
        proxied(api) as base_url,
        AsyncOpenAI(base_url=base_url, api_key="sk-a", max_retries=0) as client,
    ):
        yield client


async def test_a_stored_response_is_retrieved_counted_and_deleted(sdk: AsyncOpenAI) -> None:
    """A stored response can be retrieved, also as a stream, counted and deleted."""
    made = await sdk.responses.create(model=MODEL, input=ASK)
    again = await sdk.responses.retrieve(made.id)
    assert (again.id, again.output_text) == (made.id, made.output_text)

    told = await sdk.responses.retrieve(made.id, stream=True)
    assert [event.type async for event in told][-1] == "response.completed"
    counted = await sdk.responses.input_tokens.count(model=MODEL, input=ASK)
    assert counted.input_tokens > 0
    await sdk.responses.delete(made.id)
    with pytest.raises(Exception, match="not found"):
        await sdk.responses.retrieve(made.id)


async def test_server_side_history_is_not_touched(sdk: AsyncOpenAI, api: StrictResponses) -> None:
    """A request with `previous_response_id` needs no replay and arrives unchanged."""
    made = await sdk.responses.create(model=MODEL, input=ASK)
    raw = await sdk.responses.with_raw_response.create(
        model=MODEL, input="And tomorrow?", previous_response_id=made.id
    )
    assert raw.headers[MARK] == "injected=0, asked=stateful"
    assert api.received[-1].body == raw.http_request.content
    assert api.received[-1].json == {
        "model": MODEL,
        "input": "And tomorrow?",
        "previous_response_id": made.id,
    }


async def test_the_streaming_helper(sdk: AsyncOpenAI) -> None:
    """`responses.stream` assembles a response from the forwarded events."""
    async with sdk.responses.stream(model=MODEL, input=ASK) as events:
        text = "".join([e.delta async for e in events if e.type == "response.output_text.delta"])
        final = await events.get_final_response()
    assert final.output_text == text != ""
