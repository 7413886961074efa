"""The demo's Messages upstream refuses and accepts the same requests as Anthropic's API."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from anthropic import BadRequestError
from reasoning_replay.demo.messages_model import MESSAGES_API
from reasoning_replay.demo.scripted_api import Message, ScriptedApi
from reasoning_replay.demo.scripted_steps import ANSWER, CALLS

from tests.e2e.agent import Way
from tests.e2e.messages_agent import MESSAGES_TOOLS, MessagesAgent

MODEL = "claude-sonnet-4-6"
THINKING = {"type": "enabled", "budget_tokens": 1024}
ASK: Message = {"role": "user", "content": "Where does it rain?"}
QUESTIONS = ("Where does it rain today?", "And tomorrow?")


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedApi]:
    """A scripted upstream that listens."""
    async with ScriptedApi(MESSAGES_API) as upstream:
        yield upstream


async def ask(upstream: ScriptedApi, *messages: Message, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the blocks, or the text of the error."""
    body = {"model": MODEL, "max_tokens": 99, "messages": messages, "tools": MESSAGES_TOOLS}
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{upstream.base_url}/messages", json=body | {"thinking": THINKING} | more
        ) as response,
    ):
        answer = await response.json()
    if response.status != 200:
        assert answer["error"]["type"] == "invalid_request_error"
        return response.status, answer["error"]["message"]
    return response.status, answer["content"]


def said(*blocks: Message) -> Message:
    """Return a message of the model."""
    return {"role": "assistant", "content": blocks}


def result(call: Message) -> Message:
    """Return the message with the result of a call."""
    found = {"type": "tool_result", "tool_use_id": call["id"], "content": "rain"}
    return {"role": "user", "content": [found]}


@pytest.mark.parametrize("way", ["sync", "sync-stream", "async", "async-stream"])
async def test_a_client_that_keeps_everything_is_served(upstream: ScriptedApi, way: Way) -> None:
    """The official SDK reads all answers, as JSON and as a stream, in the order of CALLS."""
    more = {"thinking": THINKING}
    async with MessagesAgent(upstream.base_url, MODEL, way, "everything", more) as agent:
        await agent.converse(QUESTIONS)

    answers = [one["content"] for one in agent.history if one["role"] == "assistant"]
    assert len(upstream.received) == len(answers) == 2 * len(CALLS)
    calls = [sum(block["type"] == "tool_use" for block in blocks) for blocks in answers]
    assert calls == [*CALLS, *CALLS]
    assert len({blocks[0]["thinking"] for blocks in answers}) == len(answers)
    assert answers[-1][-1]["text"] == ANSWER


@pytest.mark.parametrize("way", ["sync", "async-stream"])
async def test_a_client_that_drops_reasoning_is_refused(upstream: ScriptedApi, way: Way) -> None:
    """Its second request fails with the message of Anthropic's API."""
    more = {"thinking": THINKING}
    async with MessagesAgent(upstream.base_url, MODEL, way, "visible", more) as agent:
        with pytest.raises(BadRequestError, match="Expected `thinking` or `redacted_thinking`"):
            await agent.converse(QUESTIONS)
    assert len(upstream.received) == 2


async def test_reasoning_is_demanded_in_the_current_loop(upstream: ScriptedApi) -> None:
    """It starts the message, with its own signature; a new question exempts earlier loops."""
    _, (thought, call) = await ask(upstream, ASK)
    status, words = await ask(upstream, ASK, said(call), result(call))
    assert status == 400
    assert words.startswith("messages.1.content.0.type: Expected `thinking` or `redacted_thinking`")
    forged = {**thought, "thinking": "Something else."}
    assert await ask(upstream, ASK, said(forged, call), result(call)) == (
        400,
        "messages.1.content.0: Invalid `signature` in `thinking` block",
    )
    assert (await ask(upstream, ASK, said(thought, call), result(call)))[0] == 200
    assert (await ask(upstream, ASK, said(call), result(call), ASK))[0] == 200


async def test_adjacent_messages_are_one(upstream: ScriptedApi) -> None:
    """Reasoning in a message of its own counts; the next answer is that to one message."""
    _, (thought, call) = await ask(upstream, ASK)
    status, split = await ask(upstream, ASK, said(thought), said(call), result(call))
    assert status == 200
    _, whole = await ask(upstream, ASK, said(thought, call), result(call))
    assert [block.get("input") for block in split] == [block.get("input") for block in whole]
    status, words = await ask(upstream, ASK, said(call), said(thought), result(call))
    assert (status, words[:24]) == (400, "messages.1.content.0.typ")


async def test_without_thinking_nothing_is_demanded(upstream: ScriptedApi) -> None:
    """A history without reasoning is accepted then, and the answer has none."""
    off = {"thinking": {"type": "disabled"}}
    _, (call,) = await ask(upstream, ASK, **off)
    assert call["type"] == "tool_use"
    assert (await ask(upstream, ASK, said(call), result(call), **off))[0] == 200


async def test_a_forbidden_call_is_not_made(upstream: ScriptedApi) -> None:
    """Without tools, or if none may be called, it answers at once."""
    ways: list[dict[str, Any]] = [{"tools": []}, {"tool_choice": {"type": "none"}}]
    for more in ways:
        _, blocks = await ask(upstream, ASK, **more)
        assert [block["type"] for block in blocks] == ["thinking", "text"]
