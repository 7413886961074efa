"""
Chat loop: the agent loop on the wire of Chat Completions.

The client keeps the members that the OpenAI SDK declares, and so drops `reasoning_content`, which
is not one of them. For the page, a message is a list of items, like those of the other loop.
"""

import hashlib
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Final

import aiohttp

from reasoning_replay.demo.agent_loop import TURNS_MAX, Loop, LoopTurn
from reasoning_replay.demo.chat_model import REASONING, Message
from reasoning_replay.demo.chat_upstream import ScriptedChat
from reasoning_replay.demo.scripted_model import Item
from reasoning_replay.web.errors import MARK

__all__ = ["DECLARED", "run_chat_loop"]

MODEL: Final = "deepseek-v4-flash"
ASK: Final[Message] = {"role": "user", "content": "Which of my trips will be rainy?"}
TOOLS: Final[list[Message]] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
DECLARED: Final = ("role", "content", "tool_calls")


async def run_chat_loop(base_url: str, upstream: ScriptedChat) -> Loop:
    """Run the loop to its end; `upstream` has recorded each request as it arrived."""
    loop = Loop()
    history = [ASK]
    headers = {"Authorization": "Bearer sk-demo"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for _ in range(TURNS_MAX):
            request = {"model": MODEL, "messages": history, "tools": TOOLS}
            before = len(upstream.received)
            async with session.post(f"{base_url}/chat/completions", json=request) as response:
                answer = await response.json()
            arrived = upstream.received[before:][-1:]  # empty if the request never arrived
            received = _items(arrived[0]) if arrived else []
            mark = response.headers.get(MARK, "")
            loop.turns.append(LoopTurn(_items(history), received, response.status, mark))
            if response.status != HTTPStatus.OK:
                loop.error = answer["error"]["message"]
                break
            message: Message = answer["choices"][0]["message"]
            calls: list[Message] = message.get("tool_calls") or []
            loop.finished = not calls
            if loop.finished:
                break
            loop.dropped += [item["id"] for item in _items([message]) if item["type"] == REASONING]
            history.append({name: message[name] for name in DECLARED if name in message})
            history += [
                {"role": "tool", "tool_call_id": call["id"], "content": "7 degrees, rain"}
                for call in calls
            ]
    return loop


def _items(messages: Sequence[Message]) -> list[Item]:
    """Return messages as items for the page: reasoning, text and calls one by one."""
    return [item for message in messages for item in _parts(message)]


def _parts(message: Message) -> Iterator[Item]:
    if text := message.get(REASONING):
        digest = hashlib.sha256(text.encode()).hexdigest()
        yield {"type": REASONING, "id": f"text_{digest}"}
    if "tool_call_id" in message:
        yield {"type": "tool", "call_id": message["tool_call_id"]}
    elif message.get("content"):
        yield {"type": f"message ({message['role']})"}
    for call in message.get("tool_calls") or ():
        yield {"type": "tool_call", "id": call["id"]}
