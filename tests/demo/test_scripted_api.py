"""The scripted APIs serve the official SDKs, and refuse a client that drops its reasoning."""

import time
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from reasoning_replay.demo import scripted_api
from reasoning_replay.demo.scripted_steps import ANSWER
from reasoning_replay.wires import WIRES

from tests.demo.scripted import ASK, MODELS, ask, listening
from tests.e2e.agent import Agent, Way
from tests.e2e.chat_agent import ChatAgent
from tests.e2e.messages_agent import MessagesAgent

QUESTIONS = ("Where does it rain today?", "And tomorrow?")
REQUESTS = 3  # of one question: one call, two calls, an answer
REFUSED = "without its required 'reasoning'|must be passed back|Expected `thinking`"


def agent_of(dialect: str, base_url: str, way: Way, keeps: Any) -> AbstractAsyncContextManager[Any]:
    """Return an agent on the official SDK."""
    model = MODELS[dialect]
    if dialect == "responses":
        return Agent(base_url, way, keeps, is_marked=False)
    if dialect == "chat":
        return ChatAgent(base_url, model, way, keeps)
    more = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    return MessagesAgent(base_url, model, way, keeps, more)


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("way", ["sync", "async-stream"])
async def test_a_client_that_keeps_everything_is_served(dialect: str, way: Way) -> None:
    """The official SDK reads all answers, as JSON and as a stream: a call, two, and a text."""
    async with (
        listening(dialect) as upstream,
        agent_of(dialect, upstream.base_url, way, "everything") as agent,
    ):
        await agent.converse(QUESTIONS)
        assert len(upstream.received) == REQUESTS * len(QUESTIONS)
        history = agent.whole if dialect == "responses" else agent.history
        said = str(history)
    assert said.count(ANSWER) == len(QUESTIONS)
    # Three calls for each question, each once and once in its result.
    calls = {"responses": "'call_id'", "chat": "'tool_call_id'", "messages": "'tool_use_id'"}
    each = 2 if dialect == "responses" else 1
    assert said.count(calls[dialect]) == 3 * each * len(QUESTIONS)


@pytest.mark.parametrize(
    ("dialect", "keeps"), [("responses", "ids"), ("chat", "declared"), ("messages", "visible")]
)
async def test_a_client_that_drops_reasoning_is_refused(dialect: str, keeps: str) -> None:
    """Its second request fails with the message of the vendor's API."""
    async with (
        listening(dialect) as upstream,
        agent_of(dialect, upstream.base_url, "sync", keeps) as agent,
    ):
        with pytest.raises((openai.BadRequestError, anthropic.BadRequestError), match=REFUSED):
            await agent.converse(QUESTIONS)
        assert len(upstream.received) == 2


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        ("responses", {"tools": []}),
        ("responses", {"tools": [{"type": "web_search"}]}),
        ("responses", {"tool_choice": "none"}),
        ("chat", {"tools": []}),
        ("chat", {"tool_choice": "none"}),
        ("messages", {"tools": []}),
        ("messages", {"tool_choice": {"type": "none"}}),
    ],
)
async def test_a_forbidden_call_is_not_made(dialect: str, more: dict[str, Any]) -> None:
    """Without tools, or if none may be called, it answers at once, with reasoning."""
    async with listening(dialect) as upstream:
        _, said = await ask(upstream, dialect, ASK, **more)
    assert ANSWER in str(said)
    assert "reasoning" in str(said) or "thinking" in str(said)


@pytest.mark.parametrize("dialect", WIRES)
async def test_other_requests_are_refused_as_by_the_api(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown path is 404 and a body without history is 400, both in the API's error form."""
    monkeypatch.setattr(scripted_api, "RECEIVED_MAX", 1)
    history = WIRES[dialect].history
    async with listening(dialect) as upstream, aiohttp.ClientSession() as session:
        async with session.post(f"{upstream.base_url}/embeddings", json={}) as response:
            assert response.status == 404
            message = (await response.json())["error"]["message"]
        assert message == "Invalid URL (POST /v1/embeddings)"
        url = upstream.base_url + WIRES[dialect].path
        damaged = {"Content-Encoding": "gzip"}
        async with session.post(url, data=b"damaged", headers=damaged) as response:
            assert response.status == 400
            assert "could not parse" in (await response.json())["error"]["message"]
        for body in ("{", "[]", "{}", f'{{"{history}": 1}}', f'{{"{history}": ["Hello"]}}'):
            async with session.post(url, data=body) as response:
                assert response.status == 400
                error = (await response.json())["error"]
            assert error["type"] == "invalid_request_error"
            assert error["message"] == f"Missing or invalid parameter: '{history}'."
        assert not upstream.received
        for _ in range(2):
            await ask(upstream, dialect, ASK)
        assert len(upstream.received) == 1  # only the newest are kept


@pytest.mark.parametrize("stream", [False, True])
async def test_it_writes_at_its_pace(stream: bool) -> None:
    """With `word_s`, an answer takes the time of its words and of the thinking before them."""
    async with listening("responses", word_s=0.005) as upstream, aiohttp.ClientSession() as session:
        began_s = time.monotonic()
        body = {"model": "gpt-5.4", "input": "Hello", "stream": stream}
        async with session.post(f"{upstream.base_url}/responses", json=body) as response:
            text = await response.text()
    words = len(ANSWER.split(" "))
    assert text.count("event: response.output_text.delta") == words * stream
    assert time.monotonic() - began_s > 0.005 * (scripted_api.THINKING_WORDS + words)
