"""Requests of one conversation with two tool calls, in the forms that a healing sees."""

import json
from typing import Any

from reasoning_replay.core.dialects.chat.request import ChatRequest, read_request

Json = dict[str, Any]

ASK: Json = {"role": "user", "content": "What is the weather?"}
SIGNED = {"google": {"thought_signature": "Es4DCssDAb4"}}
ENCRYPTED = [{"type": "reasoning.encrypted", "data": "EvcDCvQD", "index": 0}]


def call(number: int, **more: object) -> Json:
    """Return a tool call."""
    function = {"name": "look_up", "arguments": json.dumps({"place": number})}
    return {"id": f"call_{number}", "type": "function", "function": function, **more}


def message(*calls: Json, **more: object) -> Json:
    """Return an assistant message with these calls."""
    return {
        "role": "assistant",
        "content": None,
        **more,
        **({"tool_calls": calls} if calls else {}),
    }


def result(number: int) -> Json:
    """Return the output of a call."""
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": f"result {number}"}


RESULT = result(1)


def body(*messages: Json, **more: object) -> bytes:
    """Return a request with odd spacing and a number that a JSON round trip would rewrite."""
    rest = {"model": "vendor-large", **more}
    given = b" , ".join(json.dumps(one, separators=(", ", ":")).encode() for one in messages)
    return b'{ "messages" :\n[' + given + b'],"top_p":1.0e0,' + json.dumps(rest).encode()[1:]


def read(*messages: Json, **more: object) -> ChatRequest:
    """Return a parsed request."""
    return read_request(body(*messages, **more), {})
