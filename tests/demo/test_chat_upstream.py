"""The demo's chat upstream refuses and accepts the same requests as DeepSeek's API."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from openai import BadRequestError
from reasoning_replay.demo import scripted_api
from reasoning_replay.demo.chat_model import CHAT_API, NO_REASONING
from reasoning_replay.demo.scripted_api import NO_MESSAGES, Message, ScriptedApi
from reasoning_replay.demo.scripted_steps import ANSWER, CALLS

from tests.e2e.agent import Way
from tests.e2e.chat_agent import CHAT_TOOLS, ChatAgent

MODEL = "deepseek-v4-flash"
ASK: Message = {"role": "user", "content": "Where does it rain?"}
QUESTIONS = ("Where does it rain today?", "And tomorrow?")


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedApi]:
    """A scripted upstream that listens."""
    async with ScriptedApi(CHAT_API) as upstream:
        yield upstream


async def ask(upstream: ScriptedApi, *messages: Message, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the message, or the text of the error."""
    body = {"model": MODEL, "messages": list(messages), "tools": CHAT_TOOLS, **more}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{upstream.base_url}/chat/completions", json=body) as response,
    ):
        answer = await response.json()
    if response.status != 200:
        return response.status, answer["error"]["message"]
    return response.status, answer["choices"][0]["message"]


def without(message: Message) -> Message:
    """Return a message without its reasoning."""
    return {name: message[name] for name in message if name != "reasoning_content"}


def results(message: Message) -> list[Message]:
    """Return a result for each call of a message."""
    calls = message["tool_calls"]
    return [{"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in calls]


@pytest.mark.parametrize("way", ["sync", "sync-stream", "async", "async-stream"])
async def test_a_client_that_keeps_everything_is_served(upstream: ScriptedApi, way: Way) -> None:
    """The official SDK reads all answers, as JSON and as a stream, in the order of CALLS."""
    async with ChatAgent(upstream.base_url, MODEL, way, "everything") as agent:
        await agent.converse(QUESTIONS)

    said = [one for one in agent.history if one["role"] == "assistant"]
    assert len(upstream.received) == len(said) == 2 * len(CALLS)
    assert [len(one.get("tool_calls") or ()) for one in said] == [*CALLS, *CALLS]
    assert len({one["reasoning_content"] for one in said}) == len(said)
    assert said[-1]["content"] == ANSWER


@pytest.mark.parametrize("way", ["sync", "async-stream"])
async def test_a_client_that_drops_reasoning_is_refused(upstream: ScriptedApi, way: Way) -> None:
    """Its second request fails with the message of DeepSeek's API."""
    async with ChatAgent(upstream.base_url, MODEL, way, "declared") as agent:
        with pytest.raises(BadRequestError, match="must be passed back to the API"):
            await agent.converse(QUESTIONS)
    assert len(upstream.received) == 2


async def test_the_key_is_demanded_in_the_current_round(upstream: ScriptedApi) -> None:
    """Null is absent, an empty text is not, and a new question exempts earlier rounds."""
    _, message = await ask(upstream, ASK)
    bare = without(message)
    for lacking in (bare, {**bare, "reasoning_content": None}):
        assert await ask(upstream, ASK, lacking, *results(message)) == (400, NO_REASONING)
    assert (await ask(upstream, ASK, message, *results(message)))[0] == 200
    empty = {**bare, "reasoning_content": ""}
    assert (await ask(upstream, ASK, empty, *results(message)))[0] == 200
    assert (await ask(upstream, ASK, bare, *results(message), ASK))[0] == 200


@pytest.mark.parametrize("more", [{"tools": []}, {"thinking": {"type": "disabled"}}])
async def test_without_tools_or_thinking_nothing_is_demanded(
    upstream: ScriptedApi, more: dict[str, Any]
) -> None:
    """A history without reasoning is accepted then."""
    _, message = await ask(upstream, ASK)
    status, answer = await ask(upstream, ASK, without(message), *results(message), **more)
    assert status == 200
    assert ("reasoning_content" in answer) == ("thinking" not in more)


@pytest.mark.parametrize("way", ["sync", "async-stream"])
async def test_with_low_effort_it_calls_without_a_thought(upstream: ScriptedApi, way: Way) -> None:
    """As in DeepSeek's answers, the key is there, with an empty text, and it is demanded."""
    more = {"reasoning_effort": "low"}
    async with ChatAgent(upstream.base_url, MODEL, way, "everything", more) as agent:
        await agent.converse(QUESTIONS[:1])
    *calling, last = [one for one in agent.history if one["role"] == "assistant"]
    assert [one["reasoning_content"] for one in calling] == ["", ""]
    assert last["reasoning_content"]

    bare = without(calling[0])
    assert await ask(upstream, ASK, bare, *results(bare), **more) == (400, NO_REASONING)


async def test_a_forbidden_call_is_not_made(upstream: ScriptedApi) -> None:
    """Without tools, or if none may be called, it answers at once."""
    ways: list[dict[str, Any]] = [{"tools": []}, {"tool_choice": "none"}]
    for more in ways:
        _, message = await ask(upstream, ASK, **more)
        assert message["content"] == ANSWER


async def test_other_requests_are_refused(
    upstream: ScriptedApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body without messages is a 400; only the newest requests are kept."""
    async with aiohttp.ClientSession() as session:
        for body in (b"{", b"[]", b"{}", b'{"messages": ["Hello"]}'):
            url = f"{upstream.base_url}/chat/completions"
            async with session.post(url, data=body) as response:
                assert response.status == 400
                assert (await response.json())["error"]["message"] == NO_MESSAGES
    assert upstream.received == []
    monkeypatch.setattr(scripted_api, "RECEIVED_MAX", 1)
    for _ in range(2):
        await ask(upstream, ASK)
    assert len(upstream.received) == 1
