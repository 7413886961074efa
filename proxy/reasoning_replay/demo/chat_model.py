"""
Scripted chat model: the answers of the demo's Chat Completions API, as JSON and as stream chunks.

It follows CHAT_SCRIPT: one entry for each step since the last user message. A request without
function tools gets a text at once, and one that switches thinking off gets no reasoning. With
`reasoning_effort: low` it calls tools without a thought, and says so by an empty text.
"""

import itertools
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any, Final

from reasoning_replay.demo.example_values import example
from reasoning_replay.demo.scripted_model import CITIES

__all__ = ["CHAT_SCRIPT", "Message", "answer_for", "chunks_of", "completion_of", "thinks"]

Message = dict[str, Any]

# The calls of each answer, in order; the last one is a text. Each has reasoning.
CHAT_SCRIPT: Final = (1, 2, 0)
ANSWER: Final = "All of them. This answer is scripted, so take an umbrella."
REASONING: Final = "reasoning_content"
BYTES_PER_TOKEN: Final = 4


def thinks(body: Message) -> bool:
    """Return whether thinking is on, which is the default."""
    return (body.get("thinking") or {}).get("type") != "disabled"


def answer_for(body: Message) -> Message:
    """Return the assistant message that answers a request."""
    since = since_asked(body["messages"])
    tools = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    may_call = tools and body.get("tool_choice") != "none"
    step = sum(message.get("role") == "assistant" for message in since)
    count = CHAT_SCRIPT[step % len(CHAT_SCRIPT)] if may_call else 0
    answered = sum(message.get("role") == "tool" for message in since)
    cities = [CITIES[(answered + at) % len(CITIES)] for at in range(count)]
    message: Message = {"role": "assistant", "content": "" if cities else ANSWER}
    if thinks(body):
        plan = f"I need the weather of {' and '.join(cities)}." if cities else "I know enough."
        thought = f"Step {step + 1}, note {secrets.token_hex(4)}: {plan}"
        message[REASONING] = "" if cities and body.get("reasoning_effort") == "low" else thought
    if cities:
        tool = tools[step % len(tools)]
        message["tool_calls"] = [_call(tool, at, city) for at, city in enumerate(cities)]
    return message


def since_asked(messages: list[Message]) -> list[Message]:
    """Return the messages after the last one of the user: the current round."""
    asked_at = max((at for at, one in enumerate(messages) if one.get("role") == "user"), default=-1)
    return messages[asked_at + 1 :]


def completion_of(body: Message, message: Message) -> Message:
    """Return a complete answer; its tokens are estimated from bytes."""
    read, wrote = (len(json.dumps(each)) // BYTES_PER_TOKEN for each in (body, message))
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": secrets.token_hex(16),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.get("model", ""),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": wrote,
            "total_tokens": read + wrote,
        },
    }


def chunks_of(completion: Message) -> Iterator[Message]:
    """Yield an answer as stream chunks: reasoning, text, calls, and then reason and usage."""
    (choice,) = completion["choices"]
    head = {name: completion[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    for delta in _deltas(choice["message"]):
        unfinished = {"index": 0, "delta": delta, "finish_reason": None}
        yield {**head, "choices": [unfinished], "usage": None}
    last = {"index": 0, "delta": {"content": ""}, "finish_reason": choice["finish_reason"]}
    yield {**head, "choices": [last], "usage": completion["usage"]}


def _call(tool: Message, at: int, city: str) -> Message:
    arguments = json.dumps(example(tool.get("parameters") or {}, city))
    function = {"name": tool.get("name", ""), "arguments": arguments}
    call_id = f"call_{at:02}_{secrets.token_hex(11)}"
    return {"index": at, "id": call_id, "type": "function", "function": function}


def _deltas(message: Message) -> Iterator[Message]:
    yield {"role": "assistant", "content": "", **({REASONING: ""} if REASONING in message else {})}
    for name in (REASONING, "content"):
        for word in _words(message.get(name) or ""):
            yield {name: word}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {"tool_calls": [call | {"function": function | {"arguments": ""}}]}
        for word in _words(function["arguments"]):
            rest = {"index": call["index"], "function": {"arguments": word}}
            yield {"tool_calls": [rest]}


def _words(text: str) -> Iterator[str]:
    """Yield a text word by word, with the spaces."""
    words = text.split(" ") if text else []
    for word, after in itertools.zip_longest(words, [" "] * (len(words) - 1), fillvalue=""):
        yield word + after
