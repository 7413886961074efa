"""The scripted API of a dialect, and requests to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from reasoning_replay.strict_api import DIALECTS, SCENARIOS, Item, Script, StrictApi
from reasoning_replay.wires import WIRES

__all__ = ["ASK", "ASKS", "MODELS", "TOOL", "ask", "listening", "post"]

ASKS: dict[str, Item] = {name: wire.says("Where does it rain?") for name, wire in WIRES.items()}
ASK = ASKS["responses"]  # chat and messages have the same
TOOL: Item = {"name": "get_weather", "description": "Tells the weather.", "parameters": {}}
MODELS = {
    "responses": "gpt-5.4",
    "chat": "deepseek-v4-flash",
    "messages": "claude-sonnet-4-6",
    "gemini": "gemini-3-pro-preview",
}


@asynccontextmanager
async def listening(
    dialect: str, word_s: float = 0, scenario: str = "tour", *, is_strict: bool = False
) -> AsyncIterator[StrictApi]:
    """Run the API of one dialect for the duration of the block."""
    script = Script(SCENARIOS[scenario], is_marked=True)
    async with StrictApi(DIALECTS[dialect](script, is_strict=is_strict), word_s=word_s) as upstream:
        yield upstream


async def post(upstream: StrictApi, dialect: str, *items: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and the whole answer."""
    wire, model = WIRES[dialect], more.pop("model", MODELS[dialect])
    body = {"model": model, wire.history: items, "tools": [wire.tool(TOOL)]}
    body |= {**wire.demanded(model), **more}
    async with (
        aiohttp.ClientSession() as session,
        session.post(upstream.base_url + wire.path_of(model), json=body) as response,
    ):
        return response.status, await response.json()


async def ask(upstream: StrictApi, dialect: str, *items: Item, **more: Any) -> tuple[int, Any]:
    """Send a history; return the status and what the model said, or the error message."""
    status, answer = await post(upstream, dialect, *items, **more)
    if status != 200:
        return status, answer["error"]["message"]
    said = WIRES[dialect].read(answer).said
    return status, said if dialect == "responses" else said[0]
