"""Test client of one stand-in for Messages; it keeps whatever an answer had."""

import json
from typing import Any

import aiohttp

from tests.standin.messages.blocks import blocks_of
from tests.standin.messages.server import MessagesStandIn

__all__ = ["RAIN", "SNOW", "TOOLS", "Message", "ask", "error", "step", "without"]

Message = dict[str, Any]

TOOLS = [
    {
        "name": "get_weather",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]
RAIN: Message = {"role": "user", "content": "Where does it rain?"}
SNOW: Message = {"role": "user", "content": "Where does it snow?"}


async def ask(
    standin: MessagesStandIn,
    *messages: Message,
    key: str = "sk-ant-one",
    path: str = "/messages",
    betas: str = "",
    **more: Any,
) -> tuple[int, Any]:
    """Send a history; return the status and the body, which is bytes for a stream."""
    mode = standin.mode
    given = {"model": mode.model, "tools": TOOLS, "thinking": mode.thinking, "max_tokens": 99}
    headers = {"x-api-key": key} | ({"anthropic-beta": betas} if betas else {})
    body = given | {"messages": messages} | more
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(standin.base_url + path, json=body) as response,
    ):
        raw = await response.read()
    return response.status, raw if more.get("stream") else json.loads(raw)


async def step(standin: MessagesStandIn, *messages: Message, **more: Any) -> list[Message]:
    """Send a history that is accepted; return it with the answer, and the results of its calls."""
    status, answer = await ask(standin, *messages, **more)
    assert status == 200, answer
    said = {"role": "assistant", "content": answer["content"]}
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "7 degrees"}
        for block in answer["content"]
        if block["type"] == "tool_use"
    ]
    return [*messages, said, *([{"role": "user", "content": results}] if results else [])]


async def error(standin: MessagesStandIn, *messages: Message, **more: Any) -> str:
    """Send a history that must be refused with 400; return the text."""
    status, answer = await ask(standin, *messages, **more)
    assert status == 400, answer
    assert answer["error"]["type"] == "invalid_request_error"
    return str(answer["error"]["message"])


def without(messages: list[Message], *kinds: str) -> list[Message]:
    """Return messages without blocks of some types, of reasoning unless told."""
    gone = kinds or ("thinking", "redacted_thinking")
    return [
        {**one, "content": [block for block in blocks_of(one) if block["type"] not in gone]}
        for one in messages
    ]
