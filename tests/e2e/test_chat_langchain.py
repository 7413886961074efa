"""
Chat Completions with LangChain's ChatOpenAI, which drops reasoning by design.

LangChain is an extra of its own (`langchain`), because it brings sixteen packages. `make test-all`
installs it; without it, these tests are skipped.
"""

import asyncio
import importlib
import secrets
from typing import Any, get_args

import pytest
from openai import BadRequestError, DefaultAsyncHttpxClient, DefaultHttpxClient

from tests.e2e.agent import Way
from tests.e2e.chat_agent import CHAT_TOOLS
from tests.e2e.proxies import Reach, reached
from tests.e2e.sdk_loop import ROUNDS_MAX
from tests.fast_lane import IS_EVERY
from tests.strict.chat import FamilyName, StrictChat
from tests.strict.upstream import WRONG

WAYS: tuple[Way, ...] = get_args(Way)
QUESTIONS = ("Where does it rain today?", "And tomorrow?")
STRICT: tuple[FamilyName, ...] = ("deepseek", "kimi", "gemini", "openrouter")
# How the client reaches the upstream.
REACHES: tuple[Reach, ...] = ("straight", "proxied")


@pytest.fixture(scope="module")
def langchain() -> Any:
    """The module `langchain_openai`; in the slow lane, it must be there."""
    if IS_EVERY:
        return importlib.import_module("langchain_openai")
    return pytest.importorskip("langchain_openai", reason="the extra langchain is not installed")


async def converse(langchain: Any, base_url: str, model: str, way: Way) -> None:
    """Ask each question, and answer tool calls until the model has finished."""
    messages = importlib.import_module("langchain_core.messages")
    # LangChain's own clients are shared, and never closed.
    with DefaultHttpxClient(verify=False) as plain:
        async with DefaultAsyncHttpxClient(verify=False) as spun:
            chat = langchain.ChatOpenAI(
                base_url=base_url,
                api_key=f"sk-e2e-{secrets.token_hex(8)}",
                model=model,
                max_retries=0,
                http_client=plain,
                http_async_client=spun,
            ).bind_tools(CHAT_TOOLS)
            history: list[Any] = []
            for question in QUESTIONS:
                history.append(messages.HumanMessage(question))
                for _ in range(ROUNDS_MAX):
                    answer = await asked(chat, history, way)
                    history.append(answer)
                    if not answer.tool_calls:
                        break
                    history += [
                        messages.ToolMessage("7 degrees, rain", tool_call_id=call["id"])
                        for call in answer.tool_calls
                    ]


async def asked(chat: Any, history: list[Any], way: Way) -> Any:
    """Send the history in one of four ways; return the whole message."""
    match way:
        case "sync":
            return await asyncio.to_thread(chat.invoke, history)
        case "async":
            return await chat.ainvoke(history)
        case "sync-stream":
            chunks = await asyncio.to_thread(lambda: list(chat.stream(history)))
        case "async-stream":
            chunks = [chunk async for chunk in chat.astream(history)]
    answer = chunks[0]
    for chunk in chunks[1:]:
        answer += chunk
    return answer


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("family", STRICT)
@pytest.mark.parametrize("reach", REACHES)
async def test_a_tool_loop(langchain: Any, reach: Reach, family: FamilyName, way: Way) -> None:
    """Straight to the upstream, the second turn is refused; through the proxy, all turns work."""
    api = StrictChat(family, loop="parallel")
    async with reached(api, reach) as base_url:
        talk = converse(langchain, base_url, api.model, way)
        if reach == "straight":
            with pytest.raises(BadRequestError):
                await talk
        else:
            await talk
    statuses = [one.status for one in api.received]
    states = {finding.state for _, finding in api.found("whole", "missing", *WRONG)}
    if reach == "straight":
        assert (statuses, states) == ([200, 400], {"missing"})
    else:
        assert (set(statuses), states) == ({200}, {"whole"})
