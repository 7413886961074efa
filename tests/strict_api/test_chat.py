"""The chat API refuses and accepts the same requests as DeepSeek's API."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.strict_api import Item, StrictApi
from reasoning_replay.strict_api.chat import MISSING

from tests.e2e.agent import Way
from tests.e2e.chat_agent import ChatAgent
from tests.strict_api import scripted
from tests.strict_api.scripted import ASK, MODELS, listening


@pytest.fixture
async def upstream() -> AsyncIterator[StrictApi]:
    """A scripted upstream that listens."""
    async with listening("chat") as upstream:
        yield upstream


async def ask(upstream: StrictApi, *messages: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the message, or the text of the error."""
    return await scripted.ask(upstream, "chat", *messages, **more)


def without(message: Item) -> Item:
    """Return a message without its reasoning."""
    return {name: message[name] for name in message if name != "reasoning_content"}


def results(message: Item) -> list[Item]:
    """Return a result for each call of a message."""
    calls = message["tool_calls"]
    return [{"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in calls]


async def test_the_key_is_demanded_in_the_current_round(upstream: StrictApi) -> None:
    """Null is absent, an empty text is not, and a new question exempts earlier rounds."""
    _, message = await ask(upstream, ASK)
    bare = without(message)
    for lacking in (bare, {**bare, "reasoning_content": None}):
        assert await ask(upstream, ASK, lacking, *results(message)) == (400, MISSING.words)
    assert (await ask(upstream, ASK, message, *results(message)))[0] == 200
    empty = {**bare, "reasoning_content": ""}
    assert (await ask(upstream, ASK, empty, *results(message)))[0] == 200
    assert (await ask(upstream, ASK, bare, *results(message), ASK))[0] == 200


@pytest.mark.parametrize("more", [{"tools": []}, {"thinking": {"type": "disabled"}}])
async def test_without_tools_or_thinking_nothing_is_demanded(
    upstream: StrictApi, more: dict[str, Any]
) -> None:
    """A history without reasoning is accepted then."""
    _, message = await ask(upstream, ASK)
    status, answer = await ask(upstream, ASK, without(message), *results(message), **more)
    assert status == 200
    assert ("reasoning_content" in answer) == ("thinking" not in more)


@pytest.mark.parametrize("way", ["sync", "async-stream"])
async def test_with_low_effort_it_calls_without_a_thought(upstream: StrictApi, way: Way) -> None:
    """As in DeepSeek's answers, the key is there, with an empty text, and it is demanded."""
    more = {"reasoning_effort": "low"}
    async with ChatAgent(upstream.base_url, MODELS["chat"], way, "everything", more) as agent:
        await agent.converse(["Where does it rain?"])
    *calling, last = [one for one in agent.history if one["role"] == "assistant"]
    assert [one["reasoning_content"] for one in calling] == ["", ""]
    assert last["reasoning_content"]

    bare = without(calling[0])
    assert await ask(upstream, ASK, bare, *results(bare), **more) == (400, MISSING.words)
