"""The scripted API of a dialect, and requests to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from reasoning_replay.demo.chat_model import CHAT_API
from reasoning_replay.demo.messages_model import MESSAGES_API
from reasoning_replay.demo.responses_model import responses_api
from reasoning_replay.demo.scripted_api import Api, ScriptedApi
from reasoning_replay.wires import WIRES, Item

__all__ = ["ASK", "MODELS", "TOOL", "api_of", "ask", "listening", "post"]

ASK: Item = {"role": "user", "content": "Where does it rain?"}
TOOL: Item = {"name": "get_weather", "description": "Tells the weather.", "parameters": {}}
MODELS = {"responses": "gpt-5.4", "chat": "deepseek-v4-flash", "messages": "claude-sonnet-4-6"}


def api_of(dialect: str) -> Api:
    """Return the API of a dialect; it has issued nothing."""
    return {"chat": CHAT_API, "messages": MESSAGES_API}.get(dialect) or responses_api()


@asynccontextmanager
async def listening(dialect: str, word_s: float = 0) -> AsyncIterator[ScriptedApi]:
    """Run the API of one dialect for the duration of the block."""
    async with ScriptedApi(api_of(dialect), word_s=word_s) as upstream:
        yield upstream


async def post(upstream: ScriptedApi, dialect: str, *items: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the whole answer."""
    wire, model = WIRES[dialect], MODELS[dialect]
    body = {"model": model, wire.history: items, "tools": [wire.tool(TOOL)]}
    body |= {**wire.demanded(model), **more}
    async with (
        aiohttp.ClientSession() as session,
        session.post(upstream.base_url + wire.path, json=body) as response,
    ):
        return response.status, await response.json()


async def ask(upstream: ScriptedApi, dialect: str, *items: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and what the model said, or the error message."""
    status, answer = await post(upstream, dialect, *items, **more)
    if status != 200:
        return status, answer["error"]["message"]
    said = WIRES[dialect].read(answer).said
    return status, said if dialect == "responses" else said[0]
