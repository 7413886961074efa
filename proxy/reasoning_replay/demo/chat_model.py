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
from reasoning_replay.demo.scripted_api import Api, Item, Refused, sse
from reasoning_replay.demo.scripted_steps import ANSWER, next_step, pieces_of, tokens_of

__all__ = ["CHAT_API", "NO_REASONING"]

REASONING: Final = "reasoning_content"
NO_REASONING: Final = "The `reasoning_content` in the thinking mode must be passed back to the API."


def _answer(body: Item) -> Item:
    """Return a complete answer; its tokens are estimated from bytes."""
    messages: list[Item] = body["messages"]
    asked_at = max((at for at, one in enumerate(messages) if one.get("role") == "user"), default=-1)
    since = messages[asked_at + 1 :]  # the current round
    thinks = (body.get("thinking") or {}).get("type") != "disabled"
    lacks = any(one.get("role") == "assistant" and one.get(REASONING) is None for one in since)
    if lacks and thinks and body.get("tools"):
        raise Refused(NO_REASONING)
    message = _message_for(body, sum(one.get("role") == "tool" for one in since))
    if not thinks:
        del message[REASONING]
    read, wrote = tokens_of(body), tokens_of(message)
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


def _message_for(body: Item, answered: int) -> Item:
    """Return the assistant message after as many results in this round."""
    tools = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
    may_call = bool(tools) and body.get("tool_choice") != "none"
    step = next_step(answered, may_call=may_call)
    if not step.cities:
        return {"role": "assistant", "content": ANSWER, REASONING: step.thought}
    thought = "" if body.get("reasoning_effort") == "low" else step.thought
    tool = tools[answered % len(tools)]
    calls = [_call(tool, at, city) for at, city in enumerate(step.cities)]
    return {"role": "assistant", "content": "", REASONING: thought, "tool_calls": calls}


def _call(tool: Item, at: int, city: str) -> Item:
    arguments = json.dumps(example(tool.get("parameters") or {}, city))
    function = {"name": tool.get("name", ""), "arguments": arguments}
    call_id = f"call_{at:02}_{secrets.token_hex(11)}"
    return {"index": at, "id": call_id, "type": "function", "function": function}


def _events(completion: Item) -> Iterator[bytes]:
    """Yield an answer as stream chunks: reasoning, text, calls, and then reason and usage."""
    (choice,) = completion["choices"]
    head = {name: completion[name] for name in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    for delta in _deltas(choice["message"]):
        unfinished = {"index": 0, "delta": delta, "finish_reason": None}
        yield sse({**head, "choices": [unfinished], "usage": None})
    last = {"index": 0, "delta": {"content": ""}, "finish_reason": choice["finish_reason"]}
    yield sse({**head, "choices": [last], "usage": completion["usage"]})
    yield b"data: [DONE]\n\n"


def _deltas(message: Item) -> Iterator[Item]:
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


def _error(refused: Refused) -> Item:
    kind = "invalid_request_error"
    return {"error": {"message": refused.message, "type": kind, "param": None, "code": kind}}


CHAT_API: Final = Api(
    path="/chat/completions",
    history="messages",
    answer=_answer,
    events=_events,
    error=_error,
)
