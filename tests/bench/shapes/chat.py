"""Chat Completions: requests, completions and chunks in the form of real ones."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.bench.shapes.dialect import (
    TURN_CHARS,
    Dialect,
    Item,
    compact,
    digits,
    lines_of,
    stamped,
)

_MODEL = "deepseek-reasoner"
_THOUGHTS = 4  # number of chunks of a stream with reasoning
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file of the workspace.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


def _call(call_id: str, path: str) -> Item:
    said = {"name": "read_file", "arguments": json.dumps({"path": path})}
    return {"id": call_id, "type": "function", "function": said}


def _usage() -> Item:
    return {
        "prompt_tokens": 812,
        "completion_tokens": 96,
        "total_tokens": 908,
        "prompt_tokens_details": {"cached_tokens": 512},
        "completion_tokens_details": {"reasoning_tokens": 64},
    }


def _chunk(number: int, delta: Item, reason: str | None = None, **more: Any) -> bytes:
    told = {
        "id": f"chatcmpl-{digits('stream', number, count=32)}",
        "object": "chat.completion.chunk",
        "created": 1_780_000_000,
        "model": _MODEL,
        "system_fingerprint": "fp_0123456789",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
    }
    return b"data: %b\n\n" % compact(told | more)


class _Chat(Dialect):
    name = "chat"
    path = "/v1/chat/completions"
    items = "messages"
    items_a_turn = 2
    key = "messages"
    small_chars = (430, 1_010)
    members: ClassVar[Item] = {"model": _MODEL, "messages": [], "tools": _TOOLS}
    stream_members: ClassVar[Item] = {"stream": True, "stream_options": {"include_usage": True}}
    ending = b"data: [DONE]\n"

    def user(self, text: str) -> Item:
        return {"role": "user", "content": text}

    def said(self, _: str, text: str) -> Item:
        reasoning = lines_of(100, "first")
        return {"role": "assistant", "content": text, "reasoning_content": reasoning}

    def emits(
        self, this: str, text: str, path: str, chars: int, of: Sequence[object]
    ) -> list[Item]:
        reasoning = lines_of(chars, *of, "reasoning")
        said = {"role": "assistant", "content": text or None, "reasoning_content": reasoning}
        return [said | {"tool_calls": [_call(f"call_{this[-24:]}", path)]}]

    def envelope(self, this: str, items: list[Item]) -> bytes:
        [message] = items
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
        return compact(
            {
                "id": f"chatcmpl-{this[-32:]}",
                "object": "chat.completion",
                "created": 1_780_000_000,
                "model": _MODEL,
                "choices": [choice],
                "usage": _usage(),
                "system_fingerprint": "fp_0123456789",
            }
        )

    def output(self, emitted: list[Item], text: str) -> Item:
        [call] = emitted[-1]["tool_calls"]
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    def dropped(self, message: Item) -> Item:
        return {name: value for name, value in message.items() if name != "reasoning_content"}

    def seen(self, message: Item) -> list[str | None]:
        return [message["role"], message.get("reasoning_content")]

    def opening(self, number: int) -> list[bytes]:
        piece = TURN_CHARS // _THOUGHTS
        return [
            _chunk(number, {"role": "assistant", "content": None, "reasoning_content": ""}),
            *[
                _chunk(number, {"content": None, "reasoning_content": lines_of(piece, number, at)})
                for at in range(_THOUGHTS)
            ],
        ]

    def delta(self, number: int) -> bytes:
        return stamped(_chunk(number, {"content": " word %d", "reasoning_content": None}))

    def closing(self, number: int, deltas: int) -> list[bytes]:
        return [
            _chunk(number, {"content": "", "reasoning_content": None}, "stop"),
            _chunk(number, {}, choices=[], usage=_usage()),
            b"data: [DONE]\n\n",
        ]


CHAT = _Chat()
