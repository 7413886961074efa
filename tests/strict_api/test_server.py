"""The strict APIs serve the official SDKs, and refuse a client that drops its reasoning."""

import time
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import anthropic
import openai
import pytest
from google.genai.errors import ClientError
from reasoning_replay.strict_api import DIALECTS, server
from reasoning_replay.strict_api.scenarios import ANSWER
from reasoning_replay.wires import WIRES

from tests.e2e.agent import Agent, Way
from tests.e2e.chat_agent import ChatAgent
from tests.e2e.gemini_agent import GeminiAgent
from tests.e2e.messages_agent import MessagesAgent
from tests.strict_api.scripted import ASKS, MODELS, ask, listening

QUESTIONS = ("Where does it rain today?", "And tomorrow?")
REQUESTS = 3  # of one question: one call, two calls, an answer
REFUSED = "without its required 'reasoning'|must be passed back|Expected `thinking`|is missing a"


def agent_of(dialect: str, base_url: str, way: Way, keeps: Any) -> AbstractAsyncContextManager[Any]:
    """Return an agent on the official SDK."""
    model = MODELS[dialect]
    if dialect == "responses":
        return Agent(base_url, way, keeps, is_marked=False)
    if dialect == "chat":
        return ChatAgent(base_url, way, keeps, model=model)
    if dialect == "gemini":
        return GeminiAgent(base_url, way, keeps, model=model)
    more = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    return MessagesAgent(base_url, way, keeps, more, model=model)


@pytest.mark.parametrize("dialect", DIALECTS)
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
        said = str(history).replace("'}, {'text': '", "")  # Gemini's text is kept in pieces
    assert said.count(ANSWER) == len(QUESTIONS)
    # Three calls for each question, each once and once in its result.
    calls = {"chat": "'tool_call_id'", "messages": "'tool_use_id'", "gemini": "'function_call'"}
    count = said.count(calls[dialect]) * 2 if dialect in calls else said.count("'call_id'")
    assert count == 6 * len(QUESTIONS)


@pytest.mark.parametrize(
    ("dialect", "keeps"),
    [("responses", "ids"), ("chat", "declared"), ("messages", "visible"), ("gemini", "visible")],
)
async def test_a_client_that_drops_reasoning_is_refused(dialect: str, keeps: str) -> None:
    """Its second request fails with the message of the vendor's API."""
    async with (
        listening(dialect) as upstream,
        agent_of(dialect, upstream.base_url, "sync", keeps) as agent,
    ):
        refusals = (openai.BadRequestError, anthropic.BadRequestError, ClientError)
        with pytest.raises(refusals, match=REFUSED):
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
        ("gemini", {"tools": []}),
        ("gemini", {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}),
    ],
)
async def test_a_forbidden_call_is_not_made(dialect: str, more: dict[str, Any]) -> None:
    """Without tools, or if none may be called, it answers at once, with reasoning."""
    async with listening(dialect) as upstream:
        _, said = await ask(upstream, dialect, ASKS[dialect], **more)
    assert ANSWER in str(said)
    assert any(word in str(said) for word in ("reasoning", "thinking", "thoughtSignature"))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_other_requests_are_refused_as_by_the_api(
    dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown path is 404 and a body without history is 400, both in the API's error form."""
    monkeypatch.setattr(server, "RECEIVED_MAX", 1)
    history = WIRES[dialect].history
    async with listening(dialect) as upstream, aiohttp.ClientSession() as session:
        async with session.post(f"{upstream.base_url}/embeddings", json={}) as response:
            assert response.status == 404
            message = (await response.json())["error"]["message"]
        assert message == "Invalid URL (POST /v1/embeddings)"
        url = upstream.base_url + WIRES[dialect].path_of(MODELS[dialect])
        damaged = {"Content-Encoding": "gzip"}
        async with session.post(url, data=b"damaged", headers=damaged) as response:
            assert response.status == 400
            assert "could not parse" in (await response.json())["error"]["message"]
        for body in ("{", "[]", "{}", f'{{"{history}": 1}}', f'{{"{history}": ["Hello"]}}'):
            async with session.post(url, data=body) as response:
                assert response.status == 400
                error = (await response.json())["error"]
            kind = "INVALID_ARGUMENT" if dialect == "gemini" else "invalid_request_error"
            assert kind in error.values()
            assert error["message"] == f"Missing or invalid parameter: '{history}'."
        assert not upstream.received
        for _ in range(2):
            await ask(upstream, dialect, ASKS[dialect])
        assert len(upstream.received) == 1  # only the newest are kept


@pytest.mark.parametrize("stream", [False, True])
async def test_it_writes_at_its_pace(stream: bool) -> None:
    """With `word_s`, an answer takes the time of its words and of the thinking before them."""
    async with listening("responses", word_s=0.005) as upstream, aiohttp.ClientSession() as session:
        began_s = time.monotonic()
        body = {"model": "gpt-5.4", "input": "Hello", "stream": stream}
        async with session.post(f"{upstream.base_url}/responses", json=body) as response:
            text = await response.text()
    words = len(ANSWER.split(" ")) + 1  # and a mark
    assert text.count("event: response.output_text.delta") == words * stream
    assert time.monotonic() - began_s > 0.005 * (server.THINKING_WORDS + words)
