"""Requests and responses of the Messages API in these tests: blocks, streams, refusals."""

import json
from collections.abc import Mapping
from typing import Any

from tests.web.line import Answer, request
from tests.web.wire import as_json, chunk, stream_head, whole
from tests.web.world import World

Json = dict[str, Any]

PATH = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
MODEL = "claude-sonnet-4-6"
VERTEX = f"/v1/projects/p/locations/l/publishers/anthropic/models/{MODEL}:rawPredict"
BOUND = "claude-fable-5-1"  # its blocks are bound to the history before them
ASK: Json = {"role": "user", "content": "What is the weather in Oslo?"}
THOUGHT: Json = {"type": "thinking", "thinking": "I must look it up.", "signature": "EpMDCkYI=="}
REDACTED: Json = {"type": "redacted_thinking", "data": "EvAFCoYBGAIiQ=="}
TEXT: Json = {"type": "text", "text": "Let me look at the weather station in Oslo."}
CALL: Json = {
    "type": "tool_use",
    "id": "toolu_01Zk3mQ9xT7bLw2RsV",
    "name": "get_weather",
    "input": {"city": "Oslo"},
}
RESULT: Json = {
    "role": "user",
    "content": [{"type": "tool_result", "tool_use_id": CALL["id"], "content": "7 degrees"}],
}
EXPECTED = (
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. "
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block."
)
INVALID = "messages.1.content.0: Invalid `signature` in `thinking` block"
# History of a client that drops reasoning, and the same with it.
LOST: list[Json] = [ASK, {"role": "assistant", "content": [TEXT, CALL]}, RESULT]
WHOLE: list[Json] = [ASK, {"role": "assistant", "content": [THOUGHT, TEXT, CALL]}, RESULT]

_USAGE = {"input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": 1}


def answer(*blocks: Json, reason: str = "tool_use", number: int = 1, model: str = MODEL) -> bytes:
    """Return a response with these blocks."""
    top = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": model}
    usage = _USAGE | {"output_tokens": 9}
    body = {"content": blocks, "stop_reason": reason, "stop_sequence": None, "usage": usage}
    return whole(as_json(top | body))


def streamed(*blocks: Json, reason: str = "tool_use") -> bytes:
    """Return a streamed response with these blocks; texts and inputs come in two deltas."""
    top = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": []}
    events: list[Json] = [{"type": "message_start", "message": top | {"usage": _USAGE}}]
    for index, block in enumerate(blocks):
        events += [one | {"index": index} for one in _events_of(block)]
    end = {"stop_reason": reason, "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    pieces = [f"event: {one['type']}\ndata: ".encode() + as_json(one) + b"\n\n" for one in events]
    return stream_head() + b"".join(map(chunk, pieces)) + b"0\r\n\r\n"


def _events_of(block: Json) -> list[Json]:
    deltas: list[Json] = []
    first = dict(block)
    for name in ("thinking", "text", "signature"):
        if name in block:
            value, first[name] = block[name], ""
            parts = (value,) if name == "signature" else (value[:5], value[5:])
            deltas += [{"type": f"{name}_delta", name: part} for part in parts]
    if "input" in block:
        first["input"] = {}
        value = json.dumps(block["input"])
        kind = {"type": "input_json_delta"}
        deltas += [kind | {"partial_json": part} for part in ("", value[:5], value[5:])]
    made = [{"type": "content_block_delta", "delta": delta} for delta in deltas]
    start = {"type": "content_block_start", "content_block": first}
    return [start, *made, {"type": "content_block_stop"}]


def refusal(message: str) -> bytes:
    """Return a refusal with this text."""
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    return whole(as_json(body), status="400 Bad Request")


async def send(
    w: World,
    *history: Mapping[str, object],
    path: str = PATH,
    key: str = "x-api-key: sk-ant-a",
    model: str | None = MODEL,
    **more: object,
) -> Answer:
    """Send this history; `model` None: the path names it."""
    headers = (key, "anthropic-version: 2023-06-01", "Content-Type: application/json")
    named = {} if model is None else {"model": model}
    body = as_json(named | {"max_tokens": 2048, "messages": history} | more)
    return await w.ask(request("POST", path, *headers, body=body))


def messages(w: World, index: int = -1) -> list[Json]:
    """Return the messages that upstream received."""
    return list(w.sent(index)["messages"])
