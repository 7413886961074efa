"""Streams of the Chat Completions API, and turns captured from them."""

import json
from collections.abc import Iterable
from typing import Any

from reasoning_replay.core.dialects.captures import Origin
from reasoning_replay.core.dialects.chat.capture import ChatCapture
from reasoning_replay.core.history.turns import Context, Turn

from tests.core.streams import heard

MODEL = "glm-5"
DONE = b"data: [DONE]\n\n"


def call(
    name: str, arguments: str = "{}", index: int | None = 0, call_id: str | None = "", **more: Any
) -> dict[str, Any]:
    """Return a tool call, or a fragment of one; None: without the field."""
    made: dict[str, Any] = {"type": "function", "function": {"arguments": arguments}, **more}
    if name:
        made["function"]["name"] = name
    if index is not None:
        made["index"] = index
    if call_id is not None:
        made["id"] = call_id or f"call_{name}"
    return made


def details(kind: str, index: int | None = 0, **more: Any) -> dict[str, Any]:
    """Return an entry of `reasoning_details`, or a fragment of one."""
    made = {"type": f"reasoning.{kind}", **more, "format": "unknown"}
    return made if index is None else made | {"index": index}


def chunk(delta: Any = None, finish: Any = None, index: Any = 0, **more: Any) -> bytes:
    """Return one event of a stream."""
    choice = {"index": index, "delta": delta or {}, "finish_reason": finish}
    top = {"id": "chatcmpl-1", "created": 17, "model": MODEL, "choices": [choice], **more}
    return f"data: {json.dumps(top)}\n\n".encode()


def ended(reason: str = "stop") -> bytes:
    """Return the last events of a stream."""
    return chunk(finish=reason) + DONE


def stream(*deltas: Any, reason: str = "stop") -> bytes:
    """Return a whole stream of these deltas."""
    return b"".join(map(chunk, deltas)) + ended(reason)


def answer(message: Any, reason: str | None = "stop", **more: Any) -> bytes:
    """Return a whole JSON response."""
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    top = {"id": "chatcmpl-1", "created": 17, "model": MODEL, "choices": choices, **more}
    return json.dumps(top, ensure_ascii=False).encode()


def capture(max_bytes: int = 1 << 20, **more: Any) -> ChatCapture:
    """Return the capture for a response to a request without history."""
    return ChatCapture(Origin(Context(is_known=True), MODEL, **more), max_bytes)


def turn_of(pieces: bytes | Iterable[bytes]) -> Turn | None:
    """Return the turn that is captured from a stream, or from a JSON response."""
    return heard(capture(), pieces).snapshot(1).turn
