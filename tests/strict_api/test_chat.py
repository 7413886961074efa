"""The chat API refuses and accepts the same requests as DeepSeek's API."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from reasoning_replay.strict_api import Item, StrictApi
from reasoning_replay.strict_api.chat import MISSING
from reasoning_replay.wires import WIRES

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
    more, model = {"reasoning_effort": "low"}, MODELS["chat"]
    async with ChatAgent(upstream.base_url, way, "everything", more, model=model) as agent:
        await agent.converse(["Where does it rain?"])
    *calling, last = [one for one in agent.history if one["role"] == "assistant"]
    assert [one["reasoning_content"] for one in calling] == ["", ""]
    assert last["reasoning_content"]

    bare = without(calling[0])
    assert await ask(upstream, ASK, bare, *results(bare), **more) == (400, MISSING.words)


# (model, a text of the refusal of a history without its reasoning; "" where none is demanded)
VENDORS = [
    pytest.param("gemini-3.8-flash", "Function call is missing a thought_signature", id="google"),
    pytest.param(
        "google/gemini-3.1-pro-preview", "OpenRouter reasoning details", id="openrouter-google"
    ),
    pytest.param("anthropic/claude-sonnet-4.5", "", id="openrouter-anthropic"),
    pytest.param("openai/gpt-5.4", "", id="openrouter-openai"),
    pytest.param("openai/gpt-oss-120b", "", id="groq"),
    pytest.param("zai-glm-4.7", "", id="cerebras"),
    pytest.param("claude-sonnet-4-5", "", id="litellm"),
]


@pytest.mark.parametrize(("model", "words"), VENDORS)
async def test_each_vendor_demands_its_own_form(
    upstream: StrictApi, model: str, words: str
) -> None:
    """What it emitted is accepted; without the reasoning, some refuse and all notice."""
    wire = WIRES["chat"]
    _, answer = await scripted.post(upstream, "chat", ASK, model=model)
    reply = wire.read(answer)
    results = wire.results(reply.calls, "rain")
    assert (await scripted.post(upstream, "chat", ASK, *reply.said, *results, model=model))[
        0
    ] == 200
    status, refused = await scripted.post(upstream, "chat", ASK, *reply.kept, *results, model=model)
    assert (status, words in json.dumps(refused)) == (400 if words else 200, True)
    _, whole, lost = [one.judgement for one in upstream.exchanges]
    assert whole is not None
    assert whole.lost == []
    assert lost is not None
    assert {one.state for one in lost.lost} == {"missing"}
