"""
Wires: what a request, an answer and a result look like to a client, for each dialect of the demo.

The clients keep what they know: items other than reasoning, the members that the OpenAI SDK
declares for a message, and blocks other than reasoning.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from reasoning_replay.demo.agent_loop import Item, Wire

__all__ = ["CHAT", "MESSAGES", "RESPONSES"]

MODEL: Final = "gpt-5.4"
NAME: Final = "get_weather"
SCHEMA: Final[Item] = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER: Final = "7 degrees, rain"


def _result_of_item(call: Item) -> Item:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": WEATHER}


RESPONSES: Final = Wire(
    path="/responses",
    request=lambda history: {
        "model": MODEL,
        "input": history,
        "tools": [{"type": "function", "name": NAME, "parameters": SCHEMA}],
    },
    said=lambda answer: answer["output"],
    kept=lambda said: [item for item in said if item["type"] != "reasoning"],
    results=lambda said: [_result_of_item(one) for one in said if one["type"] == "function_call"],
    shown=list,
)

TEXT: Final = "reasoning_content"
DECLARED: Final = ("role", "content", "tool_calls")


def _shown_chat(messages: Sequence[Item]) -> list[Item]:
    return [item for message in messages for item in _chat_parts(message)]


def _chat_parts(message: Item) -> Iterator[Item]:
    """Yield the reasoning, the text and the calls of a message one by one."""
    if text := message.get(TEXT):
        yield {"type": TEXT, "id": f"text_{_digest(text)}"}
    if "tool_call_id" in message:
        yield {"type": "tool", "call_id": message["tool_call_id"]}
    elif message.get("content"):
        yield {"type": f"message ({message['role']})"}
    for call in message.get("tool_calls") or ():
        yield {"type": "tool_call", "id": call["id"]}


CHAT: Final = Wire(
    path="/chat/completions",
    request=lambda history: {
        "model": "deepseek-v4-flash",
        "messages": history,
        "tools": [{"type": "function", "function": {"name": NAME, "parameters": SCHEMA}}],
    },
    said=lambda answer: [answer["choices"][0]["message"]],
    kept=lambda said: [{name: one[name] for name in DECLARED if name in one} for one in said],
    results=lambda said: [
        {"role": "tool", "tool_call_id": call["id"], "content": WEATHER}
        for message in said
        for call in message.get("tool_calls") or ()
    ],
    shown=_shown_chat,
)

THINKING: Final = "thinking"


def _shown_messages(messages: Sequence[Item]) -> list[Item]:
    return [item for message in messages for item in _blocks(message)]


def _blocks(message: Item) -> Iterator[Item]:
    """Yield the blocks of a message; a string is one text."""
    content = message["content"]
    for block in content if isinstance(content, list) else [{"type": "text"}]:
        match block["type"]:
            case "text":
                yield {"type": f"message ({message['role']})"}
            case "thinking":
                yield {"type": THINKING, "id": f"signature_{_digest(block['signature'])}"}
            case kind:
                yield {"type": kind, "id": block.get("id") or block.get("tool_use_id")}


def _bare(message: Item) -> Item:
    blocks = [block for block in message["content"] if block["type"] != THINKING]
    return message | {"content": blocks}


def _results_of_blocks(said: list[Item]) -> list[Item]:
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": WEATHER}
        for message in said
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    return [{"role": "user", "content": results}] if results else []


MESSAGES: Final = Wire(
    path="/messages",
    request=lambda history: {
        "model": "claude-sonnet-4-6",
        "max_tokens": 4096,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": history,
        "tools": [{"name": NAME, "input_schema": SCHEMA}],
    },
    said=lambda answer: [{"role": "assistant", "content": answer["content"]}],
    kept=lambda said: [_bare(message) for message in said],
    results=_results_of_blocks,
    shown=_shown_messages,
)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
