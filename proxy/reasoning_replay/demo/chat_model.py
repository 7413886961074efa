"""
Scripted chat model: the demo's Chat Completions, as strict about reasoning as DeepSeek's API.

With thinking on and tools in a request, it refuses each assistant message after the last one of the
user that lacks the key `reasoning_content`, with the error message of DeepSeek's API. A request
that switches thinking off gets no reasoning. With `reasoning_effort: low` it calls tools without a
thought, and says so by an empty text.
"""

import json
import secrets
import time
from collections.abc import Iterator
from typing import Final

from reasoning_replay.demo.example_values import example
from reasoning_replay.demo.scripted_api import Api, Message
from reasoning_replay.demo.scripted_steps import ANSWER, BYTES_PER_TOKEN, next_step, pieces_of

__all__ = ["CHAT_API", "NO_REASONING"]

REASONING: Final = "reasoning_content"
NO_REASONING: Final = "The `reasoning_content` in the thinking mode must be passed back to the API."


def _thinks(body: Message) -> bool:
    """Return whether thinking is on, which is the default."""
    return (body.get("thinking") or {}).get("type") != "disabled"


def _refusal(body: Message) -> str:
    """Refuse a message of the current round that lacks its reasoning; null is absent."""
    lacks = any(
        message.get("role") == "assistant" and message.get(REASONING) is None
        for message in _since_asked(body["messages"])
    )
    return NO_REASONING if lacks and _thinks(body) and body.get("tools") else ""


def _message_for(body: Message) -> Message:
    """Return the assistant message that answers a request."""
    since = _since_asked(body["messages"])
    tools = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    step = next_step(
        sum(message.get("role") == "assistant" for message in since),
        sum(message.get("role") == "tool" for message in since),
        may_call=bool(tools) and body.get("tool_choice") != "none",
    )
    message: Message = {"role": "assistant", "content": "" if step.cities else ANSWER}
    if _thinks(body):
        is_brief = step.cities and body.get("reasoning_effort") == "low"
        message[REASONING] = "" if is_brief else step.thought
    if step.cities:
        tool = tools[step.number % len(tools)]
        message["tool_calls"] = [_call(tool, at, city) for at, city in enumerate(step.cities)]
    return message


def _since_asked(messages: list[Message]) -> list[Message]:
    """Return the messages after the last one of the user: the current round."""
    asked_at = max((at for at, one in enumerate(messages) if one.get("role") == "user"), default=-1)
    return messages[asked_at + 1 :]


def _completion_for(body: Message) -> Message:
    """Return a complete answer; its tokens are estimated from bytes."""
    message = _message_for(body)
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


def _frames(completion: Message) -> Iterator[bytes]:
    """Yield an answer as stream chunks: reasoning, text, calls, and then reason and usage."""
    (choice,) = completion["choices"]
    head = {name: completion[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    for delta in _deltas(choice["message"]):
        unfinished = {"index": 0, "delta": delta, "finish_reason": None}
        yield _frame({**head, "choices": [unfinished], "usage": None})
    last = {"index": 0, "delta": {"content": ""}, "finish_reason": choice["finish_reason"]}
    yield _frame({**head, "choices": [last], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def _frame(chunk: Message) -> bytes:
    return f"data: {json.dumps(chunk)}\n\n".encode()


def _call(tool: Message, at: int, city: str) -> Message:
    arguments = json.dumps(example(tool.get("parameters") or {}, city))
    function = {"name": tool.get("name", ""), "arguments": arguments}
    call_id = f"call_{at:02}_{secrets.token_hex(11)}"
    return {"index": at, "id": call_id, "type": "function", "function": function}


def _deltas(message: Message) -> Iterator[Message]:
    yield {"role": "assistant", "content": "", **({REASONING: ""} if REASONING in message else {})}
    for name in (REASONING, "content"):
        for word in pieces_of(message.get(name) or ""):
            yield {name: word}
    for call in message.get("tool_calls") or ():
        function = call["function"]
        yield {"tool_calls": [call | {"function": function | {"arguments": ""}}]}
        for word in pieces_of(function["arguments"]):
            rest = {"index": call["index"], "function": {"arguments": word}}
            yield {"tool_calls": [rest]}


def _error(message: str) -> Message:
    kind = "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


CHAT_API: Final = Api(
    path="/chat/completions",
    refusal=_refusal,
    answer=_completion_for,
    frames=_frames,
    error=_error,
)
