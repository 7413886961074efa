"""Chat Completions between upstream and clients in these tests: messages, responses, refusals."""

import json
from collections.abc import Mapping
from typing import Any

from tests.web.line import Answer, request
from tests.web.wire import as_json, chunk, stream_head, whole
from tests.web.world import World

Json = dict[str, Any]

CHAT = "/v1/chat/completions"
MODEL = "vendor-large"
ASK: Json = {"role": "user", "content": "What is the weather in Oslo?"}
CALL: Json = {
    "id": "call_Zk3mQ9xT7bLw2RsV",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
}
SAID: Json = {"role": "assistant", "content": None, "tool_calls": [CALL]}
THOUGHT: Json = {"reasoning_content": "I must look it up."}
RESULT: Json = {"role": "tool", "tool_call_id": CALL["id"], "content": "7 degrees"}
PASSED_BACK = {
    "error": {
        "message": "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "type": "invalid_request_error",
        "param": None,
        "code": "invalid_request_error",
    }
}
UNSUPPORTED = {
    "error": {
        "message": "'messages.1' : for 'role:assistant' the following must be satisfied"
        "[('messages.1' : property 'reasoning_content' is unsupported)]",
        "type": "invalid_request_error",
    }
}
# History of a client that drops reasoning, and the same with it.
LOST = [ASK, SAID, RESULT]
WHOLE = [ASK, SAID | THOUGHT, RESULT]


def said(message: Mapping[str, object], finish: str = "tool_calls") -> Json:
    """Return a completion with this message."""
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    fixed = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
    return fixed | {"choices": [choice], "usage": usage}


def answer(**more: object) -> bytes:
    """Return a response with a tool call, and these members in its message."""
    return whole(as_json(said(SAID | more)))


def streamed(*deltas: Mapping[str, object], finish: str = "tool_calls") -> bytes:
    """Return a streamed completion with these deltas."""
    fixed = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    choices: list[Json] = [{"index": 0, "delta": delta} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    events = [b"data: " + as_json(fixed | {"choices": [one]}) + b"\n\n" for one in choices]
    pieces = [b": PROCESSING\n\n", *events, b"data: [DONE]\n\n"]
    return stream_head() + b"".join(map(chunk, pieces)) + b"0\r\n\r\n"


def refusal(body: object) -> bytes:
    """Return a refusal with this body."""
    return whole(as_json(body), status="400 Bad Request")


async def chat(
    w: World, *history: Mapping[str, object], key: str = "sk-a", **more: object
) -> Answer:
    """Request a completion of this history."""
    headers = (f"Authorization: Bearer {key}", "Content-Type: application/json")
    body = as_json({"model": MODEL, "messages": history} | more)
    return await w.ask(request("POST", CHAT, *headers, body=body))


def messages(w: World, index: int = -1) -> list[Json]:
    """Return the messages that upstream received."""
    return list(json.loads(w.upstream.received[index].body)["messages"])
